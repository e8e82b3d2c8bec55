//! What bytes go through: a connection, with TLS around it or not.

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection of either kind.
pub(in crate::engines) trait ByteStream:
    AsyncRead + AsyncWrite + Send + Unpin
{
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}
