//! Records: versioned values, in keys beside those of the leases.
//!
//! A record that goes with a lease names it. Whoever finds such a record looks
//! at the lease and, if that has ended, removes the record; so nobody ever sees
//! what has outlived its lease, and no script touches keys it was not given.

use std::collections::{BTreeMap, HashMap, HashSet};
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
use crate::engine::{BoxFuture, PAGE_MAX, Page, RecordEvents, RecordListing, RecordStore, Scope};
use crate::engines::redis::link::RedisRequest;
use crate::engines::redis::script::{Script, ScriptCall};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// How often a write begins anew because the value changed under it.
const TRIES: usize = 1000;
/// When a record is looked at again whose end is not known.
const UNTOLD: Duration = Duration::from_secs(60);
/// The most records that one call reads: a server does nothing else meanwhile.
const TOGETHER: usize = 256;
/// How many are read at first where each may be on another shard, and how few at
/// least: every call answers one, however large it is.
const FEW: usize = 16;
/// So many bytes of values are enough for the answers to what is read in one go,
/// which the answers of locks have to wait for.
const ENOUGH: usize = 1024 * 1024;

static READ: Script = Script::new(include_str!("scripts/read.lua"));

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
            self.outlived(name, &stored.record).await?;
            return Ok(None);
        }
        Ok(Some(stored.record))
    }

    /// Removes what has outlived its lease, unless it was written anew.
    async fn outlived(&self, name: &Name, record: &RawRecord) -> Result<()> {
        let verb = stored_record::delete(name.as_str(), record.version);
        self.file(name, verb).await.map(drop)
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

    async fn add(&self, name: Name, amount: i64) -> Result<i64> {
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
    async fn add_here(&self, name: &Name, found: StoredRecord, amount: i64) -> Result<Option<i64>> {
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
        let (mut filling, mut after) = (PageInProgress::new(&page), page.after.clone());
        loop {
            let (names, rest) = self.names(&scope, after, page.size).await?;
            if !self.fill(&mut filling, names).await? || rest.is_none() {
                return Ok(filling.done());
            }
            after = rest;
        }
    }

    /// False once the page is full. What one shard answers is of no use while what
    /// comes before it on another is not there: the larger the values, the fewer
    /// are asked for.
    async fn fill(&self, page: &mut PageInProgress, names: Vec<Name>) -> Result<bool> {
        let mut rest = names.as_slice();
        let mut together = if self.link.is_cluster() { FEW } else { TOGETHER };
        while !rest.is_empty() {
            let some = &rest[..rest.len().min(together)];
            let (read, found) = self.read_together(some).await?;
            together = (2 * read).clamp(FEW, TOGETHER);
            for (name, record) in self.alive(found).await? {
                if !page.add(name, record) {
                    return Ok(false);
                }
            }
            rest = &rest[read..];
        }
        Ok(true)
    }

    /// Without those that have outlived the leases that they go with.
    async fn alive(&self, found: Vec<(Name, StoredRecord)>) -> Result<Vec<(Name, RawRecord)>> {
        let held = self.held_leases(&found).await?;
        let mut living = Vec::with_capacity(found.len());
        for (name, StoredRecord { record, lease }) in found {
            if lease.is_none_or(|(_, id)| held.contains(&id)) {
                living.push((name, record));
            } else {
                self.outlived(&name, &record).await?;
            }
        }
        Ok(living)
    }

    /// The records of the first of `names`, and of how many of them: one call for
    /// each shard, all in one go, and each answers its part of what is enough.
    async fn read_together(&self, names: &[Name]) -> Result<(usize, Vec<(Name, StoredRecord)>)> {
        let mut members: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        for (at, name) in names.iter().enumerate() {
            members.entry(self.shard(name)).or_default().push(at);
        }
        let enough = ENOUGH / members.len().max(1);
        let call = |(shard, places): (&Shard, &Vec<usize>)| read(shard, places, names, enough);
        let calls = members.iter().map(call).collect();
        let (mut read, mut found) = (names.len(), BTreeMap::new());
        for (places, reply) in members.into_values().zip(self.link.asks(calls).await) {
            let values = stored_record::all(reply?.value)?;
            read = places.get(values.len()).map_or(read, |unread| read.min(*unread));
            found.extend(places.into_iter().zip(values));
        }
        let found = found.into_iter().take_while(|(at, _)| *at < read);
        let named = |(at, stored): (usize, Option<_>)| Some((names[at].clone(), stored?));
        Ok((read, found.filter_map(named).collect()))
    }

    /// Those that are held of the leases that records go with, each asked for once.
    async fn held_leases(&self, found: &[(Name, StoredRecord)]) -> Result<HashSet<LeaseId>> {
        let leases = found.iter().filter_map(|(_, stored)| stored.lease.as_ref());
        let leases: HashMap<LeaseId, &Name> = leases.map(|(lease, id)| (*id, lease)).collect();
        let ask = |(id, lease)| (id, self.ask(lease, verb::holds(id)));
        let asked: Vec<_> = leases.into_iter().map(ask).collect();
        let mut alive = HashSet::new();
        for (id, asked) in asked {
            if held(asked.await?.answer()?)?.is_some() {
                alive.insert(id);
            }
        }
        Ok(alive)
    }

    /// The first names in scope, more than a page has, and after which of them
    /// others may follow.
    async fn names(
        &self,
        scope: &Scope,
        after: Option<Name>,
        size: usize,
    ) -> Result<(Vec<Name>, Option<Name>)> {
        let shards = self.key_space.shards(scope.namespace()).into_iter();
        let start = |shard| IndexWalk::new(shard, scope, after.as_ref(), size);
        let mut walks: Vec<IndexWalk> = shards.map(start).collect();
        while walks.iter().any(IndexWalk::goes_on) {
            let open = walks.iter().filter(|walk| walk.goes_on());
            let ranges = open.map(|walk| RedisRequest::Command(walk.range(scope))).collect();
            let replies = self.link.asks(ranges).await;
            for (walk, reply) in walks.iter_mut().filter(|walk| walk.goes_on()).zip(replies) {
                walk.take(scope, texts(reply?.value)?)?;
            }
        }
        // What comes after may be missing names of that shard.
        let cut = walks.iter().filter(|walk| !walk.over).filter_map(|walk| walk.names.last());
        let rest = cut.min().cloned();
        let mut names: Vec<Name> = walks.into_iter().flat_map(|walk| walk.names).collect();
        names.retain(|name| rest.as_ref().is_none_or(|rest| name <= rest));
        names.sort();
        Ok((names, rest))
    }
}

fn read(shard: &Shard, places: &[usize], names: &[Name], enough: usize) -> RedisRequest {
    let call = ScriptCall::written(&READ, places.len(), |call| {
        places.iter().for_each(|at| {
            call.arg(shard.record(names[*at].as_str()));
        });
        call.arg(enough);
    });
    RedisRequest::Call(call.only_reading())
}

/// A walk over the names of one shard that are in scope.
struct IndexWalk {
    shard: Shard,
    from: String,
    /// How many names are enough; so many are asked for at a time.
    enough: usize,
    names: Vec<Name>,
    /// Nothing follows.
    over: bool,
}

impl IndexWalk {
    fn new(shard: Shard, scope: &Scope, after: Option<&Name>, size: usize) -> Self {
        let after = after.map(Name::as_str).filter(|after| *after >= scope.root());
        let from = after.map_or_else(|| format!("[{}", scope.root()), |it| format!("({it}"));
        let enough = size.clamp(1, PAGE_MAX) + 1;
        Self { shard, from, enough, names: Vec::new(), over: false }
    }

    fn goes_on(&self) -> bool {
        !self.over && self.names.len() < self.enough
    }

    /// No name has a byte 0xff. A scope of depth 0 is one name.
    fn range(&self, scope: &Scope) -> redis::Cmd {
        let end: &[u8] = if scope.depth() == 0 { b"" } else { b"\xff" };
        let to = [b"[", scope.root().as_bytes(), end].concat();
        let mut command = redis::cmd("ZRANGEBYLEX");
        command.arg(self.shard.records()).arg(&self.from).arg(to);
        command.arg("LIMIT").arg(0).arg(self.enough);
        command
    }

    fn take(&mut self, scope: &Scope, found: Vec<String>) -> Result<()> {
        self.over = found.len() < self.enough;
        if let Some(last) = found.last() {
            let leap = scope.leap(last).map(|leap| format!("[{leap}"));
            self.from = leap.unwrap_or_else(|| format!("({last}"));
        }
        for text in found {
            let name = Name::new(scope.namespace(), text)?;
            self.names.extend(Some(name).filter(|name| scope.covers(name)));
        }
        Ok(())
    }
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

    fn add(&self, name: Name, amount: i64) -> BoxFuture<Result<i64>> {
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
