//! A look at the user's table: is it fit to be a lock?

use std::sync::Arc;

use super::options::UserTable;
use crate::engine::{Finding, Severity};
use crate::engines::database::dialect::Dialect;
use crate::engines::database::drivers::{Row, Value};
use crate::engines::database::pool::Pool;
use crate::error::{Error, Result};
use crate::name::NAME_MAX;
use crate::sql;

/// Name, type, length (0 for no limit), unique (1 or 0), collation.
const POSTGRES: &str = "\
SELECT CAST(a.attname AS TEXT), CAST(format_type(a.atttypid, NULL) AS TEXT), \
CAST(CASE WHEN a.atttypmod > 4 THEN a.atttypmod - 4 ELSE 0 END AS BIGINT), \
CAST(CASE WHEN EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique \
AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) \
THEN 1 ELSE 0 END AS BIGINT), CAST('' AS TEXT) \
FROM pg_attribute a \
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped";

const MYSQL: &str = "\
SELECT CONVERT(c.COLUMN_NAME USING utf8mb4), CONVERT(c.DATA_TYPE USING utf8mb4), \
CAST(COALESCE(c.DATETIME_PRECISION, c.CHARACTER_MAXIMUM_LENGTH, 0) AS SIGNED), \
CAST(EXISTS (SELECT 1 FROM information_schema.STATISTICS s \
WHERE s.TABLE_SCHEMA = c.TABLE_SCHEMA AND s.TABLE_NAME = c.TABLE_NAME \
AND s.COLUMN_NAME = c.COLUMN_NAME AND s.NON_UNIQUE = 0 AND s.SUB_PART IS NULL \
AND NOT EXISTS (SELECT 1 FROM information_schema.STATISTICS o \
WHERE o.TABLE_SCHEMA = s.TABLE_SCHEMA AND o.TABLE_NAME = s.TABLE_NAME \
AND o.INDEX_NAME = s.INDEX_NAME AND o.COLUMN_NAME <> s.COLUMN_NAME)) AS SIGNED), \
CONVERT(COALESCE(c.COLLATION_NAME, '') USING utf8mb4) \
FROM information_schema.COLUMNS c \
WHERE c.TABLE_SCHEMA = COALESCE(?, DATABASE()) AND c.TABLE_NAME = ?";

/// The columns that a form names, as they are.
#[derive(Debug)]
pub(super) struct ColumnSurvey {
    dialect: Dialect,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    name: String,
    kind: String,
    /// Characters, or digits of a second; 0 for no limit.
    length: i64,
    unique: bool,
    collation: String,
}

impl ColumnSurvey {
    pub(super) async fn of(form: &UserTable, pool: &Pool) -> Result<Self> {
        let (sql, values) = question(form, pool.dialect())?;
        let rows = pool.run(&sql, values).await?.rows;
        let columns = rows.iter().map(Column::read).collect::<Result<_>>()?;
        let survey = Self { dialect: pool.dialect(), columns };
        survey.check(form)?;
        Ok(survey)
    }

    fn check(&self, form: &UserTable) -> Result<()> {
        for name in form.columns() {
            self.column(name).ok_or_else(|| missing(form, name))?;
        }
        let key = self.column(&form.column);
        if !key.is_some_and(|it| it.unique) {
            return Err(Error::invalid(format!(
                "{}.{} is not unique, so two could hold one lock; \
                 make it the primary key or add a UNIQUE index",
                form.table, form.column
            )));
        }
        let texts = [Some(&form.column), form.token.as_ref(), form.owner.as_ref()];
        for name in texts.into_iter().flatten() {
            self.check_text(name)?;
        }
        self.check_token(form)?;
        form.expires.as_ref().map_or(Ok(()), |name| self.check_time(name))
    }

