//! Loading, storing, counting and listing records.

use rusqlite::Row;

use super::super::command::Command;
use super::super::fault::Trial;
use super::super::transaction::{Transaction, moment};
use crate::claim::{RawRecord, Store};
use crate::engine::records::PageInProgress;
use crate::engine::{Page, RecordListing, Scope};
use crate::name::Name;

/// A value up to this size is written on the caller's thread.
const QUICK: usize = 64 * 1024;

#[derive(Debug)]
pub(in super::super) struct LoadRecord(pub(in super::super) Name);

impl Command for LoadRecord {
    type Answer = Option<RawRecord>;
    const READS: bool = true;

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Option<RawRecord>> {
        transaction.record(&self.0)
    }
}

#[derive(Debug)]
pub(in super::super) struct StoreRecord(pub(in super::super) Store);

impl Command for StoreRecord {
    type Answer = Result<u64, Option<RawRecord>>;

    fn is_quick(&self) -> bool {
        self.0.value.as_ref().is_none_or(|value| value.len() <= QUICK)
    }

    fn is_lasting(&self) -> bool {
        self.0.lasting
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Self::Answer> {
        transaction.store(&self.0)
    }
}

#[derive(Debug)]
pub(in super::super) struct AddRecord(pub(in super::super) Name, pub(in super::super) u64);

/// What was counted may never be counted again.
impl Command for AddRecord {
    type Answer = u64;

    fn is_lasting(&self) -> bool {
        true
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<u64> {
        transaction.add(&self.0, self.1)
    }
}

#[derive(Debug)]
pub(in super::super) struct ListRecords {
    pub(in super::super) scope: Scope,
    pub(in super::super) page: Page,
}

impl Command for ListRecords {
    type Answer = RecordListing;
    const READS: bool = true;

    fn is_quick(&self) -> bool {
        false
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<RecordListing> {
        let mut page = PageInProgress::new(&self.page);
        let mut from = Some(self.scope.root().to_owned());
        while let Some(start) = from {
            from = self.walk(transaction, &start, &mut page)?;
        }
        Ok(page.done())
    }
}

impl ListRecords {
    /// Walks the index from `start` on, up to something that is too deep: user
    /// text never becomes a pattern. Says where to go on.
    fn walk(
        &self,
        transaction: &mut Transaction<'_>,
        start: &str,
        page: &mut PageInProgress,
    ) -> Trial<Option<String>> {
        const WALK: &str = "SELECT name, version, expires, session, value FROM records \
             WHERE namespace = ?1 AND name >= ?2 AND name > ?3 ORDER BY name";
        let after = self.page.after.as_ref().map_or("", Name::as_str);
        let mut walk = transaction.db.prepare_cached(WALK)?;
        let mut rows = walk.query([self.scope.namespace().as_str(), start, after])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get(0)?;
            if !text.starts_with(self.scope.root()) {
                break;
            }
            let ahead = self.scope.leap(&text);
            if ahead.is_some() {
                return Ok(ahead);
            }
            if !self.show(transaction, text, row, page)? {
                break;
            }
        }
        Ok(None)
    }

    /// Puts a row on the page, unless it is over; false if the page is full.
    fn show(
        &self,
        transaction: &mut Transaction<'_>,
        text: String,
        row: &Row<'_>,
        page: &mut PageInProgress,
    ) -> Trial<bool> {
        let session: Option<i64> = row.get(3)?;
        let expires = row.get::<_, Option<i64>>(2)?.map(moment);
        if transaction.is_over(expires, session.map(i64::unsigned_abs))? {
            return Ok(true);
        }
        let record = RawRecord::new(row.get(4)?, row.get::<_, i64>(1)?.unsigned_abs());
        Ok(page.add(Name::new(self.scope.namespace(), text)?, record))
    }
}
