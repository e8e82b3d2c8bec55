//! What a server says on a channel without being asked.

use tokio::sync::mpsc::UnboundedSender;

/// Where what is said goes.
pub(crate) type NoticeSender = UnboundedSender<Notice>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "MySQL has no channels"))]
    Said(String),
    /// Something may have been missed: look again. Also the first thing that is
    /// said, once the channel is listened on.
    Gap,
}
