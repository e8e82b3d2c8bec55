//! Advisory locks on connections of their own.

use std::sync::Arc;

use super::link::Link;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::url::Url;

/// Opens the strategy on a server that is reached.
#[expect(clippy::unused_async, reason = "it will look at the server first")]
pub(in crate::engines::sql) async fn open(
    link: Link,
    _url: &Url,
    _clock: Clock,
) -> Result<Arc<dyn Engine>> {
    Err(Error::new(ErrorKind::Unsupported, "the strategy is not there yet")
        .with("endpoint", link.endpoint()))
}
