//! A value with its version, and how it is stored.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::RawRecord;
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// A value with its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// Which writing of the record this is. A version is never reused, not
    /// even after the record was deleted.
    pub version: u64,
}

/// What came of a write with an expectation: its version, or what is there
/// instead.
pub type Swap<T> = std::result::Result<u64, Option<Versioned<T>>>;

pub(super) fn encode<T: Serialize>(name: &Name, value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|cause| {
        Error::invalid("the value cannot be written as JSON").with("record", name).caused_by(cause)
    })
}

pub(super) fn decode<T: DeserializeOwned>(name: &Name, record: &RawRecord) -> Result<Versioned<T>> {
    let value = serde_json::from_slice(&record.value).map_err(|cause| {
        let text = "the record holds something else than this program expects: \
             look who else writes it";
        Error::new(ErrorKind::Unexpected, text).with("record", name).caused_by(cause)
    })?;
    Ok(Versioned { value, version: record.version })
}
