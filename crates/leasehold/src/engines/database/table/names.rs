//! Where the tables are.

use crate::engines::database::dialect::Family;
use crate::error::{Error, Result};
use crate::url::Options;

/// What our tables begin with, unless the user wants otherwise.
pub(super) const PREFIX: &str = "leasehold_";
/// The longest word in front of a table's own name: identifiers have at most
/// 63 bytes, and 64 on MySQL.
const WORD_MAX: usize = 40;

/// The family, the schema and the prefix of our tables.
#[derive(Clone, Debug)]
pub(super) struct TableNames {
    pub(super) family: &'static dyn Family,
    schema: Option<String>,
    prefix: String,
}

impl TableNames {
    pub(super) fn new(
        family: &'static dyn Family,
        schema: Option<&str>,
        prefix: &str,
    ) -> Result<Self> {
        schema.map_or(Ok(()), |schema| check("schema", schema))?;
        check("prefix", prefix)?;
        Ok(Self { family, schema: schema.map(str::to_owned), prefix: prefix.to_owned() })
    }

    pub(super) fn from_options(family: &'static dyn Family, options: &Options) -> Result<Self> {
        Self::new(family, options.get("schema")?, options.get("prefix")?.unwrap_or(PREFIX))
    }

    /// A table of ours, as a statement writes it.
    pub(super) fn table(&self, word: &str) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}{word}", self.prefix),
            None => format!("{}{word}", self.prefix),
        }
    }

    /// What the name of an index begins with: it lives in the schema of its table.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A word that differs for every place: what one lock for all of it is
    /// named after.
    pub(super) fn word(&self) -> String {
        self.table("")
    }
}

/// These words become part of statements, so nothing else may be in them.
fn check(what: &str, word: &str) -> Result<()> {
    let first = word.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    let plain = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if first && plain && word.len() <= WORD_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "option {what:?} takes a-z, 0-9 and _, no digit first, at most {WORD_MAX} of them"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::database::dialect::POSTGRES;

    #[test]
    fn only_plain_words_get_into_a_statement() {
        let names = |schema, prefix| TableNames::new(POSTGRES, schema, prefix);
        assert_eq!(names(Some("app"), "lh_").unwrap().table("names"), "app.lh_names");
        assert_eq!(names(None, "leasehold_").unwrap().table("names"), "leasehold_names");
        for bad in ["", "Lh", "1a", "a-b", "a;b", "a\"b", "a b", "é", &"a".repeat(41)] {
            assert!(names(None, bad).is_err(), "{bad:?}");
            assert!(names(Some(bad), "lh_").is_err(), "{bad:?}");
        }
    }
}
