//! Listing records.

use super::super::client::TableClient;
use super::super::columns::int;
use super::RecordRow;
use crate::engine::records::PageInProgress;
use crate::engine::{Page as Part, RecordListing, Scope};
use crate::engines::database::drivers::ReplyRow;
use crate::error::Result;
use crate::name::Name;

/// How many rows are read at first, and at most, at a time.
const ROWS: usize = 8;
const ROWS_MAX: usize = 256;
/// Only while they are light, more are read at a time.
const LIGHT: usize = 64 * 1024;

/// A walk along the key: user text never becomes a pattern.
struct Walk {
    scope: Scope,
    page: PageInProgress,
    from: String,
    after: String,
}

/// What a walk does next.
enum Ahead {
    /// It goes on from somewhere else.
    Leap,
    /// It goes on after the last row.
    More,
    /// It is over.
    Over,
}

impl TableClient {
    pub(in super::super) async fn list_records(
        &self,
        scope: Scope,
        part: Part,
    ) -> Result<RecordListing> {
        let after = part.after.as_ref().map_or("", Name::as_str).to_owned();
        let (from, page) = (scope.root().to_owned(), PageInProgress::new(&part));
        let mut walk = Walk { scope, page, from, after };
        let mut most = ROWS;
        loop {
            let rows = self.rows_of(&walk, most).await?;
            match walk.along(self, &rows)? {
                Ahead::Leap => {}
                Ahead::More if rows.len() == most => {}
                Ahead::More | Ahead::Over => return Ok(walk.page.done()),
            }
            if weight(&rows)? < LIGHT {
                most = (most * 4).min(ROWS_MAX);
            }
        }
    }

    async fn rows_of(&self, walk: &Walk, most: usize) -> Result<Vec<ReplyRow>> {
        let space = walk.scope.namespace().as_str().into();
        let (from, after) = (self.word(&walk.from), self.word(&walk.after));
        let values = vec![space, from, after, int(most as u64).into()];
        Ok(self.run(&self.records.list, values).await?.rows)
    }
}

impl Walk {
    /// Goes on, up to something that is too deep.
    fn along(&mut self, inner: &TableClient, rows: &[ReplyRow]) -> Result<Ahead> {
        for row in rows {
            let text = inner.name_of(row, 6)?;
            if !text.starts_with(self.scope.root()) {
                return Ok(Ahead::Over);
            }
            if let Some(ahead) = self.scope.leap(&text) {
                self.from = ahead;
                return Ok(Ahead::Leap);
            }
            self.after = text.as_ref().to_owned();
            let Some(entry) = RecordRow::read(row)?.filter(|entry| !entry.over) else { continue };
            if !self.page.add(Name::new(self.scope.namespace(), text)?, entry.record) {
                return Ok(Ahead::Over);
            }
        }
        Ok(Ahead::More)
    }
}

fn weight(rows: &[ReplyRow]) -> Result<usize> {
    rows.iter().map(|row| Ok(row.bytes(2)?.len())).sum()
}
