//! Who holds and who waits.

use std::sync::Arc;

use super::super::command::Command;
use super::super::fault::Trial;
use super::super::transaction::Transaction;
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

impl Command for Inspect {
    type Answer = Listing;

    fn is_quick(&self) -> bool {
        matches!(self.selector, Selector::Name(_))
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Trial<Listing> {
        let (names, more) = match &self.selector {
            Selector::Name(name) => (vec![name.clone()], false),
            Selector::Prefix(space, prefix) => self.scan(transaction, space, prefix)?,
        };
        let mut listing = Listing::new(Vec::with_capacity(names.len()), more);
        for name in names {
            listing.names.push(status(transaction, &name)?);
        }
        Ok(listing)
    }
}

impl Inspect {
    /// Walks the index from the prefix on: user text never becomes a pattern.
    fn scan(
        &self,
        transaction: &Transaction<'_>,
        space: &Namespace,
        prefix: &str,
    ) -> Trial<(Vec<Name>, bool)> {
        const WALK: &str = "SELECT name FROM names \
             WHERE namespace = ?1 AND name >= ?2 AND name > ?3 ORDER BY name";
        let after = self.page.after.as_ref().map_or("", Name::as_str);
        let mut walk = transaction.db.prepare_cached(WALK)?;
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
fn status(transaction: &mut Transaction<'_>, name: &Name) -> Trial<Status> {
    let mut page = transaction.load(name)?;
    let seats: Vec<_> = page.state.sessions().take(ASKED).collect();
    if transaction.bury_dead(&seats)? {
        transaction.follow(&mut page)?;
    }
    transaction.step(&mut page, Verb::Tick)?;
    let status = page.state.status(name.clone(), transaction.now);
    transaction.save(page)?;
    Ok(status)
}
