//! A statement, as one family of servers writes it.

use std::sync::Arc;

use super::names::TableNames;
use crate::engines::database::drivers::{SqlStep, Value};

/// One statement. Templates are written once: with `$1`, with casts as
/// PostgreSQL has them, `{now}` and `{then}` for the clock and `{name}` for our
/// tables.
#[derive(Clone, Debug)]
pub(super) struct SqlText {
    pub(super) sql: Arc<str>,
    /// Which value stands where, for a family that has no numbers.
    order: Vec<usize>,
}

impl SqlText {
    pub(super) fn new(names: &TableNames, template: &str) -> Self {
        let filled = fill(names, template);
        let (sql, order) = names.family.written(filled);
        Self { sql: sql.into(), order }
    }

    /// The values in the order in which the statement wants them.
    pub(super) fn values(&self, values: Vec<Value>) -> Vec<Value> {
        if self.order.is_empty() {
            return values;
        }
        self.order.iter().map(|at| values.get(*at).cloned().unwrap_or(Value::Null)).collect()
    }
}

/// A statement as a part of a transaction.
pub(super) fn step(text: &SqlText, values: Vec<Value>, must_change: bool) -> SqlStep {
    SqlStep { sql: Arc::clone(&text.sql), values: text.values(values), must_change }
}

/// Replaces the words in braces.
pub(super) fn fill(names: &TableNames, template: &str) -> String {
    let mut filled = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (word, next) = after.split_once('}').unwrap_or((after, ""));
        filled.push_str(before);
        match word {
            "now" => filled.push_str(names.family.now()),
            "then" => filled.push_str(names.family.then()),
            table => filled.push_str(&names.table(table)),
        }
        rest = next;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::database::dialect::{MYSQL, POSTGRES};

    #[test]
    fn one_template_serves_both_families() {
        let template = "SELECT {now} FROM {names} WHERE name = $2 AND $1::bigint > $2";
        let names = |family| TableNames::new(family, None, "lh_").unwrap();
        let postgres = SqlText::new(&names(POSTGRES), template);
        assert!(postgres.sql.ends_with("FROM lh_names WHERE name = $2 AND $1::bigint > $2"));
        let mysql = SqlText::new(&names(MYSQL), template);
        assert!(mysql.sql.ends_with("FROM lh_names WHERE name = ? AND ? > ?"), "{mysql:?}");
        let values = mysql.values(vec![1.into(), "b".into()]);
        assert_eq!(values, ["b".into(), 1.into(), Value::from("b")]);
    }
}