    /// Other characters would be replaced, and two names become one.
    fn check_text(&self, name: &str) -> Result<()> {
        let fits = self.column(name).is_some_and(|it| match self.dialect {
            Dialect::Postgres => ["text", "character varying"].contains(&it.kind.as_str()),
            Dialect::Mysql => {
                it.kind == "varbinary"
                    || (it.kind == "varchar" && it.collation.starts_with("utf8mb4"))
            }
        });
        let wants = match self.dialect {
            Dialect::Postgres => "TEXT or VARCHAR",
            Dialect::Mysql => "VARBINARY or VARCHAR with the character set utf8mb4",
        };
        check(fits, || format!("the column {name:?} must be {wants}"))
    }

    fn check_token(&self, form: &UserTable) -> Result<()> {
        let token = form.token.as_ref().and_then(|name| self.column(name));
        check(token.is_none_or(|it| it.length == 0 || it.length >= 32), || {
            "the token column is too short: it takes 32 characters".into()
        })
    }

    /// Whole seconds are rounded, and a lease would end before its time.
    fn check_time(&self, name: &str) -> Result<()> {
        let fits = self.column(name).is_some_and(|it| match self.dialect {
            Dialect::Postgres => it.kind == "timestamp with time zone",
            Dialect::Mysql => it.kind == "datetime" && it.length == 6,
        });
        let wants = match self.dialect {
            Dialect::Postgres => "TIMESTAMPTZ",
            Dialect::Mysql => "DATETIME(6); it is in UTC",
        };
        check(fits, || format!("the column {name:?} must be {wants}"))
    }

    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The longest name, in bytes: no more than there are characters.
    pub(super) fn name_max(&self, form: &UserTable) -> usize {
        self.length(&form.column).unwrap_or(NAME_MAX).min(NAME_MAX)
    }

    /// The longest label, in characters.
    pub(super) fn owner_max(&self, form: &UserTable) -> usize {
        form.owner.as_ref().and_then(|name| self.length(name)).unwrap_or(usize::MAX)
    }

    fn length(&self, name: &str) -> Option<usize> {
        let length = self.column(name)?.length;
        usize::try_from(length).ok().filter(|length| *length > 0)
    }

    /// What an operator should know of this table.
    pub(super) fn findings(&self, form: &UserTable) -> Vec<Finding> {
        let folds = self
            .column(&form.column)
            .is_some_and(|it| self.dialect == Dialect::Mysql && it.kind == "varchar");
        let mut found = Vec::new();
        if folds {
            found.push(Finding::new(
                Severity::Warning,
                format!("{} compares names without case, accents or blanks", form.column),
                "names that look alike exclude each other; use VARBINARY to tell them apart",
            ));
        }
        if form.expires.is_none() {
            found.push(Finding::new(
                Severity::Warning,
                "rows do not expire: a holder that dies keeps its lock",
                "name an expiry column with token=..&expires=.., or evict by hand",
            ));
        }
        found
    }
}

impl Column {
    fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            name: row.text(0)?.to_owned(),
            kind: row.text(1)?.to_owned(),
            length: row.int(2)?,
            unique: row.int(3)? != 0,
            collation: row.text(4)?.to_owned(),
        })
    }
}

fn question(form: &UserTable, dialect: Dialect) -> Result<(Arc<str>, Vec<Value>)> {
    Ok(match dialect {
        Dialect::Postgres => {
            (POSTGRES.into(), vec![sql::Dialect::Postgres.table(&form.table)?.into()])
        }
        Dialect::Mysql => {
            let (schema, table) = match form.table.split_once('.') {
                Some((schema, table)) => (Some(schema), table),
                None => (None, form.table.as_str()),
            };
            (MYSQL.into(), vec![schema.into(), table.into()])
        }
    })
}

fn missing(form: &UserTable, column: &str) -> Error {
    Error::invalid(format!(
        "there is no table {:?} with a column {column:?} that this user can see; create it first",
        form.table
    ))
}

fn check(fits: bool, text: impl FnOnce() -> String) -> Result<()> {
    if fits { Ok(()) } else { Err(Error::invalid(text())) }
}
