//! The three ways to write SQL, and the names that may be put into it.

use crate::error::{Error, Result};

/// How a database writes its SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
    /// SQLite.
    Sqlite,
}

/// The longest name of a table or column that all of them take.
const LONGEST: usize = 63;

impl Dialect {
    /// The name of a table, with its schema before a dot if it is given.
    pub(crate) fn table(self, name: &str) -> Result<String> {
        let parts: Vec<_> = name.split('.').collect();
        if parts.len() > 2 {
            return Err(refused(name));
        }
        let quoted = parts.into_iter().map(|part| self.column(part));
        Ok(quoted.collect::<Result<Vec<_>>>()?.join("."))
    }

    /// The name of a column, quoted: as the database stores it, so that words
    /// such as `order` can be used.
    pub(crate) fn column(self, name: &str) -> Result<String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let starts = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        if !starts || name.len() > LONGEST || !name.bytes().all(plain) {
            return Err(refused(name));
        }
        Ok(match self {
            Self::Mysql => format!("`{name}`"),
            Self::Postgres | Self::Sqlite => format!("\"{name}\""),
        })
    }

    /// The place of a value, counted from 1.
    pub(super) fn place(self, at: usize) -> String {
        match self {
            Self::Postgres => format!("${at}"),
            Self::Mysql => "?".into(),
            Self::Sqlite => format!("?{at}"),
        }
    }

    /// Whether a value that is used twice is given once.
    pub(super) const fn counts_places(self) -> bool {
        !matches!(self, Self::Mysql)
    }
}

/// Not repeated as it is: it may be anything.
fn refused(name: &str) -> Error {
    let head: String = name.chars().take(40).collect();
    Error::invalid(format!(
        "{head:?} cannot be the name of a table or column: use 1 to {LONGEST} of a-z A-Z 0-9 _, \
         not a digit first, and a schema before one dot"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_nothing_else_gets_in() {
        assert_eq!(Dialect::Postgres.table("shop.order").unwrap(), r#""shop"."order""#);
        assert_eq!(Dialect::Mysql.table("goods").unwrap(), "`goods`");
        let long = "x".repeat(64);
        for bad in ["", "a b", "a\"b", "a`b", "a;--", "a.b.c", ".a", "1a", "é", long.as_str()] {
            for dialect in [Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite] {
                assert!(dialect.table(bad).is_err(), "{bad}");
            }
        }
        assert!(Dialect::Sqlite.column("a.b").is_err());
    }
}
