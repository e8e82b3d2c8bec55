//! Values: loading, writing, listing.

use std::sync::Arc;
use std::time::Duration;

use super::changes::failed;
use super::client::{ZkClient, ask, data, only};
use super::connection::ZkAnswer;
use super::fault;
use super::leader_clock::millis;
use super::session_link::SessionLink;
use super::stored::{GRACE_MILLIS, Stored, mark, stamped};
use super::wire::{Body, Code, CreateMode, ZkRequest, version};
use crate::clock::Moment;
use crate::engine::Scope;
use crate::engine::records::PAGE_BYTES;
use crate::engines::consensus::{If, RecordFormat, Scan, StoredValue, ValueLife};
use crate::error::Result;
use crate::name::Name;

/// How often a write that others get in the way of is tried.
const ATTEMPTS: usize = 100;
/// How many values are asked for in one go.
const TOGETHER: usize = 64;
/// How far what we know of the leader's clock may be off.
const SLACK: Duration = Duration::from_secs(1);

/// What became of a write.
enum WriteResult {
    Done(u64),
    /// The entry that it depends on is gone.
    Unguarded,
    /// Something else is there than was expected.
    Conflict,
    /// Nothing is above it.
    Rootless,
}

impl ZkClient {
    pub(super) async fn load(&self, name: Name) -> Result<Option<StoredValue>> {
        let path = self.layout.value(&name)?;
        let look = ZkRequest::GetData { path: path.clone(), watch: false };
        self.read(&path, only(self.ask_now(vec![look]).await?)?).await
    }

    /// What of the node counts that was looked at.
    pub(super) async fn read(&self, path: &str, answer: ZkAnswer) -> Result<Option<StoredValue>> {
        let asked_at = answer.asked_at;
        let stored = data(answer)?.map(|(bytes, stat)| self.layout.stored(bytes, stat));
        self.there(path, stored, asked_at).await
    }

    /// What lies in a node.
    pub(super) async fn stored(&self, path: &str) -> Result<Option<Stored>> {
        let look = ZkRequest::GetData { path: path.to_owned(), watch: false };
        let found = data(only(self.ask_now(vec![look]).await?)?)?;
        Ok(found.map(|(bytes, stat)| self.layout.stored(bytes, stat)))
    }

    /// What of it counts, by the time when it was asked for: it may have got more
    /// time since then. Whoever meets what does not count clears it away.
    async fn there(
        &self,
        path: &str,
        stored: Option<Stored>,
        asked_at: Moment,
    ) -> Result<Option<StoredValue>> {
        let Some(stored) = stored else { return Ok(None) };
        if !stored.is_timed() && !stored.is_mark() {
            return Ok(Some(stored.value()));
        }
        let now = self.wall_clock_at(asked_at).await?;
        if stored.is_there(now) {
            return Ok(Some(stored.value()));
        }
        if !stored.is_mark() || stored.is_old_mark(now) {
            self.chores.add(self.terms.clock.now(), path);
        }
        Ok(None)
    }

    /// Clears away what lies in a node, if its time has come.
    pub(super) async fn tidy(&self, path: String) -> Result<()> {
        let Some(stored) = self.stored(&path).await? else { return Ok(()) };
        let (now, version) = (self.wall_clock().await?, stored.stat.version);
        let (clock, left) = (&self.terms.clock, stored.until.saturating_sub(now));
        let write = match &stored {
            stored if stored.is_old_mark(now) => ZkRequest::Delete { path: path.clone(), version },
            stored if stored.is_timed() && left <= 0 => {
                self.chores.add(clock.now().after(grace()), &path);
                ZkRequest::SetData { path: path.clone(), data: mark(now), version }
            }
            // The clocks differ a little, or it was written again meanwhile.
            stored if stored.is_timed() => {
                let left = Duration::from_millis(left.unsigned_abs());
                self.chores.add(clock.now().after(left.min(grace())), &path);
                return Ok(());
            }
            _ => return Ok(()),
        };
        // If somebody was faster, it is theirs to look after.
        self.ask(vec![write]).await.map(drop)
    }

