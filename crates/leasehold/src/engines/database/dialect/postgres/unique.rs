//! A row of the user's table on PostgreSQL.

use super::PostgresFamily;
use crate::engines::database::dialect::family::Family;
use crate::engines::database::dialect::unique::{QuotedNames, UniqueFamily, UserColumn};
use crate::error::Result;

impl UniqueFamily for PostgresFamily {
    fn time(&self) -> &'static str {
        "clock_timestamp()"
    }

    fn end(&self) -> String {
        format!("{} + :ttl * interval '1 microsecond'", self.time())
    }

    fn left(&self, expires: &str) -> String {
        format!("CAST(EXTRACT(EPOCH FROM {expires} - {}) * 1000000 AS BIGINT)", self.time())
    }

    fn as_text(&self, column: &str) -> String {
        format!("CAST({column} AS TEXT)")
    }

    fn insert_row(&self, names: &QuotedNames) -> String {
        format!("INSERT {} {}", names.insertion(self.end()), self.conflict(names))
    }

    fn take_row(&self, _: &QuotedNames) -> Option<String> {
        None
    }

    fn survey(&self, table: &str) -> Result<(&'static str, Vec<Option<String>>)> {
        Ok((SURVEY, vec![Some(self.dialect().table(table)?)]))
    }

    fn fits_text(&self, column: &UserColumn) -> bool {
        ["text", "character varying"].contains(&column.kind.as_str())
    }

    fn text_kinds(&self) -> &'static str {
        "TEXT or VARCHAR"
    }

    fn fits_time(&self, column: &UserColumn) -> bool {
        column.kind == "timestamp with time zone"
    }

    fn time_kinds(&self) -> &'static str {
        "TIMESTAMPTZ"
    }

    fn folds(&self, _: &UserColumn) -> bool {
        false
    }
}

impl PostgresFamily {
    /// What an insert does about a row that is there: nothing, or take it if it
    /// is ours or over. Ours may have been promised for longer.
    fn conflict(&self, names: &QuotedNames) -> String {
        let QuotedNames { table, key, .. } = names;
        let Some(token) = &names.token else { return format!("ON CONFLICT ({key}) DO NOTHING") };
        let set = names.filled(self.end()).into_iter().map(|(column, _)| {
            let new = format!("excluded.{column}");
            format!("{column} = {}", names.no_less(column, &format!("{table}.{column}"), new))
        });
        let set = set.collect::<Vec<_>>().join(", ");
        let over = names.expires.as_ref().map(|it| format!(" OR {table}.{it} <= {}", self.time()));
        let over = over.unwrap_or_default();
        format!(
            "ON CONFLICT ({key}) DO UPDATE SET {set} \
             WHERE {table}.{token} = excluded.{token}{over}"
        )
    }
}

const SURVEY: &str = "\
SELECT CAST(a.attname AS TEXT), CAST(format_type(a.atttypid, NULL) AS TEXT), \
CAST(CASE WHEN a.atttypmod > 4 THEN a.atttypmod - 4 ELSE 0 END AS BIGINT), \
CAST(CASE WHEN EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique \
AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum) \
THEN 1 ELSE 0 END AS BIGINT), CAST('' AS TEXT) \
FROM pg_attribute a \
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped";
