//! What a server says without being asked.

/// One of the things it says.
#[derive(Debug)]
pub(in crate::engines::redis) enum Push {
    Message {
        channel: Vec<u8>,
        payload: Vec<u8>,
    },
    /// Messages may have been missed. Everything subscribed to is subscribed
    /// to again.
    Gap,
}