    /// The leader's clock, in milliseconds since 1970.
    pub(super) async fn wall_clock(&self) -> Result<i64> {
        self.wall_clock_at(self.terms.clock.now()).await
    }

    /// What it showed at a moment just before, or less.
    async fn wall_clock_at(&self, moment: Moment) -> Result<i64> {
        if let Some(shown) = self.terms.wall.shows(moment) {
            return Ok(shown);
        }
        let path = self.layout.clock();
        for _ in 0..ATTEMPTS {
            let session_link = self.sessions.any().await?;
            let write = ZkRequest::SetData { path: path.clone(), data: vec![], version: -1 };
            match only(ask(&session_link, vec![write]).await?)?.result {
                Ok(Body::Known(stat)) => {
                    self.terms.wall.learn(self.terms.clock.now(), stat.changed_at);
                    return Ok(self.terms.wall.shows(moment).unwrap_or(stat.changed_at));
                }
                Err(Code::NO_NODE) => {
                    self.make_above(&session_link, &format!("{path}/")).await?;
                }
                Ok(_) => return Err(fault::misfit()),
                Err(code) => return Err(fault::refused(code)),
            }
        }
        Err(fault::away("the path of the records is removed as often as it is made"))
    }

    pub(super) async fn store(
        &self,
        name: Name,
        condition: If,
        bytes: Option<Vec<u8>>,
        life: ValueLife,
        guard: Option<Arc<str>>,
    ) -> Result<Option<u64>> {
        let path = self.layout.value(&name)?;
        let session_link = self.carrier(&life).await?;
        for _ in 0..ATTEMPTS {
            let Some(steps) = self.plan(&path, condition, bytes.as_deref(), &life).await? else {
                return Ok(None);
            };
            match self.write(&session_link, steps, guard.as_ref()).await? {
                WriteResult::Done(version) => {
                    self.look_after(&path, &life, bytes.is_none());
                    return Ok(Some(version));
                }
                WriteResult::Unguarded => return Ok(None),
                WriteResult::Rootless => self.make_above_value(&session_link, &path).await?,
                WriteResult::Conflict if matches!(condition, If::Stamp(_)) => return Ok(None),
                WriteResult::Conflict => {}
            }
        }
        Err(fault::away("others write the same value all the time; try again"))
    }

    /// What goes with a session is written by it.
    pub(super) async fn carrier(&self, life: &ValueLife) -> Result<Arc<SessionLink>> {
        match life {
            ValueLife::Session(session) => self.sessions.of(session),
            _ => self.sessions.any().await,
        }
    }

    /// The requests that write a value, or put a mark in its place; `None` if the
    /// condition does not hold.
    async fn plan(
        &self,
        path: &str,
        condition: If,
        bytes: Option<&[u8]>,
        life: &ValueLife,
    ) -> Result<Option<Vec<ZkRequest>>> {
        let Some(bytes) = bytes else { return self.plan_removal(path, condition).await };
        let simple = matches!(life, ValueLife::Forever | ValueLife::For(_));
        if let If::Stamp(stamp) = condition
            && let (version, false) = stamped(stamp)
            && simple
        {
            let data = self.layout.packed(self.until(life, None).await?, bytes);
            return Ok(Some(vec![ZkRequest::SetData { path: path.to_owned(), data, version }]));
        }
        let (found, alive) = self.seen(path).await?;
        let holds = match condition {
            If::Any => true,
            If::Absent => alive.is_none(),
            If::Stamp(stamp) => alive.as_ref().is_some_and(|value| value.stamp == stamp),
        };
        if !holds {
            return Ok(None);
        }
        self.over(path, found, alive.is_some(), bytes, life).await.map(Some)
    }

    /// Makes what is missing above a value. Servers remove what is ours once it is empty;
    /// a raw value may be stored above another one, and has to stay.
    pub(super) async fn make_above_value(&self, link: &SessionLink, path: &str) -> Result<()> {
        match self.layout.records() {
            RecordFormat::Own => self.make_above(link, path).await.map(drop),
            RecordFormat::Raw => self.make_nodes_above(link, path).await.map(drop),
        }
    }

