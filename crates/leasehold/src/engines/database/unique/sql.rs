//! The statements, in both dialects.

use std::sync::Arc;

use super::options::UserTable;
use crate::engines::database::dialect::Dialect;
use crate::engines::database::drivers::Value;
use crate::error::Result;
use crate::sql;

/// Everything that is said to the server.
#[derive(Debug)]
pub(super) struct UniqueSql {
    /// Adds the row, if there is none.
    pub(super) insert: UniqueStatement,
    /// Takes a row that is ours or over, where one insert cannot do both.
    pub(super) take: Option<UniqueStatement>,
    pub(super) renew: UniqueStatement,
    pub(super) release: UniqueStatement,
    /// Who has the row: label, microseconds left, token.
    pub(super) look: UniqueStatement,
    pub(super) evict: UniqueStatement,
    /// Rows whose time is over.
    pub(super) stale: Option<UniqueStatement>,
    /// Removes one of them.
    pub(super) sweep: Option<UniqueStatement>,
}

/// A statement and what goes into its places.
#[derive(Debug)]
pub(super) struct UniqueStatement {
    sql: Arc<str>,
    slots: Vec<Placeholder>,
}

#[derive(Clone, Copy, Debug)]
enum Placeholder {
    Name,
    Token,
    Ttl,
    Owner,
}

/// What a statement is about.
#[derive(Clone, Debug, Default)]
pub(super) struct StatementValues {
    pub(super) name: String,
    pub(super) token: String,
    pub(super) owner: String,
    /// In microseconds.
    pub(super) ttl: i64,
}

impl UniqueStatement {
    pub(super) const fn sql(&self) -> &Arc<str> {
        &self.sql
    }

    pub(super) fn values(&self, facts: &StatementValues) -> Vec<Value> {
        let value = |slot: &Placeholder| match slot {
            Placeholder::Name => Value::from(facts.name.as_str()),
            Placeholder::Token => Value::from(facts.token.as_str()),
            Placeholder::Owner => Value::from(facts.owner.as_str()),
            Placeholder::Ttl => Value::from(facts.ttl),
        };
        self.slots.iter().map(value).collect()
    }
}

impl UniqueSql {
    pub(super) fn new(form: &UserTable, dialect: Dialect) -> Result<Self> {
        let names = QuotedNames::new(form, dialect)?;
        Ok(Self {
            insert: names.insert(),
            take: names.take(),
            renew: names.renew(),
            release: names.release(),
            look: names.look(),
            evict: names.evict(),
            stale: names.stale(),
            sweep: names.sweep(),
        })
    }
}

/// The columns, quoted.
struct QuotedNames {
    dialect: Dialect,
    table: String,
    key: String,
    token: Option<String>,
    expires: Option<String>,
    owner: Option<String>,
}

impl QuotedNames {
    fn new(form: &UserTable, dialect: Dialect) -> Result<Self> {
        let quote = match dialect {
            Dialect::Postgres => sql::Dialect::Postgres,
            Dialect::Mysql => sql::Dialect::Mysql,
        };
        let maybe = |name: &Option<String>| name.as_deref().map(|it| quote.column(it)).transpose();
        Ok(Self {
            dialect,
            table: quote.table(&form.table)?,
            key: quote.column(&form.column)?,
            token: maybe(&form.token)?,
            expires: maybe(&form.expires)?,
            owner: maybe(&form.owner)?,
        })
    }
}

impl QuotedNames {
    /// Ours and the columns that go with it, each with what goes into it.
    fn filled(&self) -> Vec<(&str, String)> {
        let token = self.token.iter().map(|it| (it.as_str(), ":token".to_owned()));
        let expires = self.expires.iter().map(|it| (it.as_str(), self.end()));
        let owner = self.owner.iter().map(|it| (it.as_str(), ":owner".to_owned()));
        token.chain(expires).chain(owner).collect()
    }

