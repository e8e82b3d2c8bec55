//! Records: versioned values, in keys beside those of the leases.
//!
//! A record that goes with a lease names it. Whoever finds such a record looks
//! at the lease and, if that has ended, removes the record; so nobody ever sees
//! what has outlived its lease, and no script touches keys it was not given.

use std::sync::Arc;
use std::time::Duration;

use super::Native;
use super::batcher::{OpKeys, ScriptChoice};
use super::client::NativeClient;
use super::keys::Shard;
use super::look::texts;
use super::pack::garbled;
use super::stored_record::{self, RecordAnswer, StoredRecord};
use super::verb::{self, ScriptAnswer, TimedAnswer, millis};
use super::watching::NativeWatch;
use crate::claim::{Ending, LeaseId, RawRecord, Store, Ticket};
use crate::engine::records::{PageInProgress, not_held, sum};
use crate::engine::state;
use crate::engine::{BoxFuture, Page, RecordEvents, RecordListing, RecordStore, Scope};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// How often a write begins anew because the value changed under it.
const TRIES: usize = 1000;
/// When a record is looked at again whose end is not known.
const UNTOLD: Duration = Duration::from_secs(60);
/// How many names of an index are looked at in one go.
const STRIDE: usize = 100;

impl NativeClient {
    async fn file(&self, name: &Name, verb: Vec<u8>) -> Result<RecordAnswer> {
        let keys = OpKeys::of_record(name);
        let answered =
            self.batcher.carry(ScriptChoice::Records, self.shard(name), keys, verb).await?;
        stored_record::answer(answered.said.packed()?)
    }

    /// What its key holds: that takes no script.
    async fn read(&self, name: &Name) -> Result<Option<StoredRecord>> {
        let (shard, keys) = (self.shard(name), OpKeys::of_record(name));
        match self.batcher.carry(ScriptChoice::Reading, shard, keys, Vec::new()).await?.said {
            ScriptAnswer::Nothing => Ok(None),
            said => stored_record::stored(said.packed()?).map(Some),
        }
    }

    /// A record as it is now.
    pub(super) async fn record(&self, name: &Name) -> Result<Option<RawRecord>> {
        match self.read(name).await? {
            Some(stored) => self.living(name, stored).await,
            None => Ok(None),
        }
    }

    /// What a claim has loaded along the way.
    pub(super) async fn loaded(
        &self,
        name: &Name,
        answered: &TimedAnswer,
    ) -> Result<Option<RawRecord>> {
        match answered.loaded()? {
            Some(packed) => self.living(name, stored_record::stored(&packed)?).await,
            None => Ok(None),
        }
    }

    /// Nothing, if it has outlived its lease; then it goes.
    pub(super) async fn living(
        &self,
        name: &Name,
        stored: StoredRecord,
    ) -> Result<Option<RawRecord>> {
        match &stored.lease {
            None => Ok(Some(stored.record)),
            // Rare, and it takes a lot of room in the future of a claim.
            Some(_) => Box::pin(self.living_with_lease(name, stored)).await,
        }
    }

    async fn living_with_lease(
        &self,
        name: &Name,
        stored: StoredRecord,
    ) -> Result<Option<RawRecord>> {
        if let Some((lease, id)) = &stored.lease
            && self.left(lease, *id).await?.is_none()
        {
            self.file(name, stored_record::delete(name.as_str(), stored.record.version)).await?;
            return Ok(None);
        }
        Ok(Some(stored.record))
    }

    /// Ends a record whose time or whose lease is over; one whose lease goes on
    /// is looked at again when that would end.
    pub(super) async fn end_if_due(&self, name: &Name) -> Result<()> {
        let verb = match self.read(name).await? {
            None => stored_record::delete(name.as_str(), 0),
            Some(StoredRecord { record, lease: Some((lease, id)) }) => {
                match self.left(&lease, id).await? {
                    Some(left) => stored_record::keep(name.as_str(), left),
                    None => stored_record::delete(name.as_str(), record.version),
                }
            }
            // It was written anew, and not listed: nobody told when it ends.
            Some(StoredRecord { lease: None, .. }) => {
                stored_record::keep(name.as_str(), millis(UNTOLD))
            }
        };
        self.file(name, verb).await.map(drop)
    }

    /// How long a lease still runs, in milliseconds.
    async fn left(&self, lease: &Name, id: LeaseId) -> Result<Option<u64>> {
        held(self.ask(lease, verb::holds(id)).await?.answer()?)
    }

    async fn store(&self, store: Store) -> Result<Result<u64, Option<RawRecord>>> {
        store.check()?;
        let bond = store.bound_to.as_ref().filter(|_| store.value.is_some());
        let left = match bond {
            None => 0,
            Some(ticket) => self.bind(ticket, &store).await?,
        };
        let mut looked = 0;
        for _ in 0..TRIES {
            match self.file(&store.name, stored_record::store(&store, looked, left)).await? {
                RecordAnswer::Stored(version) => return Ok(Ok(version)),
                RecordAnswer::Conflict(found) => return Ok(Err(found.map(|stored| stored.record))),
                RecordAnswer::Look(stored) => looked = self.looked(&store.name, stored).await?,
                _ => return Err(garbled()),
            }
        }
        Err(too_busy(&store.name))
    }

    /// The version, if its lease is alive. Otherwise it has gone.
    async fn looked(&self, name: &Name, stored: StoredRecord) -> Result<u64> {
        Ok(self.living(name, stored).await?.map_or(0, |record| record.version))
    }

