//! Showing, converting and taking away.

use std::sync::Arc;
use std::time::Duration;

use super::client::TableClient;
use super::columns::{int, moment};
use super::errand::Errand;
use super::names::TableNames;
use super::news::EvictionNotice;
use super::row::NameRow;
use super::text::SqlText;
use crate::claim::{Mode, Predecessor, Renewal, Ticket};
use crate::clock::Moment;
use crate::engine::inspect::Last;
use crate::engine::state::{Answer, Verb};
use crate::engine::{Evicted, Eviction, Listing, Page as Part, Selector, Status};
use crate::engines::database::drivers::ReplyRow;
use crate::error::Result;
use crate::name::{Name, Namespace};

/// How many of those who wait are read at a time to be shown.
const SHOWN: usize = 512;

/// 1 namespace, 2 first name, 3 the name before, 4 how many: the columns of a
/// page, then the name and who held it last.
pub(super) fn listing(names: &TableNames) -> SqlText {
    let sessions = names.family.keepers();
    let sql = format!(
        "SELECT {{then}}, 0::bigint, NULL::bigint, n.version, n.fence, n.updated, n.state, \
         {sessions}, n.front, n.name, n.owner FROM {{names}} n \
         WHERE n.namespace = $1 AND n.name >= $2 AND n.name > $3 ORDER BY n.name LIMIT $4"
    );
    SqlText::new(names, &sql)
}

impl TableClient {
    pub(super) async fn convert(&self, ticket: Ticket, to: Mode) -> Result<Renewal> {
        let act = |page: &mut NameRow| Ok(page.step(Verb::Convert { id: ticket.id, to }));
        let errand = Errand::to(&ticket.name).about(ticket.id);
        let (answer, page) = self.change(errand, act).await?;
        answer.into_converted(page.sent_at)
    }

    pub(super) async fn evict(&self, eviction: Eviction) -> Result<Evicted> {
        let act = |page: &mut NameRow| {
            page.why = Some(EvictionNotice::new(&eviction));
            let (before, remark) = (page.state.clone(), eviction.remark());
            let answer = page.step(Verb::Evict { target: eviction.target, remark });
            Ok((before, answer))
        };
        // Whoever gets its turn just now is among the holders to be shown.
        let ((before, answer), page) = self.change(Errand::to(&eviction.name), act).await?;
        let Answer::Evicted(ids) = answer else { return Ok(Evicted::default()) };
        Ok(Evicted::new(ids.into_iter().filter_map(|id| before.held(id, page.now)).collect()))
    }

    pub(super) async fn inspect(&self, selector: Selector, part: Part) -> Result<Listing> {
        match selector {
            Selector::Prefix(space, prefix) => self.list(&space, &prefix, &part).await,
            Selector::Name(name) => {
                let rows = self.rows(name.namespace(), name.as_str(), "", 1).await?;
                let found = rows
                    .0
                    .first()
                    .filter(|row| self.name_of(row, 9).ok().as_deref() == Some(name.as_str()));
                let status = match found {
                    Some(row) => self.status(&name, row, rows.1).await?,
                    None => Status::new(name),
                };
                Ok(Listing::new(vec![status], false))
            }
        }
    }

    /// Walks the key from the prefix on: user text never becomes a pattern.
    async fn list(&self, space: &Namespace, prefix: &str, part: &Part) -> Result<Listing> {
        let after = part.after.as_ref().map_or("", Name::as_str);
        let (rows, sent_at) = self.rows(space, prefix, after, part.size.saturating_add(1)).await?;
        let mut listing = Listing::default();
        for row in &rows {
            let text = self.name_of(row, 9)?;
            if !text.starts_with(prefix) {
                break;
            }
            if listing.names.len() == part.size {
                listing.more = true;
                break;
            }
            listing.names.push(self.status(&Name::new(space, text)?, row, sent_at).await?);
        }
        Ok(listing)
    }

    async fn rows(
        &self,
        space: &Namespace,
        from: &str,
        after: &str,
        count: usize,
    ) -> Result<(Vec<ReplyRow>, Moment)> {
        let values = vec![
            space.as_str().into(),
            self.word(from),
            self.word(after),
            int(count as u64).into(),
        ];
        let reply = self.run(&self.listing, values).await?;
        Ok((reply.rows, reply.sent_at))
    }

    /// A name as it is now: what has expired is not shown as held.
    async fn status(&self, name: &Name, row: &ReplyRow, sent_at: Moment) -> Result<Status> {
        let mut page = NameRow::from_row(name, row, 0, sent_at)?;
        // All who wait are shown, so many with one statement.
        while let Some(from) = page.unread() {
            self.read_on(&mut page, from, SHOWN).await?;
        }
        page.step(Verb::Tick);
        let mut status = page.state.status(name.clone(), page.now);
        let forgotten = status.last.is_none() && !status.is_busy();
        if let Some(label) = row.maybe_text(10)?.filter(|_| forgotten) {
            status.last = Some(released(&page, row, label)?);
        }
        Ok(status)
    }

    /// A name from its column.
    pub(super) fn name_of(&self, row: &ReplyRow, at: usize) -> Result<Arc<str>> {
        if self.pool.family().names_are_bytes() {
            return Ok(String::from_utf8_lossy(row.bytes(at)?).as_ref().into());
        }
        Ok(row.text(at)?.into())
    }
}

/// A clean end is not kept in the state, but its traces are in the row.
fn released(page: &NameRow, row: &ReplyRow, label: &str) -> Result<Last> {
    let ago: Duration = page.now.since(moment(row.int(5)?));
    let fence = row.int(4)?.unsigned_abs();
    Ok(Last { label: label.into(), fence, ended: Predecessor::Released, ago, remark: None })
}
