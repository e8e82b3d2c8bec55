//! Loading, storing, counting and listing records.

use super::super::fault::Trial;
use super::super::job::Act;
use super::super::ledger::{Ledger, moment};
use crate::claim::{Record, Store};
use crate::engine::records::PageInProgress;
use crate::engine::{Page, RecordListing, Scope};
use crate::name::Name;

#[derive(Debug)]
pub(in super::super) struct LoadRecord(pub(in super::super) Name);

impl Act for LoadRecord {
    type Answer = Option<Record>;
    const READS: bool = true;

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<Option<Record>> {
        ledger.record(&self.0)
    }
}

#[derive(Debug)]
pub(in super::super) struct StoreRecord(pub(in super::super) Store);

impl Act for StoreRecord {
    type Answer = Result<u64, Option<Record>>;

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<Self::Answer> {
        ledger.store(&self.0)
    }
}

#[derive(Debug)]
pub(in super::super) struct AddRecord(pub(in super::super) Name, pub(in super::super) u64);

impl Act for AddRecord {
    type Answer = u64;

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<u64> {
        ledger.add(&self.0, self.1)
    }
}

#[derive(Debug)]
pub(in super::super) struct ListRecords {
    pub(in super::super) scope: Scope,
    pub(in super::super) page: Page,
}

impl Act for ListRecords {
    type Answer = RecordListing;
    const READS: bool = true;

    /// Walks the index from the root on: user text never becomes a pattern.
    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<RecordListing> {
        const WALK: &str = "SELECT name, version, expires, session, value FROM records \
             WHERE namespace = ?1 AND name >= ?2 AND name > ?3 ORDER BY name";
        let db = ledger.db;
        let mut walk = db.prepare_cached(WALK)?;
        let mut page = PageInProgress::new(&self.page);
        let mut from = self.scope.root().to_owned();
        let after = self.page.after.as_ref().map_or("", Name::as_str);
        'leap: loop {
            let mut rows = walk.query([self.scope.namespace().as_str(), &from, after])?;
            while let Some(row) = rows.next()? {
                let text: String = row.get(0)?;
                if !text.starts_with(self.scope.root()) {
                    break;
                }
                if let Some(ahead) = self.scope.leap(&text) {
                    from = ahead;
                    continue 'leap;
                }
                let session: Option<i64> = row.get(3)?;
                let expires = row.get::<_, Option<i64>>(2)?.map(moment);
                if ledger.is_over(expires, session.map(i64::unsigned_abs))? {
                    continue;
                }
                let record = Record::new(row.get(4)?, row.get::<_, i64>(1)?.unsigned_abs());
                if !page.add(Name::new(self.scope.namespace(), text)?, record) {
                    break;
                }
            }
            return Ok(page.done());
        }
    }
}