    async fn bind(&self, ticket: &Ticket, store: &Store) -> Result<u64> {
        let answered = self.ask(&ticket.name, verb::bind(ticket.id, &store.name)).await?;
        held(answered.answer()?)?.ok_or_else(|| not_held(store))
    }

    async fn add(&self, name: Name, amount: u64) -> Result<u64> {
        let mut looked = 0;
        for _ in 0..TRIES {
            match self.file(&name, stored_record::add(&name, amount, looked)).await? {
                RecordAnswer::Sum(text) => return text.parse().map_err(|_| garbled()),
                RecordAnswer::Look(stored) => looked = self.looked(&name, stored).await?,
                RecordAnswer::NoNumber => {
                    return sum(&name, Some(&RawRecord::new(Vec::new(), 0)), amount);
                }
                RecordAnswer::TooLarge(Some(found)) => {
                    if let Some(sum) = self.add_here(&name, found, amount).await? {
                        return Ok(sum);
                    }
                }
                _ => return Err(garbled()),
            }
        }
        Err(too_busy(&name))
    }

    /// Adds what the script cannot, if nobody else changes it.
    async fn add_here(&self, name: &Name, found: StoredRecord, amount: u64) -> Result<Option<u64>> {
        let sum = sum(name, Some(&found.record), amount)?;
        let verb = stored_record::put_sum(name, found.record.version, sum);
        let stored = self.file(name, verb).await?;
        Ok(matches!(stored, RecordAnswer::Sum(_)).then_some(sum))
    }

    /// Where a lease is, and the record that its release stores.
    pub(super) fn keys_to_end(
        &self,
        shard: &Shard,
        ticket: &Ticket,
        ending: &Ending,
    ) -> Result<OpKeys> {
        let lease = OpKeys::of_lease(&ticket.name);
        let Some(store) = &ending.store else { return Ok(lease) };
        store.check_as_ending(ticket)?;
        if store.bound_to.is_some() || *shard != self.shard(&store.name) {
            let message = "a record stored with a release is of the same namespace and bound to \
                           nothing; in a cluster it has the name of the lease";
            return Err(Error::new(ErrorKind::Unsupported, message).with("record", &store.name));
        }
        let (record, lists) = (Some(store.name.clone()), verb::filed(ending).is_none());
        Ok(OpKeys { record, lists, ..lease })
    }

    async fn list(&self, scope: Scope, page: Page) -> Result<RecordListing> {
        let mut names = Vec::new();
        for shard in self.key_space.shards(scope.namespace()) {
            names.extend(self.names_in(&shard, &scope, &page).await?);
        }
        names.sort();
        let mut filling = PageInProgress::new(&page);
        for name in names {
            if let Some(record) = self.record(&name).await?
                && !filling.add(name, record)
            {
                break;
            }
        }
        Ok(filling.done())
    }

    /// The names in scope of one shard, a little more than a page.
    async fn names_in(&self, shard: &Shard, scope: &Scope, page: &Page) -> Result<Vec<Name>> {
        let after = page.after.as_ref().map(Name::as_str).filter(|after| *after >= scope.root());
        let mut from = after.map_or_else(|| format!("[{}", scope.root()), |it| format!("({it}"));
        let mut names = Vec::new();
        loop {
            let found = texts(self.link.command(range(shard, scope, &from)).await?)?;
            let Some(last) = found.last() else { return Ok(names) };
            from = scope.leap(last).map_or_else(|| format!("({last}"), |leap| format!("[{leap}"));
            for text in found {
                let name = Name::new(scope.namespace(), text)?;
                names.extend(Some(name).filter(|name| scope.covers(name)));
            }
            if names.len() > page.size {
                return Ok(names);
            }
        }
    }
}

/// No name has a byte 0xff. A scope of depth 0 is one name.
fn range(shard: &Shard, scope: &Scope, from: &str) -> redis::Cmd {
    let end: &[u8] = if scope.depth() == 0 { b"" } else { b"\xff" };
    let to = [b"[", scope.root().as_bytes(), end].concat();
    let mut command = redis::cmd("ZRANGEBYLEX");
    command.arg(shard.records()).arg(from).arg(to).arg("LIMIT").arg(0).arg(STRIDE);
    command
}

fn held(answer: state::Answer) -> Result<Option<u64>> {
    match answer {
        state::Answer::Held { ttl } => Ok(Some(millis(ttl))),
        state::Answer::Gone => Ok(None),
        _ => Err(garbled()),
    }
}

fn too_busy(name: &Name) -> Error {
    let message = "the record changed under every try; try again later";
    Error::new(ErrorKind::Unavailable, message).with("record", name)
}

impl RecordStore for Native {
    fn load(&self, name: Name) -> BoxFuture<Result<Option<RawRecord>>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.record(&name).await })
    }

    fn store(&self, store: Store) -> BoxFuture<Result<Result<u64, Option<RawRecord>>>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.store(store).await })
    }

    fn add(&self, name: Name, amount: u64) -> BoxFuture<Result<u64>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.add(name, amount).await })
    }

    fn list(&self, scope: Scope, page: Page) -> BoxFuture<Result<RecordListing>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.list(scope, page).await })
    }

    fn watch(&self, scope: Scope) -> BoxFuture<Result<Box<dyn RecordEvents>>> {
        let client = Arc::clone(&self.0);
        Box::pin(async move {
            let watching = NativeWatch::start(client, scope).await?;
            Ok(Box::new(watching) as Box<dyn RecordEvents>)
        })
    }
}
