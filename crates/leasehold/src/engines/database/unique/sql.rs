//! The statements, for one table and one family.

use std::sync::Arc;

use super::options::UserTable;
use crate::engines::database::dialect::Family;
use crate::engines::database::dialect::unique::QuotedNames;
use crate::engines::database::drivers::Value;
use crate::error::Result;

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
    pub(super) fn new(form: &UserTable, family: &'static dyn Family) -> Result<Self> {
        let texts = UniqueTexts { family, names: quoted(form, family)? };
        Ok(Self {
            insert: texts.text(&family.insert_row(&texts.names)),
            take: family.take_row(&texts.names).map(|take| texts.text(&take)),
            renew: texts.renew(),
            release: texts.release(),
            look: texts.look(),
            evict: texts.evict(),
            stale: texts.stale(),
            sweep: texts.sweep(),
        })
    }
}

fn quoted(form: &UserTable, family: &dyn Family) -> Result<QuotedNames> {
    let sql = family.dialect();
    let maybe = |name: &Option<String>| name.as_deref().map(|it| sql.column(it)).transpose();
    Ok(QuotedNames {
        table: sql.table(&form.table)?,
        key: sql.column(&form.column)?,
        token: maybe(&form.token)?,
        expires: maybe(&form.expires)?,
        owner: maybe(&form.owner)?,
    })
}

/// The statements in the making.
struct UniqueTexts {
    family: &'static dyn Family,
    names: QuotedNames,
}

impl UniqueTexts {
    fn renew(&self) -> UniqueStatement {
        let QuotedNames { table, .. } = &self.names;
        let ours = self.ours();
        self.text(&match &self.names.expires {
            Some(expires) => {
                let end = self.names.no_less(expires, expires, self.family.end());
                format!("UPDATE {table} SET {expires} = {end} WHERE {ours}")
            }
            None => format!("SELECT 1 FROM {table} WHERE {ours}"),
        })
    }

    fn release(&self) -> UniqueStatement {
        self.text(&format!("DELETE FROM {} WHERE {}", self.names.table, self.ours()))
    }

    fn look(&self) -> UniqueStatement {
        let QuotedNames { table, key, .. } = &self.names;
        let text = |column: &Option<String>| {
            column.as_ref().map_or_else(|| "NULL".to_owned(), |it| self.family.as_text(it))
        };
        let (left, live) = match &self.names.expires {
            Some(it) => (
                self.family.left(it),
                format!(" AND ({it} IS NULL OR {it} > {})", self.family.time()),
            ),
            None => ("NULL".to_owned(), String::new()),
        };
        let (owner, token) = (text(&self.names.owner), text(&self.names.token));
        self.text(&format!(
            "SELECT {owner}, {left}, {token} FROM {table} WHERE {key} = :name{live}"
        ))
    }

    /// Of the lease that is looked at, not of one that came after it.
    fn evict(&self) -> UniqueStatement {
        let QuotedNames { table, key, .. } = &self.names;
        let same =
            self.names.token.as_ref().map(|it| format!(" AND {it} = :token")).unwrap_or_default();
        self.text(&format!("DELETE FROM {table} WHERE {key} = :name{same}"))
    }

    fn stale(&self) -> Option<UniqueStatement> {
        let (expires, key) = (self.names.expires.as_ref()?, self.family.as_text(&self.names.key));
        let (table, now) = (&self.names.table, self.family.time());
        Some(self.text(&format!("SELECT {key} FROM {table} WHERE {expires} <= {now} LIMIT 100")))
    }

    fn sweep(&self) -> Option<UniqueStatement> {
        let (expires, now) = (self.names.expires.as_ref()?, self.family.time());
        let QuotedNames { table, key, .. } = &self.names;
        Some(self.text(&format!("DELETE FROM {table} WHERE {key} = :name AND {expires} <= {now}")))
    }

    /// The row of a lease that is not over.
    fn ours(&self) -> String {
        let token = self.names.token.as_ref().map(|it| format!(" AND {it} = :token"));
        let live =
            self.names.expires.as_ref().map(|it| format!(" AND {it} > {}", self.family.time()));
        format!(
            "{} = :name{}{}",
            self.names.key,
            token.unwrap_or_default(),
            live.unwrap_or_default()
        )
    }

    /// A statement, with places where `:name` and the like stand.
    fn text(&self, draft: &str) -> UniqueStatement {
        let mut parts = draft.split(':');
        let (mut sql, mut slots) = (parts.next().unwrap_or_default().to_owned(), Vec::new());
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(part.len());
            slots.push(slot(&part[..end]));
            sql.push_str(&self.family.dialect().place(slots.len()));
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
    use crate::engines::database::dialect::{MYSQL, POSTGRES};
    use crate::url::Url;

    fn texts(family: &'static dyn Family, options: &str) -> UniqueSql {
        let url = Url::parse(&format!("postgres://h/d?table=locks&column=id{options}")).unwrap();
        UniqueSql::new(&UserTable::from_options(&url.options).unwrap(), family).unwrap()
    }

    #[test]
    fn a_bare_table_has_its_key_alone() {
        let texts = texts(POSTGRES, "");
        assert_eq!(
            &**texts.insert.sql(),
            r#"INSERT INTO "locks" ("id") VALUES ($1) ON CONFLICT ("id") DO NOTHING"#
        );
        assert_eq!(&**texts.release.sql(), r#"DELETE FROM "locks" WHERE "id" = $1"#);
        assert!(texts.take.is_none() && texts.sweep.is_none());
    }

    #[test]
    fn time_is_the_databases_and_a_row_is_taken_by_token_or_when_it_is_over() {
        let texts = texts(MYSQL, "&token=tok&expires=until");
        assert_eq!(
            &**texts.take.unwrap().sql(),
            "UPDATE `locks` SET `tok` = ?, \
             `until` = GREATEST(`until`, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
             WHERE `id` = ? AND (`tok` = ? OR `until` <= UTC_TIMESTAMP(6))"
        );
    }
}
