//! What is said to PostgreSQL about one key, as texts without places.
//!
//! Several statements travel in one message only as plain text. Two of them are
//! therefore prepared by name, once for each connection, and then only executed:
//! to parse and plan them costs more than to run them. What is not ours and not
//! plain is written in hex, so nothing else gets in.

use std::time::Duration;

use super::dialect::Dialect;
use super::dialect::postgres::NOW;
use super::once::OnceTable;
use crate::hex;

pub(super) struct Phrases {
    table: String,
    /// What our statements are called: two tables do not share them.
    suffix: String,
    /// An expression.
    name: String,
    turn: i64,
}

impl Phrases {
    pub(super) fn new(table: &OnceTable, name: &str) -> Self {
        let suffix = format!("{:016x}", table.turn("").cast_unsigned());
        let turn = table.turn(name);
        Self { table: table.quoted(Dialect::Postgres), suffix, name: word(name), turn }
    }

    /// The statements that the others execute.
    pub(super) fn prepare(&self) -> String {
        let Self { table, suffix, .. } = self;
        format!(
            "PREPARE leasehold_look_{suffix}(text,bigint) AS \
             SELECT concat_ws(' ',pg_try_advisory_xact_lock($2),\
             (SELECT concat_ws(' ',until <= {NOW},about,{NOW} - at,encode(outcome,'hex') || '.') \
             FROM {table} WHERE name = $1));\
             PREPARE leasehold_record_{suffix}(text,text,bigint,bytea) AS \
             INSERT INTO {table} (name,run,about,at,until,outcome) \
             VALUES ($1,'',$2,{NOW},{NOW} + $3,$4)"
        )
    }

    /// `t` if no other transaction is at the key, else `f`. If there is a row:
    /// `t` if its time is up, else `f`, and what [`Before`] reads.
    ///
    /// What the lock before us has committed may be just too young to be seen
    /// here. The unique key refuses our record then.
    ///
    /// [`Before`]: super::once::Before
    pub(super) fn look(&self) -> String {
        format!("EXECUTE leasehold_look_{}({},{})", self.suffix, self.name, self.turn)
    }

    /// Waits for the transaction that is at the key, and leaves the connection's
    /// own limit as it was.
    pub(super) fn wait(&self, limit: Duration) -> String {
        let limit = limit.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
        let turn = self.turn;
        format!(
            "SELECT set_config('leasehold.lock_timeout',current_setting('lock_timeout'),true),\
             set_config('lock_timeout','{limit}',true);\
             SELECT pg_advisory_xact_lock({turn});\
             SELECT set_config('lock_timeout',current_setting('leasehold.lock_timeout'),true)"
        )
    }

    /// Makes room where the time of a row is up.
    pub(super) fn clear(&self) -> String {
        let Self { table, name, .. } = self;
        format!("DELETE FROM {table} WHERE name = {name} AND until <= {NOW}")
    }

    pub(super) fn record(&self, about: &str, keep: Duration, outcome: Option<&[u8]>) -> String {
        let Self { suffix, name, .. } = self;
        let keep = keep.as_millis().min(1 << 60);
        let outcome = outcome.map_or_else(|| "NULL".to_owned(), bytes);
        format!("EXECUTE leasehold_record_{suffix}({name},'{about}',{keep},{outcome})")
    }
}

/// A text. Most keys are plain, and a literal is read faster than a function
/// call. Where a byte might mean more than itself to some session, with its
/// encoding or what it thinks of backslashes, hex does not.
fn word(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'\'' && b != b'\\';
    if text.bytes().all(|b| plain(b) || b == b' ') {
        return format!("'{text}'");
    }
    format!("convert_from({},'UTF8')", bytes(text.as_bytes()))
}

fn bytes(bytes: &[u8]) -> String {
    format!("E'\\\\x{}'::bytea", hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_key_is_read_as_a_statement() {
        let phrases = Phrases::new(&OnceTable::default(), "';DROP TABLE x;--\\");
        let outcome = b"');COMMIT;--";
        for text in
            [phrases.look(), phrases.clear(), phrases.record("00ff", Duration::MAX, Some(outcome))]
        {
            assert!(!text.contains("DROP") && !text.contains("COMMIT"));
            assert_eq!(text.matches(';').count(), 0, "{text}");
        }
    }

    #[test]
    fn only_what_means_itself_everywhere_is_a_literal() {
        assert_eq!(word("default/once/pay/a;b $1 --"), "'default/once/pay/a;b $1 --'");
        for odd in ["'", "\\", "é", "a\0", "a\n", "\u{7f}"] {
            assert!(word(odd).starts_with("convert_from(E'\\\\x"), "{odd:?}");
        }
    }

    #[test]
    fn tables_and_names_have_turns_of_their_own() {
        let [one, two] = ["a", "b"].map(|table| OnceTable::new(table).unwrap());
        assert_ne!(one.turn("x"), two.turn("x"));
        assert_ne!(one.turn("x"), one.turn("y"));
        assert_ne!(one.turn("x"), OnceTable::new("ax").unwrap().turn(""));
        assert_ne!(Phrases::new(&one, "x").prepare(), Phrases::new(&two, "x").prepare());
    }
}
