//! A statement, as one family of servers writes it.

use std::sync::Arc;

use super::names::TableNames;
use crate::engines::database::dialect::Dialect;
use crate::engines::database::drivers::Value;

/// The present by the database's clock, in microseconds since 1970: for what
/// must still live when it is written.
const fn now(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
        Dialect::Mysql => "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
    }
}

/// The same before the statement looked at anything: for what is judged to be
/// over. A renewal that the look does not show was not answered by then, so its
/// holder does not rely on it. A later moment would judge by what was not seen.
///
/// PostgreSQL sets the time of a statement once more after it has looked, that
/// of a transaction never; MySQL's is that of the statement's start.
const fn then(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "(extract(epoch FROM transaction_timestamp()) * 1000000)::bigint",
        Dialect::Mysql => now(Dialect::Mysql),
    }
}

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
        match names.dialect {
            Dialect::Postgres => Self { sql: filled.into(), order: Vec::new() },
            Dialect::Mysql => {
                let (sql, order) = without_numbers(&without_casts(&filled));
                Self { sql: sql.into(), order }
            }
        }
    }

    /// The values in the order in which the statement wants them.
    pub(super) fn values(&self, values: Vec<Value>) -> Vec<Value> {
        if self.order.is_empty() {
            return values;
        }
        self.order.iter().map(|at| values.get(*at).cloned().unwrap_or(Value::Null)).collect()
    }
}

/// Replaces the words in braces.
pub(super) fn fill(names: &TableNames, template: &str) -> String {
    let mut filled = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (word, next) = after.split_once('}').unwrap_or((after, ""));
        filled.push_str(before);
        match word {
            "now" => filled.push_str(now(names.dialect)),
            "then" => filled.push_str(then(names.dialect)),
            table => filled.push_str(&names.table(table)),
        }
        rest = next;
    }
    filled.push_str(rest);
    filled
}

fn without_casts(sql: &str) -> String {
    ["::bigint", "::text", "::bytea"].iter().fold(sql.to_owned(), |sql, cast| sql.replace(cast, ""))
}

/// `$2 .. $1` becomes `? .. ?` and the order 1, 0.
fn without_numbers(sql: &str) -> (String, Vec<usize>) {
    let mut parts = sql.split('$');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    let mut order = Vec::new();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        match part[..digits].parse::<usize>() {
            Ok(number) if number > 0 => {
                order.push(number - 1);
                plain.push('?');
                plain.push_str(&part[digits..]);
            }
            // A path into a JSON text.
            _ => {
                plain.push('$');
                plain.push_str(part);
            }
        }
    }
    (plain, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_template_serves_both_families() {
        let template = "SELECT {now} FROM {names} WHERE name = $2 AND $1::bigint > $2";
        let names = |dialect| TableNames::new(dialect, None, "lh_").unwrap();
        let postgres = SqlText::new(&names(Dialect::Postgres), template);
        assert!(postgres.sql.ends_with("FROM lh_names WHERE name = $2 AND $1::bigint > $2"));
        let mysql = SqlText::new(&names(Dialect::Mysql), template);
        assert!(mysql.sql.ends_with("FROM lh_names WHERE name = ? AND ? > ?"), "{mysql:?}");
        let values = mysql.values(vec![1.into(), "b".into()]);
        assert_eq!(values, ["b".into(), 1.into(), Value::from("b")]);
    }

    #[test]
    fn paths_into_json_are_left_alone() {
        assert_eq!(without_numbers("'$[*]' $1 '$'"), ("'$[*]' ? '$'".into(), vec![0]));
    }
}