    fn insert(&self) -> UniqueStatement {
        let Self { table, key, .. } = self;
        let (mut columns, mut values) = (key.clone(), ":name".to_owned());
        for (column, value) in self.filled() {
            columns = format!("{columns}, {column}");
            values = format!("{values}, {value}");
        }
        self.text(&match self.dialect {
            Dialect::Postgres => {
                let conflict = self.conflict();
                format!("INSERT INTO {table} ({columns}) VALUES ({values}) {conflict}")
            }
            Dialect::Mysql => format!("INSERT IGNORE INTO {table} ({columns}) VALUES ({values})"),
        })
    }

    /// What an insert does about a row that is there: nothing, or take it if it
    /// is ours or over. Ours may have been promised for longer.
    fn conflict(&self) -> String {
        let Self { table, key, .. } = self;
        let Some(token) = &self.token else { return format!("ON CONFLICT ({key}) DO NOTHING") };
        let set = self.filled().into_iter().map(|(column, _)| {
            let new = format!("excluded.{column}");
            format!("{column} = {}", self.no_less(column, &format!("{table}.{column}"), new))
        });
        let set = set.collect::<Vec<_>>().join(", ");
        let over = self.expires.as_ref().map(|it| format!(" OR {table}.{it} <= {}", self.now()));
        let over = over.unwrap_or_default();
        format!(
            "ON CONFLICT ({key}) DO UPDATE SET {set} \
             WHERE {table}.{token} = excluded.{token}{over}"
        )
    }

    /// MySQL has no condition on what an insert does about a row that is there.
    fn take(&self) -> Option<UniqueStatement> {
        let Self { table, key, .. } = self;
        let token = self.token.as_ref().filter(|_| self.dialect == Dialect::Mysql)?;
        let set = self
            .filled()
            .into_iter()
            .map(|(column, value)| format!("{column} = {}", self.no_less(column, column, value)));
        let set = set.collect::<Vec<_>>().join(", ");
        let over = self.expires.as_ref().map(|it| format!(" OR {it} <= {}", self.now()));
        let over = over.unwrap_or_default();
        Some(self.text(&format!(
            "UPDATE {table} SET {set} WHERE {key} = :name AND ({token} = :token{over})"
        )))
    }

    fn renew(&self) -> UniqueStatement {
        let Self { table, .. } = self;
        let ours = self.ours();
        self.text(&match &self.expires {
            Some(expires) => {
                let end = self.no_less(expires, expires, self.end());
                format!("UPDATE {table} SET {expires} = {end} WHERE {ours}")
            }
            None => format!("SELECT 1 FROM {table} WHERE {ours}"),
        })
    }

    fn release(&self) -> UniqueStatement {
        self.text(&format!("DELETE FROM {} WHERE {}", self.table, self.ours()))
    }

    fn look(&self) -> UniqueStatement {
        let Self { table, key, .. } = self;
        let text = |column: &Option<String>| {
            column.as_ref().map_or_else(|| "NULL".to_owned(), |it| self.as_text(it))
        };
        let (left, live) = match &self.expires {
            Some(it) => (self.left(it), format!(" AND ({it} IS NULL OR {it} > {})", self.now())),
            None => ("NULL".to_owned(), String::new()),
        };
        let (owner, token) = (text(&self.owner), text(&self.token));
        self.text(&format!(
            "SELECT {owner}, {left}, {token} FROM {table} WHERE {key} = :name{live}"
        ))
    }

    /// Of the lease that is looked at, not of one that came after it.
    fn evict(&self) -> UniqueStatement {
        let Self { table, key, .. } = self;
        let same = self.token.as_ref().map(|it| format!(" AND {it} = :token")).unwrap_or_default();
        self.text(&format!("DELETE FROM {table} WHERE {key} = :name{same}"))
    }

    fn stale(&self) -> Option<UniqueStatement> {
        let (expires, key) = (self.expires.as_ref()?, self.as_text(&self.key));
        let (table, now) = (&self.table, self.now());
        Some(self.text(&format!("SELECT {key} FROM {table} WHERE {expires} <= {now} LIMIT 100")))
    }

