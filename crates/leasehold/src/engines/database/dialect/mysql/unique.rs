//! A row of the user's table on MySQL and MariaDB.

use super::MysqlFamily;
use crate::engines::database::dialect::unique::{QuotedNames, UniqueFamily, UserColumn};
use crate::error::Result;

impl UniqueFamily for MysqlFamily {
    fn time(&self) -> &'static str {
        "UTC_TIMESTAMP(6)"
    }

    fn end(&self) -> String {
        format!("{} + INTERVAL :ttl MICROSECOND", self.time())
    }

    fn left(&self, expires: &str) -> String {
        format!("TIMESTAMPDIFF(MICROSECOND, {}, {expires})", self.time())
    }

    fn as_text(&self, column: &str) -> String {
        format!("CONVERT({column} USING utf8mb4)")
    }

    fn insert_row(&self, names: &QuotedNames) -> String {
        format!("INSERT IGNORE {}", names.insertion(self.end()))
    }

    /// MySQL has no condition on what an insert does about a row that is there.
    fn take_row(&self, names: &QuotedNames) -> Option<String> {
        let QuotedNames { table, key, .. } = names;
        let token = names.token.as_ref()?;
        let set = names
            .filled(self.end())
            .into_iter()
            .map(|(column, value)| format!("{column} = {}", names.no_less(column, column, value)));
        let set = set.collect::<Vec<_>>().join(", ");
        let over = names.expires.as_ref().map(|it| format!(" OR {it} <= {}", self.time()));
        let over = over.unwrap_or_default();
        Some(format!("UPDATE {table} SET {set} WHERE {key} = :name AND ({token} = :token{over})"))
    }

    fn survey(&self, table: &str) -> Result<(&'static str, Vec<Option<String>>)> {
        let (schema, table) = match table.split_once('.') {
            Some((schema, table)) => (Some(schema.to_owned()), table),
            None => (None, table),
        };
        Ok((SURVEY, vec![schema, Some(table.to_owned())]))
    }

    fn fits_text(&self, UserColumn { kind, collation, .. }: &UserColumn) -> bool {
        kind == "varbinary" || (kind == "varchar" && collation.starts_with("utf8mb4"))
    }

    fn text_kinds(&self) -> &'static str {
        "VARBINARY or VARCHAR with the character set utf8mb4"
    }

    fn fits_time(&self, column: &UserColumn) -> bool {
        column.kind == "datetime" && column.length == 6
    }

    fn time_kinds(&self) -> &'static str {
        "DATETIME(6); it is in UTC"
    }

    fn folds(&self, column: &UserColumn) -> bool {
        column.kind == "varchar"
    }
}

const SURVEY: &str = "\
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
