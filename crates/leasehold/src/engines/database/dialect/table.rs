//! What the lease table asks of a family. Templates are as `table/text.rs` says.

/// How many of those who wait are read with their name: who holds a lock alone is
/// followed by one, and several may be read or have died. So few in tests that lines are
/// longer.
pub(crate) const WINDOW: usize = if cfg!(test) { 2 } else { 8 };

/// How a family writes the statements about leases and records.
pub(crate) trait TableFamily {
    /// The present by the database's clock, in microseconds since 1970: for what
    /// must still live when it is written.
    fn now(&self) -> &'static str;

    /// The same before the statement looked at anything: for what is judged to be
    /// over. A renewal that the look does not show was not answered by then, so its
    /// holder does not rely on it. A later moment would judge by what was not seen.
    fn then(&self) -> &'static str;

    /// A statement from a template without words in braces, and which value stands
    /// where; nothing if that is as the numbers say.
    fn written(&self, filled: String) -> (String, Vec<usize>);

    /// Whether names are columns of bytes, not of text.
    fn names_are_bytes(&self) -> bool;

    /// Whether a statement can tell others what it has done.
    fn tells(&self) -> bool;

    /// An insert that leaves alone what is there.
    fn insert_new(&self, insert: &str) -> String;

    /// An insert that takes the place of what is there.
    fn upsert(&self, insert: &str, key: &str, columns: &[&str]) -> String;

    /// Deletes those rows of a table, and waits for nobody where that can be had.
    fn delete_some(&self, table: &str, which: &str) -> String;

    /// The clock, the floor, our session's end, the row, who keeps it alive, and of
    /// those who wait the front, the seat of the lease that is asked about, and the
    /// one right before. Names for which nobody waits cost nothing more for it.
    fn load(&self) -> String;

    /// Takes a free name. A new row's fence is drawn before the row is won, which
    /// is safe because rows linger for much longer than a statement can take; that
    /// of a row that is there is raised under its lock.
    ///
    /// The session must live. A statement that was on its way for too long does
    /// nothing: its client has given the ticket back since.
    fn take(&self) -> &'static str;

    /// A change that tells others in the same breath: they hear of it when it
    /// stands, and not otherwise. Answers with one row if it was made.
    fn telling(&self, change: &str) -> String;

    /// The same change and that of the name's line with it, in one statement, where
    /// that can be had. What is added takes: 16 the front that was, 17 up to where
    /// seats go; 18 other places that go; 19 the new seats; 20 ranges of places in which
    /// nobody may live.
    fn telling_with_line(&self, change: &str) -> Option<String>;

    /// A change that is written down, and told to those who watch and to nobody
    /// else; `news` is the place of what they are told.
    fn telling_watchers(&self, log: &str, news: &str) -> String;

    /// The sessions that keep a name `n`, with their ends and clients.
    fn keepers(&self) -> &'static str;

    /// These columns of the rows `w` that have one of `many` keys, each found by
    /// itself whatever the server believes of the table.
    fn rows_by_key(&self, columns: &str, table: &str, key: &[&str], many: usize) -> String;

    /// The seats `w` of a name and their sessions `s`, read in the order of places.
    fn seats_by_place(&self) -> &'static str;

    /// 1 namespace, 2 fence: a floor never sinks.
    fn raise_floor(&self) -> &'static str;

    /// The clock, by way of what only newer servers have.
    fn clock_of_new_servers(&self) -> &'static str;

    /// 1 namespace: draws a version.
    fn draw(&self) -> &'static str;

    /// The sum of the column `value` and the value 3, as bytes.
    fn sum(&self) -> &'static str;

    /// Whether the column `value`, which is not empty, has nothing but digits, or a
    /// minus sign and digits.
    fn digits(&self) -> &'static str;

    /// What takes the place of the words for kinds of columns.
    fn kinds(&self) -> [(&'static str, &'static str); 6];

    /// All that makes a table.
    fn table(&self, draft: &TableDraft<'_>) -> String;

    /// 1 name: 1 if the table is there, else 0.
    fn counts_table(&self) -> &'static str;

    /// What is run to make all tables, one after the other: by many clients at the
    /// same time, if they come first at the same time. `word` differs for every
    /// place.
    fn making(&self, word: &str, schema: &str) -> Vec<String>;
}

/// The places of the values of `many` keys, in rows: `($1, $2), ($3, $4)`.
pub(super) fn rows_of_values(width: usize, many: usize) -> String {
    let row = |at: usize| {
        let values: Vec<_> = (1..=width).map(|it| format!("${}", at * width + it)).collect();
        format!("({})", values.join(", "))
    };
    (0..many).map(row).collect::<Vec<_>>().join(", ")
}

/// A table in the making.
pub(crate) struct TableDraft<'a> {
    /// What creates it, without its indexes.
    pub(crate) create: String,
    /// Its own name, and as statements write it.
    pub(crate) word: &'a str,
    pub(crate) name: String,
    /// The columns that are looked up beside the key.
    pub(crate) indexed: Vec<&'a str>,
    /// What the names of indexes begin with.
    pub(crate) prefix: &'a str,
}
