//! Lease ids: the secrets of leases, and where their bits come from.

#[cfg(not(leasehold_sim))]
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(leasehold_sim)]
pub(crate) use crate::sim::random_bits;

/// The secret of a lease: 128 random bits, chosen by the client before it asks.
///
/// Whoever knows it may renew or release the lease, so it never appears in
/// `Debug`. Its shape is that of a version 4 UUID, as other clients expect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u128);

impl LeaseId {
    /// A fresh, unguessable id.
    #[must_use]
    pub fn random() -> Self {
        const VERSION: u128 = 0xf << 76;
        const VARIANT: u128 = 0b11 << 62;
        Self((random_bits() & !VERSION & !VARIANT) | (4 << 76) | (0b10 << 62))
    }

    /// The id as a number, for an engine to store.
    #[must_use]
    pub const fn to_bits(self) -> u128 {
        self.0
    }

    /// The id an engine stored.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The id as the UUID that it is.
    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(crate) fn to_uuid(self) -> String {
        let hex = format!("{:032x}", self.0);
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// The id of such a UUID.
    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(crate) fn from_uuid(uuid: &str) -> Option<Self> {
        u128::from_str_radix(&uuid.replace('-', ""), 16).ok().map(Self)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseId(secret)")
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl serde::Serialize for LeaseId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:032x}", self.0))
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl<'de> serde::Deserialize<'de> for LeaseId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(from)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Which process the stocks of random bits belong to; see [`new_process`].
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// A forked child must not hand out what its parent hands out: every home that
/// starts makes the stocks of its process. (Asking for the process id each
/// time would cost more than the rest of an uncontended lock in memory.)
pub(crate) fn new_process() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

/// Which process this is, to tell a forked child from its parent.
pub(super) fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// 128 bits from the system's generator, fetched many at a time: ids are
/// secrets, but a system call for each would cost more than the lock itself.
#[cfg(not(leasehold_sim))]
pub(crate) fn random_bits() -> u128 {
    const AT_ONCE: usize = 256;
    thread_local! {
        static STOCK: RefCell<(u32, Vec<u128>)> = const { RefCell::new((0, Vec::new())) };
    }
    STOCK.with_borrow_mut(|(owner, stock)| {
        let here = process();
        if *owner != here || stock.is_empty() {
            (*owner, *stock) = (here, fresh_bits(AT_ONCE));
        }
        stock.pop().unwrap_or_else(|| fresh_bits(1)[0])
    })
}

#[cfg(not(leasehold_sim))]
fn fresh_bits(count: usize) -> Vec<u128> {
    let mut bytes = vec![0; count * 16];
    getrandom::fill(&mut bytes).expect("the operating system gives no random numbers");
    bytes.as_chunks::<16>().0.iter().map(|chunk| u128::from_le_bytes(*chunk)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ids_are_random_uuids_and_stay_secret() {
        let (a, b) = (LeaseId::random(), LeaseId::random());
        assert_ne!(a, b);
        assert_eq!(a.to_bits() >> 76 & 0xf, 4);
        assert_eq!(a.to_bits() >> 62 & 0b11, 0b10);
        assert!(!format!("{a:?}").contains(&format!("{:x}", a.to_bits())));
    }
}