    /// The requests that write a value, whatever is there.
    pub(super) async fn writing(
        &self,
        path: &str,
        bytes: &[u8],
        life: &ValueLife,
    ) -> Result<Vec<ZkRequest>> {
        let (found, alive) = self.seen(path).await?;
        self.over(path, found, alive.is_some(), bytes, life).await
    }

    /// The requests that delete a value, whatever is there. A mark is left where nothing
    /// was, too: one that is written meanwhile makes them fail. Where there are no marks
    /// it is as if that one came later.
    pub(super) async fn deleting(&self, path: &str) -> Result<Vec<ZkRequest>> {
        let found = self.stored(path).await?;
        if self.layout.records() == RecordFormat::Raw {
            let delete = |found: Stored| removal(path, found.stat.version);
            return Ok(found.map(delete).into_iter().collect());
        }
        let owner = found.as_ref().map_or(0, |found| found.stat.owner);
        let mark = mark(self.wall_clock().await?);
        Ok(self.put(path, found.as_ref(), mark, owner))
    }

    /// What lies in a node, and what of it counts.
    async fn seen(&self, path: &str) -> Result<(Option<Stored>, Option<StoredValue>)> {
        let asked_at = self.terms.clock.now();
        let found = self.stored(path).await?;
        let alive = self.there(path, found.clone(), asked_at).await?;
        Ok((found, alive))
    }

    /// The requests that write over what was found.
    async fn over(
        &self,
        path: &str,
        found: Option<Stored>,
        alive: bool,
        bytes: &[u8],
        life: &ValueLife,
    ) -> Result<Vec<ZkRequest>> {
        let kept = found.as_ref().filter(|_| alive);
        let until = self.until(life, kept).await?;
        let owner = match life {
            ValueLife::Session(session) => i64::from_be_bytes(session.id().to_be_bytes()),
            ValueLife::Keep => kept.map_or(0, |kept| kept.stat.owner),
            ValueLife::Forever | ValueLife::For(_) => 0,
        };
        Ok(self.put(path, found.as_ref(), self.layout.packed(until, bytes), owner))
    }

    /// Until when a value is there.
    async fn until(&self, life: &ValueLife, kept: Option<&Stored>) -> Result<i64> {
        match life {
            ValueLife::Forever | ValueLife::Session(_) => Ok(0),
            ValueLife::Keep => Ok(kept.map_or(0, |kept| kept.until.max(0))),
            ValueLife::For(span) => Ok(self.wall_clock().await?.saturating_add(millis(*span))),
        }
    }

    /// Writes over what was found, or in its place if it belongs to another
    /// session.
    fn put(&self, path: &str, found: Option<&Stored>, data: Vec<u8>, owner: i64) -> Vec<ZkRequest> {
        let path = path.to_owned();
        let node = if owner == 0 { CreateMode::Persistent } else { CreateMode::Ephemeral };
        match found.map(|found| found.stat) {
            None => vec![self.create(path, data, node)],
            Some(stat) if stat.owner == owner => {
                vec![ZkRequest::SetData { path, data, version: stat.version }]
            }
            Some(stat) => vec![removal(&path, stat.version), self.create(path, data, node)],
        }
    }

    async fn plan_removal(&self, path: &str, condition: If) -> Result<Option<Vec<ZkRequest>>> {
        let version = match condition {
            If::Stamp(stamp) => Some(stamped(stamp).0),
            If::Any | If::Absent => {
                let (found, alive) = self.seen(path).await?;
                let version = found.as_ref().map(|found| found.stat.version);
                let alive = alive.is_some();
                if alive && condition == If::Absent {
                    return Ok(None);
                }
                version.filter(|_| alive)
            }
        };
        let Some(version) = version else { return Ok(Some(Vec::new())) };
        if self.layout.records() == RecordFormat::Raw {
            return Ok(Some(vec![removal(path, version)]));
        }
        let data = mark(self.wall_clock().await?);
        Ok(Some(vec![ZkRequest::SetData { path: path.to_owned(), data, version }]))
    }

