//! A statement as text, with the values that it takes.

use std::fmt;

use super::dialect::Dialect;
use crate::error::Result;

/// A statement as text, for any driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    text: String,
    values: Vec<String>,
}

impl Statement {
    /// The SQL.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The values to give, in this order, each by the name of its column. On
    /// MySQL, which has no numbered places, one may be asked for twice.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A statement in the making.
pub(super) struct Draft {
    dialect: Dialect,
    text: String,
    values: Vec<String>,
}

impl Draft {
    pub(super) const fn new(dialect: Dialect) -> Self {
        Self { dialect, text: String::new(), values: Vec::new() }
    }

    /// Words that are ours.
    pub(super) fn words(mut self, words: &str) -> Self {
        self.text.push_str(words);
        self
    }

    pub(super) fn table(mut self, name: &str) -> Result<Self> {
        self.text.push_str(&self.dialect.table(name)?);
        Ok(self)
    }

    pub(super) fn column(mut self, name: &str) -> Result<Self> {
        self.text.push_str(&self.dialect.column(name)?);
        Ok(self)
    }

    /// The place of a value that is meant for `column`.
    pub(super) fn value(mut self, column: &str) -> Self {
        let known = self.values.iter().position(|value| value == column);
        let known = known.filter(|_| self.dialect.syntax().counts_places());
        let at = known.unwrap_or_else(|| {
            self.values.push(column.to_owned());
            self.values.len() - 1
        });
        self.text.push_str(&self.dialect.place(at + 1));
        self
    }

    pub(super) fn done(self) -> Statement {
        Statement { text: self.text, values: self.values }
    }
}
