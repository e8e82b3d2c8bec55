//! Records.
use super::Inner;
use crate::claim::Record;
use crate::error::Result;
use crate::name::Name;

impl Inner {
    pub(super) async fn record(&self, _name: &Name) -> Result<Option<Record>> {
        Ok(None)
    }
}
