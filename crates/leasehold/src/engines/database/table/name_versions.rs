//! Whether names are as they were, without reading all of them.

/// Up to the list of names, which are two columns each.
pub(super) const VERSIONS: &str =
    "SELECT namespace, name, version, lease FROM {names} WHERE (namespace, name) IN";

/// What tells whether a name is as it was, without reading all of it.
#[derive(Debug)]
pub(super) struct NameVersion {
    pub(super) version: i64,
    /// Who holds it alone.
    pub(super) lease: Option<String>,
}
