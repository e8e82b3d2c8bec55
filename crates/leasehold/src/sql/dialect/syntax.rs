//! What a dialect of SQL has to say for itself.

use crate::error::ErrorKind;

/// How a database writes what others write differently.
pub(crate) trait Syntax: Sync {
    /// What it is called in URLs and on the command line.
    fn word(&self) -> &'static str;

    /// A name as the database stores it. It was checked.
    fn quoted(&self, name: &str) -> String;

    /// The place of a value, counted from 1.
    fn place(&self, at: usize) -> String;

    /// Whether a value that is used twice is given once.
    fn counts_places(&self) -> bool;

    /// Whether a row can be locked apart from others.
    fn locks_rows(&self) -> bool;

    /// Bounds every wait for a lock: in milliseconds, or in whole seconds.
    fn wait_limit(&self, millis: u128, seconds: u64) -> String;

    /// What stands around a number that is written, so that the answer tells it
    /// even of a row that has it already.
    fn told(&self) -> (&'static str, &'static str);

    /// Makes a table of names to lock; nothing if names cannot be locked.
    fn names_schema(&self, table: &str) -> String;

    /// Has the server show what it would do if its tables were large.
    fn seek(&self) -> Option<Seek>;

    /// Asks what the server would do.
    fn explain(&self) -> &'static str;

    /// Whether a plan reads all rows.
    fn scans(&self, plan: &str) -> bool;

    /// What else comes of reading all rows.
    fn scan_cost(&self) -> &'static str;

    /// True for a writer that has to be refused, also where a number is missing.
    fn not(&self, fine: &str) -> String;

    /// Makes a trigger that refuses writers.
    fn trigger(&self, trigger: &GuardTrigger<'_>) -> String;

    /// What an error code means.
    fn meaning(&self, code: &str, said: &str) -> (ErrorKind, &'static str);

    /// How keys are used once, if they can be.
    #[cfg(feature = "once")]
    fn once(&self) -> Option<&'static dyn OnceSyntax>;
}

/// The statements around a question for a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seek {
    /// What was set before.
    pub(crate) before: &'static str,
    /// Sets it, to the end of the transaction.
    pub(crate) set: &'static str,
    /// Takes what was set before.
    pub(crate) back: &'static str,
}

/// A trigger by its names, which are quoted, and what it does.
pub(crate) struct GuardTrigger<'a> {
    /// With the schema, if one is given.
    pub(crate) name: &'a str,
    pub(crate) name_alone: &'a str,
    /// With the schema, if one is given.
    pub(crate) table: &'a str,
    pub(crate) table_alone: &'a str,
    pub(crate) late: &'a str,
    pub(crate) why: &'a str,
}

/// The table of keys that are used once.
#[cfg(feature = "once")]
pub(crate) trait OnceSyntax: Sync {
    /// Makes the table, with an index of that name.
    fn schema(&self, table: &str, index: &str) -> String;

    /// Deletes at most a thousand keys whose time is up.
    fn sweep(&self, table: &str) -> String;

    /// Makes the row, or makes it anew if its time is up; leaves any other alone.
    fn insert(&self, table: &str) -> String;

    /// What the insert takes, of key, run, fingerprint, milliseconds and turn.
    fn insert_values(&self) -> usize;

    /// Whether the insert answers with a row if it has made one.
    fn tells_insert(&self) -> bool;

    /// A row as one text. What others have committed since we began counts.
    fn select(&self, table: &str) -> String;

    /// Writes an outcome, in hex, into the row of a run.
    fn fill(&self, table: &str) -> String;

    /// What that takes, in its order.
    fn fill_values<'a>(&self, name: &'a str, run: &'a str, outcome: &'a str) -> [&'a str; 3];
}
