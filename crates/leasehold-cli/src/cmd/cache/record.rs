//! A record, as it is shown.

use leasehold::Name;
use leasehold::cache::CacheEntry;
use serde::Serialize;
use serde_json::Value;

use crate::cmd::follow;
use crate::failure::Failure;
use crate::output;
use crate::text::{one_line, visible, visible_json};

/// A record. Field names are a promise.
#[derive(Serialize)]
pub(super) struct RecordJson<'a> {
    name: &'a str,
    namespace: &'a str,
    version: u64,
    value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl<'a> RecordJson<'a> {
    pub(super) fn new(name: &'a Name, entry: &CacheEntry<Value>) -> Self {
        let (value, problem) = match entry.value() {
            Ok(value) => (Some(Value::clone(&value)), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (name, namespace) = (name.as_str(), name.namespace().as_str());
        Self { name, namespace, version: entry.version(), value, problem }
    }

    /// For programs: name, version, value.
    pub(super) fn columns(&self) -> String {
        format!("{}\t{}\t{}\n", one_line(self.name), self.version, self.shown())
    }

    fn shown(&self) -> String {
        match &self.value {
            Some(value) => visible_json(&value.to_string()),
            None => "(no JSON)".into(),
        }
    }
}

/// Something that happened to a record, or to all of them. Field names are a promise.
#[derive(Serialize)]
pub(super) struct RecordLine<'a> {
    at: String,
    event: &'static str,
    #[serde(flatten)]
    record: Option<RecordJson<'a>>,
}

impl<'a> RecordLine<'a> {
    pub(super) fn of(event: &'static str, name: &'a Name, entry: &CacheEntry<Value>) -> Self {
        Self { record: Some(RecordJson::new(name, entry)), ..Self::bare(event) }
    }

    /// Of no record.
    pub(super) fn bare(event: &'static str) -> Self {
        Self { at: follow::now(), event, record: None }
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return output::print_json_line(self);
        }
        let record = self.record.as_ref();
        let text = record.map(|it| format!("{}  {}", visible(it.name), it.shown()));
        output::print(&follow::line(self.event, &text.unwrap_or_default()))
    }
}
