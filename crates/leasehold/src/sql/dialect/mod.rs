//! The three ways to write SQL, a file each, and the names that may be put into it.

pub(super) mod meaning;
mod mysql;
pub(super) mod postgres;
mod sqlite;
pub(crate) mod syntax;

use self::mysql::MysqlSyntax;
use self::postgres::PostgresSyntax;
use self::sqlite::SqliteSyntax;
use self::syntax::Syntax;
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
    /// How it writes what the others write differently.
    pub(crate) const fn syntax(self) -> &'static dyn Syntax {
        match self {
            Self::Postgres => &PostgresSyntax,
            Self::Mysql => &MysqlSyntax,
            Self::Sqlite => &SqliteSyntax,
        }
    }

    /// The name of a table, with its schema before a dot if it is given.
    pub(crate) fn table(self, name: &str) -> Result<String> {
        check_table(name)?;
        let parts: Vec<_> = name.split('.').map(|part| self.syntax().quoted(part)).collect();
        Ok(parts.join("."))
    }

    /// The name of a column, quoted: as the database stores it, so that words
    /// such as `order` can be used.
    pub(crate) fn column(self, name: &str) -> Result<String> {
        check_part(name)?;
        Ok(self.syntax().quoted(name))
    }

    /// The place of a value, counted from 1.
    pub(crate) fn place(self, at: usize) -> String {
        self.syntax().place(at)
    }
}

/// Refuses what cannot be the name of a table in any dialect.
pub(super) fn check_table(name: &str) -> Result<()> {
    let parts: Vec<_> = name.split('.').collect();
    if parts.len() > 2 {
        return Err(refused(name));
    }
    parts.into_iter().try_for_each(check_part)
}

fn check_part(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let starts = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    if !starts || name.len() > LONGEST || !name.bytes().all(plain) {
        return Err(refused(name));
    }
    Ok(())
}

/// A name made of two others, short enough for every server. One that is cut, or
/// could have been made of two others, says by a number which it is: two that
/// were called the same would be one.
pub(super) fn compound(prefix: &str, one: &str, other: &str) -> String {
    let whole = format!("{prefix}{one}_{other}");
    let clear = !one.contains('_') && !other.contains('_');
    if clear { short(whole) } else { numbered(&whole, &format!("{one}.{other}")) }
}

/// A name that is short enough for every server, and not that of another.
pub(super) fn short(name: String) -> String {
    if name.len() <= LONGEST { name } else { numbered(&name, &name) }
}

fn numbered(name: &str, of: &str) -> String {
    let head: String = name.chars().take(LONGEST - 17).collect();
    format!("{head}_{:016x}", digest(of))
}

/// FNV-1a: the same everywhere and for ever.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
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

    #[test]
    fn no_two_compounds_are_called_the_same() {
        assert_eq!(compound("x_", "goods", "version"), "x_goods_version");
        assert_ne!(compound("x_", "a_b", "c"), compound("x_", "a", "b_c"));
        let long =
            |end: &str| compound("leasehold_guard_", &format!("{}{end}", "t".repeat(62)), "n");
        assert_ne!(long("1"), long("2"));
        assert!(Dialect::Postgres.column(&long("1")).is_ok());
    }
}