    fn sweep(&self) -> Option<UniqueStatement> {
        let (expires, now) = (self.expires.as_ref()?, self.now());
        let Self { table, key, .. } = self;
        Some(self.text(&format!("DELETE FROM {table} WHERE {key} = :name AND {expires} <= {now}")))
    }

    /// The row of a lease that is not over.
    fn ours(&self) -> String {
        let token = self.token.as_ref().map(|it| format!(" AND {it} = :token"));
        let live = self.expires.as_ref().map(|it| format!(" AND {it} > {}", self.now()));
        format!("{} = :name{}{}", self.key, token.unwrap_or_default(), live.unwrap_or_default())
    }

    const fn now(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => "clock_timestamp()",
            Dialect::Mysql => "UTC_TIMESTAMP(6)",
        }
    }

    fn end(&self) -> String {
        match self.dialect {
            Dialect::Postgres => format!("{} + :ttl * interval '1 microsecond'", self.now()),
            Dialect::Mysql => format!("{} + INTERVAL :ttl MICROSECOND", self.now()),
        }
    }

    /// What goes into a column that had another value: an end only moves on, for
    /// a guard may believe in the later one.
    fn no_less(&self, column: &str, old: &str, new: String) -> String {
        match &self.expires {
            Some(expires) if expires == column => format!("GREATEST({old}, {new})"),
            _ => new,
        }
    }

    fn left(&self, expires: &str) -> String {
        let now = self.now();
        match self.dialect {
            Dialect::Postgres => {
                format!("CAST(EXTRACT(EPOCH FROM {expires} - {now}) * 1000000 AS BIGINT)")
            }
            Dialect::Mysql => format!("TIMESTAMPDIFF(MICROSECOND, {now}, {expires})"),
        }
    }

    fn as_text(&self, column: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("CAST({column} AS TEXT)"),
            Dialect::Mysql => format!("CONVERT({column} USING utf8mb4)"),
        }
    }

    /// A statement, with places where `:name` and the like stand.
    fn text(&self, draft: &str) -> UniqueStatement {
        let mut parts = draft.split(':');
        let (mut sql, mut slots) = (parts.next().unwrap_or_default().to_owned(), Vec::new());
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(part.len());
            slots.push(slot(&part[..end]));
            match self.dialect {
                Dialect::Postgres => sql.push_str(&format!("${}", slots.len())),
                Dialect::Mysql => sql.push('?'),
            }
            sql.push_str(&part[end..]);
        }
        UniqueStatement { sql: sql.into(), slots }
    }
}

fn slot(word: &str) -> Placeholder {
    match word {
        "token" => Placeholder::Token,
        "ttl" => Placeholder::Ttl,
        "owner" => Placeholder::Owner,
        _ => Placeholder::Name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::Url;

    fn texts(dialect: Dialect, options: &str) -> UniqueSql {
        let url = Url::parse(&format!("postgres://h/d?table=locks&column=id{options}")).unwrap();
        UniqueSql::new(&UserTable::from_options(&url.options).unwrap(), dialect).unwrap()
    }

    #[test]
    fn a_bare_table_has_its_key_alone() {
        let texts = texts(Dialect::Postgres, "");
        assert_eq!(
            &**texts.insert.sql(),
            r#"INSERT INTO "locks" ("id") VALUES ($1) ON CONFLICT ("id") DO NOTHING"#
        );
        assert_eq!(&**texts.release.sql(), r#"DELETE FROM "locks" WHERE "id" = $1"#);
        assert!(texts.take.is_none() && texts.sweep.is_none());
    }

    #[test]
    fn time_is_the_databases_and_a_row_is_taken_by_token_or_when_it_is_over() {
        let texts = texts(Dialect::Mysql, "&token=tok&expires=until");
        assert_eq!(
            &**texts.take.unwrap().sql(),
            "UPDATE `locks` SET `tok` = ?, \
             `until` = GREATEST(`until`, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
             WHERE `id` = ? AND (`tok` = ? OR `until` <= UTC_TIMESTAMP(6))"
        );
    }
}
