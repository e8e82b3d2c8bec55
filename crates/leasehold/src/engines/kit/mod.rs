//! What several engines are made of. Knows none of them.

#[cfg(feature = "_server")]
pub(super) mod backoff;
#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql"))]
pub(super) mod by_name;
#[cfg(any(feature = "zookeeper", feature = "etcd"))]
pub(super) mod byte_stream;
#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql"))]
pub(super) mod health;
#[cfg(feature = "_server")]
pub(super) mod hosts;
pub(super) mod lifeline;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) mod record_watch;
#[cfg(any(feature = "zookeeper", feature = "etcd"))]
pub(super) mod request_slots;
#[cfg(feature = "_server")]
pub(super) mod skew;
#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql"))]
pub(super) mod supervise;
#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql", feature = "zookeeper"))]
pub(super) mod timeout;
#[cfg(feature = "_server")]
pub(super) mod tls;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(super) mod waiters;
pub(super) mod watch_queue;
