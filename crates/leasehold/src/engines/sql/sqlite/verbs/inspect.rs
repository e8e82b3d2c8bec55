//! Who holds and who waits.

use std::sync::Arc;

use super::super::fault::Trial;
use super::super::job::Act;
use super::super::ledger::Ledger;
use crate::engine::state::Verb;
use crate::engine::{Listing, Page, Selector, Status};
use crate::name::{Name, Namespace};

/// How many seats of a name are asked whether they live.
const ASKED: usize = 64;

#[derive(Debug)]
pub(in super::super) struct Inspect {
    pub(in super::super) selector: Selector,
    pub(in super::super) page: Page,
}

impl Act for Inspect {
    type Answer = Listing;

    fn is_quick(&self) -> bool {
        matches!(self.selector, Selector::Name(_))
    }

    fn run(&mut self, ledger: &mut Ledger<'_>) -> Trial<Listing> {
        let (names, more) = match &self.selector {
            Selector::Name(name) => (vec![name.clone()], false),
            Selector::Prefix(space, prefix) => self.scan(ledger, space, prefix)?,
        };
        let mut listing = Listing::new(Vec::with_capacity(names.len()), more);
        for name in names {
            listing.names.push(status(ledger, &name)?);
        }
        Ok(listing)
    }
}

impl Inspect {
    /// Walks the index from the prefix on: user text never becomes a pattern.
    fn scan(
        &self,
        ledger: &Ledger<'_>,
        space: &Namespace,
        prefix: &str,
    ) -> Trial<(Vec<Name>, bool)> {
        const WALK: &str = "SELECT name FROM names \
             WHERE namespace = ?1 AND name >= ?2 AND name > ?3 ORDER BY name";
        let after = self.page.after.as_ref().map_or("", Name::as_str);
        let mut walk = ledger.db.prepare_cached(WALK)?;
        let mut rows = walk.query([space.as_str(), prefix, after])?;
        let mut names = Vec::new();
        while let Some(row) = rows.next()? {
            let text: Arc<str> = row.get(0)?;
            if !text.starts_with(prefix) {
                break;
            }
            if names.len() == self.page.size {
                return Ok((names, true));
            }
            names.push(Name::new(space, text)?);
        }
        Ok((names, false))
    }
}

/// A name as it is now: what has expired or died is not shown as held.
fn status(ledger: &mut Ledger<'_>, name: &Name) -> Trial<Status> {
    let mut page = ledger.load(name)?;
    let seats: Vec<_> = page.state.sessions().take(ASKED).collect();
    if ledger.bury_dead(&seats)? {
        ledger.follow(&mut page)?;
    }
    ledger.step(&mut page, Verb::Tick)?;
    let status = page.state.status(name.clone(), ledger.now);
    ledger.save(page)?;
    Ok(status)
}
