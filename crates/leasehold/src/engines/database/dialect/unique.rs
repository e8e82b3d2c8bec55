//! What a row of the user's table asks of a family. Places are `:name`, `:token`,
//! `:ttl` in microseconds, and `:owner`.

use crate::error::Result;

/// How a family writes the statements about such a row.
pub(crate) trait UniqueFamily {
    /// The present, as the column of ends has it.
    fn time(&self) -> &'static str;

    /// The end of a lease that begins now.
    fn end(&self) -> String;

    /// The microseconds that are left until an end.
    fn left(&self, expires: &str) -> String;

    fn as_text(&self, column: &str) -> String;

    /// Adds the row if there is none; takes one that is ours or over, if one
    /// insert can do both.
    fn insert_row(&self, names: &QuotedNames) -> String;

    /// Takes a row that is ours or over, where an insert does not.
    fn take_row(&self, names: &QuotedNames) -> Option<String>;

    /// Asks about the columns of a table, and what the question takes: name, type,
    /// length (0 for no limit), unique (1 or 0), collation.
    fn survey(&self, table: &str) -> Result<(&'static str, Vec<Option<String>>)>;

    /// Whether a column keeps every text as it is.
    fn fits_text(&self, column: &UserColumn) -> bool;

    /// The columns that do.
    fn text_kinds(&self) -> &'static str;

    /// Whether a column keeps microseconds.
    fn fits_time(&self, column: &UserColumn) -> bool;

    /// The columns that do.
    fn time_kinds(&self) -> &'static str;

    /// Whether a column compares without case, accents or blanks.
    fn folds(&self, column: &UserColumn) -> bool;
}

/// A column of the user's table, as it is.
#[derive(Debug)]
pub(crate) struct UserColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// Characters, or digits of a second; 0 for no limit.
    pub(crate) length: i64,
    pub(crate) unique: bool,
    pub(crate) collation: String,
}

/// The table and its columns, quoted.
pub(crate) struct QuotedNames {
    pub(crate) table: String,
    pub(crate) key: String,
    pub(crate) token: Option<String>,
    pub(crate) expires: Option<String>,
    pub(crate) owner: Option<String>,
}

impl QuotedNames {
    /// Ours and the columns that go with it, each with what goes into it.
    pub(super) fn filled(&self, end: String) -> Vec<(&str, String)> {
        let token = self.token.iter().map(|it| (it.as_str(), ":token".to_owned()));
        let expires = self.expires.iter().map(|it| (it.as_str(), end.clone()));
        let owner = self.owner.iter().map(|it| (it.as_str(), ":owner".to_owned()));
        token.chain(expires).chain(owner).collect()
    }

    /// What an insert says after its first words.
    pub(super) fn insertion(&self, end: String) -> String {
        let (mut columns, mut values) = (self.key.clone(), ":name".to_owned());
        for (column, value) in self.filled(end) {
            columns = format!("{columns}, {column}");
            values = format!("{values}, {value}");
        }
        format!("INTO {} ({columns}) VALUES ({values})", self.table)
    }

    /// What goes into a column that had another value: an end only moves on, for
    /// a guard may believe in the later one.
    pub(crate) fn no_less(&self, column: &str, old: &str, new: String) -> String {
        match &self.expires {
            Some(expires) if expires == column => format!("GREATEST({old}, {new})"),
            _ => new,
        }
    }
}