    async fn write(
        &self,
        session_link: &SessionLink,
        mut steps: Vec<ZkRequest>,
        guard: Option<&Arc<str>>,
    ) -> Result<WriteResult> {
        let guarded = guard.is_some();
        if let Some(key) = guard {
            steps.insert(0, ZkRequest::Check { path: key.to_string() });
        }
        if steps.is_empty() {
            // There is nothing to remove; but since when?
            steps.push(ZkRequest::Sync);
        }
        let creates = steps.last().is_some_and(|last| matches!(last, ZkRequest::Create { .. }));
        let last = steps.len() - 1;
        let alone = last == 0 && !guarded;
        let request = if alone { steps.remove(0) } else { ZkRequest::Multi(steps) };
        let answer = only(ask(session_link, vec![request]).await?)?;
        self.learn_clock(&answer);
        let zxid = answer.zxid;
        match failure(answer)? {
            None => Ok(WriteResult::Done(version(zxid))),
            Some((0, Code::NO_NODE)) if guarded => Ok(WriteResult::Unguarded),
            Some((at, Code::NO_NODE)) if creates && at == last => Ok(WriteResult::Rootless),
            Some((_, Code::NO_NODE | Code::BAD_VERSION | Code::NODE_EXISTS)) => {
                Ok(WriteResult::Conflict)
            }
            Some((_, code)) => Err(fault::refused(code)),
        }
    }

    fn learn_clock(&self, answer: &ZkAnswer) {
        if let Ok(Body::Known(stat) | Body::Made(_, stat)) = &answer.result {
            self.terms.wall.learn(self.terms.clock.now(), stat.changed_at);
        }
    }

    /// Sees to it that a value goes when its time is up, and a mark when it is old.
    pub(super) fn look_after(&self, path: &str, life: &ValueLife, removed: bool) {
        let span = match life {
            _ if self.layout.records() == RecordFormat::Raw => return,
            _ if removed => grace(),
            ValueLife::For(span) => *span,
            _ => return,
        };
        self.chores.add(self.terms.clock.now().after(span), path);
    }

    pub(super) async fn scan(&self, scope: Scope, from: Arc<str>, most: usize) -> Result<Scan> {
        let namespace = scope.namespace();
        if self.layout.records() == RecordFormat::Raw {
            return self.scan_tree(&scope, &from, most).await;
        }
        let (path, prefix) = (self.layout.values_of(namespace), Arc::from(scope.root()));
        let (all, mut at) = self.walk(path, &prefix, &from, most).await?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while found.len() < most && bytes < PAGE_BYTES && at < all.len() {
            let end = all.len().min(at + TOGETHER.min(most - found.len()));
            let texts = all[at..end].iter().cloned();
            let names: Vec<_> = texts.flat_map(|text| Name::new(namespace, text)).collect();
            let loaded = self.load_all(&names).await?;
            bytes += loaded.iter().map(|(_, value)| value.bytes.len()).sum::<usize>();
            found.extend(loaded);
            at = end;
        }
        Ok((found, at < all.len()))
    }

    async fn load_all(&self, names: &[Name]) -> Result<Vec<(Name, StoredValue)>> {
        let paths: Vec<_> =
            names.iter().map(|name| self.layout.value(name)).collect::<Result<_>>()?;
        let look = |path: &String| ZkRequest::GetData { path: path.clone(), watch: false };
        let answers = self.ask_now(paths.iter().map(look).collect()).await?;
        let mut found = Vec::new();
        for ((name, path), answer) in names.iter().zip(&paths).zip(answers) {
            if let Some(value) = self.read(path, answer).await? {
                found.push((name.clone(), value));
            }
        }
        Ok(found)
    }
}

/// Removes a node, if it was written as often.
fn removal(path: &str, version: i32) -> ZkRequest {
    ZkRequest::Delete { path: path.to_owned(), version }
}

fn grace() -> Duration {
    Duration::from_millis(GRACE_MILLIS.unsigned_abs()) + SLACK
}

/// The step that failed, of one or of many.
fn failure(answer: ZkAnswer) -> Result<Option<(usize, Code)>> {
    match answer.result {
        Ok(Body::Steps(_)) => failed(answer),
        Ok(_) => Ok(None),
        Err(code) => Ok(Some((0, code))),
    }
}
