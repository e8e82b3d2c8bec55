//! Lines: joining one, listing it, leaving it.

use std::future::ready;
use std::sync::Arc;

use super::client::{ZkClient, ask, ask_now, children, gone, known, only};
use super::connection::ZkAnswer;
use super::fault;
use super::layout::{LEASES, LOCKS, downgraded, prefix, sort};
use super::session_link::SessionLink;
use super::wire::{Body, Code, CreateMode, ZkRequest, version};
use crate::claim::{LeaseId, Mode};
use crate::engines::consensus::{
    Entered, Joined, Newcomer, QueueEntry, QueueId, QueuePart, Session,
};
use crate::error::Result;
use crate::name::Name;

/// How often what lies above a line is made again while others remove it.
const ATTEMPTS: usize = 10;

impl ZkClient {
    pub(super) async fn join(
        self: Arc<Self>,
        session: Arc<Session>,
        line: QueueId,
        newcomer: Newcomer,
    ) -> Result<Entered> {
        let session_link = self.sessions.of(&session)?;
        let slot = session_link.slot_to_list().await?;
        let Entered(found) = self.enter(Arc::clone(&session_link), line, newcomer).await?;
        Ok(Entered(Box::pin(async move {
            let joined = found.await?;
            session_link.listed(slot);
            Ok(joined)
        })))
    }

    async fn enter(
        self: Arc<Self>,
        session_link: Arc<SessionLink>,
        line: QueueId,
        newcomer: Newcomer,
    ) -> Result<Entered> {
        let path = self.layout.line(&line)?;
        if newcomer.again
            && let Some(joined) = self.adopt(&session_link, &line, &path, &newcomer).await?
        {
            return Ok(Entered(Box::pin(ready(Ok(joined)))));
        }
        for _ in 0..ATTEMPTS {
            let requests = self.joining(&line, &path, &newcomer)?;
            let mut answers = ask(&session_link, requests).await?.into_iter();
            if let Some(made) = created(answers.next())? {
                let read = async move {
                    self.joined(&session_link, &line, &path, &newcomer, made, answers).await
                };
                return Ok(Entered(Box::pin(read)));
            }
            self.make_above(&session_link, &format!("{path}/")).await?;
        }
        Err(fault::away("the path of the line is removed as often as it is made"))
    }

    /// One trip: enter, list the line, look who else uses the name and what its
    /// value is.
    fn joining(&self, line: &QueueId, path: &str, newcomer: &Newcomer) -> Result<Vec<ZkRequest>> {
        let word = self.layout.node(line.part, newcomer);
        let data = newcomer.metadata.write();
        let node = || self.create(format!("{path}/{word}"), data.clone(), CreateMode::Numbered);
        let mut requests = vec![match count(newcomer.mode) {
            1 => node(),
            many => ZkRequest::Multi((0..many).map(|_| node()).collect()),
        }];
        requests.push(ZkRequest::GetChildren { path: path.to_owned(), watch: false });
        if line.part == QueuePart::Door {
            let path = self.layout.base(&line.name)?;
            requests.push(ZkRequest::GetChildren { path, watch: false });
        }
        if newcomer.wants.record() {
            let path = self.layout.value(&line.name)?;
            requests.push(ZkRequest::GetData { path, watch: false });
        }
        Ok(requests)
    }

    /// What was found where these nodes were made.
    async fn joined(
        &self,
        session_link: &SessionLink,
        line: &QueueId,
        path: &str,
        newcomer: &Newcomer,
        (paths, fence): Made,
        mut answers: impl Iterator<Item = ZkAnswer> + Send,
    ) -> Result<Joined> {
        let mut next = || answers.next().ok_or_else(fault::misfit);
        let names = children(next()?)?;
        let own = |key: &String| self.own(line.part, key, fence, newcomer.mode);
        let mine: Vec<_> = paths.iter().map(own).collect();
        let stranger = match line.part {
            QueuePart::Queue => self.semaphore(session_link, path, &names).await?,
            QueuePart::Door => self.lock(&line.name, &children(next()?)?)?,
            QueuePart::Permits => None,
        };
        let value = if newcomer.wants.record() {
            Some(self.read(&self.layout.value(&line.name)?, next()?).await?)
        } else {
            None
        };
        let line = self.told(line.part, path, &names, mine.first());
        Ok(Joined { mine, line, stranger, value })
    }

    /// As much of a line as whoever is in it has to know; of those with permits each
    /// one counts.
    fn told(
        &self,
        part: QueuePart,
        path: &str,
        names: &[String],
        mine: Option<&QueueEntry>,
    ) -> Vec<QueueEntry> {
        match mine.filter(|_| part != QueuePart::Permits) {
            Some(mine) => self.layout.around(part, path, names, &mine.key),
            None => self.layout.entries(part, path, names),
        }
    }

    fn own(&self, part: QueuePart, key: &str, fence: u64, mode: Mode) -> QueueEntry {
        let (path, child) = key.rsplit_once('/').unwrap_or_default();
        let mode = match mode {
            // Each node is for one.
            Mode::Permits { of, .. } => Mode::Permits { take: 1, of },
            mode => mode,
        };
        QueueEntry { fence: Some(fence), mode, ..self.layout.entry(part, path, child) }
    }

    /// Whether a path whose children these are is that of a semaphore in use.
    async fn semaphore(
        &self,
        session_link: &SessionLink,
        path: &str,
        names: &[String],
    ) -> Result<Option<Mode>> {
        let folders = names.iter().filter(|name| [LOCKS, LEASES].contains(&name.as_str()));
        let looks: Vec<_> =
            folders.map(|name| ZkRequest::Exists { path: format!("{path}/{name}") }).collect();
        if looks.is_empty() {
            return Ok(None);
        }
        let answers = ask(session_link, looks).await?.into_iter();
        let found: Vec<_> = answers.map(known).collect::<Result<_>>()?;
        let used = found.iter().flatten().any(|stat| stat.children > 0);
        Ok(used.then_some(Mode::Permits { take: 1, of: 0 }))
    }

    /// Whether someone uses the name as a mutex or a read-write lock.
    fn lock(&self, name: &Name, names: &[String]) -> Result<Option<Mode>> {
        let base = self.layout.base(name)?;
        Ok(self.layout.entries(QueuePart::Queue, &base, names).first().map(|entry| entry.mode))
    }

    /// What an earlier request of this id has left in this session. Whatever
    /// else it left goes.
    async fn adopt(
        &self,
        session_link: &SessionLink,
        line: &QueueId,
        path: &str,
        newcomer: &Newcomer,
    ) -> Result<Option<Joined>> {
        let names = self.children_of(session_link, path).await?;
        let found = self.found(session_link, path, &names, newcomer.id).await?;
        let (mut mine, mut rest) = (Vec::new(), Vec::new());
        for (key, owner, fence) in found {
            match owner == session_link.id() && mine.len() < count(newcomer.mode) {
                true => mine.push(self.own(line.part, &key, fence, newcomer.mode)),
                false => rest.push(key),
            }
        }
        if mine.len() < count(newcomer.mode) {
            rest.extend(mine.drain(..).map(|entry| entry.key.to_string()));
        }
        self.remove(session_link, rest.clone()).await?;
        if mine.is_empty() {
            return Ok(None);
        }
        let stranger = match line.part {
            QueuePart::Queue => self.semaphore(session_link, path, &names).await?,
            QueuePart::Door | QueuePart::Permits => None,
        };
        sort(&mut mine);
        let names: Vec<_> = names.into_iter().filter(|name| !is_in(name, &rest)).collect();
        let line = self.told(line.part, path, &names, mine.first());
        Ok(Some(Joined { mine, line, stranger, value: None }))
    }

    /// The nodes of a lease among these: path, session, fence.
    async fn found(
        &self,
        session_link: &SessionLink,
        path: &str,
        names: &[String],
        id: LeaseId,
    ) -> Result<Vec<(String, i64, u64)>> {
        let mark = prefix(id);
        let keys = names.iter().filter(|name| name.starts_with(&mark));
        let keys: Vec<_> = keys.map(|name| format!("{path}/{name}")).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let looks = keys.iter().map(|path| ZkRequest::Exists { path: path.clone() }).collect();
        let stats = ask(session_link, looks).await?.into_iter().map(known);
        let stats: Vec<_> = stats.collect::<Result<_>>()?;
        let there = keys.into_iter().zip(stats).filter_map(|(key, stat)| Some((key, stat?)));
        Ok(there.map(|(key, stat)| (key, stat.owner, version(stat.made))).collect())
    }

    async fn children_of(&self, session_link: &SessionLink, path: &str) -> Result<Vec<String>> {
        let list = ZkRequest::GetChildren { path: path.to_owned(), watch: false };
        children(only(ask(session_link, vec![list]).await?)?)
    }

    /// Whether any of them was there.
    async fn remove(&self, session_link: &SessionLink, keys: Vec<String>) -> Result<bool> {
        if keys.is_empty() {
            return Ok(false);
        }
        let delete = |path| ZkRequest::Delete { path, version: -1 };
        let answers = ask(session_link, keys.into_iter().map(delete).collect()).await?;
        let there: Vec<_> = answers.into_iter().map(gone).collect::<Result<_>>()?;
        Ok(there.contains(&true))
    }

    /// Whoever is in line sees what it has seen before, and can wait for news.
    /// Others want to know how it is now.
    pub(super) async fn list(
        &self,
        line: QueueId,
        mine: Option<QueueEntry>,
    ) -> Result<Vec<QueueEntry>> {
        let path = self.layout.line(&line)?;
        let list = vec![ZkRequest::GetChildren { path: path.clone(), watch: false }];
        let session_link = self.sessions.any().await?;
        let slot = session_link.slot_to_list().await?;
        let answers = match mine {
            Some(_) => ask(&session_link, list).await?,
            None => ask_now(&session_link, list).await?,
        };
        let names = children(only(answers)?)?;
        let told = self.told(line.part, &path, &names, mine.as_ref());
        session_link.listed(slot);
        Ok(told)
    }

    /// Every session is asked, because each one's requests are in order: what one
    /// has sent before has arrived when it is asked, or never will.
    pub(super) async fn withdraw(&self, line: QueueId, id: LeaseId) -> Result<bool> {
        let path = self.layout.line(&line)?;
        let mut any = false;
        let mut asked = self.sessions.living();
        if asked.is_empty() {
            // Another client made the claim.
            asked.push(self.sessions.any().await?);
        }
        for session_link in asked {
            let left = match self.left(&session_link, &path, id).await {
                Ok(left) => left,
                // What was sent on it went with it.
                Err(_) if session_link.session().is_over() => continue,
                Err(error) => return Err(error),
            };
            any |= self.remove(&session_link, left).await?;
        }
        Ok(any)
    }

    /// The nodes of a lease in a line, as a session sees it.
    async fn left(
        &self,
        session_link: &SessionLink,
        path: &str,
        id: LeaseId,
    ) -> Result<Vec<String>> {
        let slot = session_link.slot_to_list().await?;
        let (names, mark) = (self.children_of(session_link, path).await?, prefix(id));
        let left = names.iter().filter(|name| name.starts_with(&mark));
        let left = left.map(|name| format!("{path}/{name}")).collect();
        session_link.listed(slot);
        Ok(left)
    }

    pub(super) async fn downgrade(
        &self,
        session: Arc<Session>,
        entry: QueueEntry,
    ) -> Result<Option<QueueEntry>> {
        let session_link = self.sessions.of(&session)?;
        let Some(path) = downgraded(&entry.key) else { return Ok(None) };
        let data = entry.metadata.clone().unwrap_or_default().write();
        let delete = ZkRequest::Delete { path: entry.key.to_string(), version: -1 };
        let steps = vec![self.create(path.clone(), data, CreateMode::Ephemeral), delete];
        let answer = only(ask(&session_link, vec![ZkRequest::Multi(steps)]).await?)?;
        let steps = match answer.result {
            Ok(Body::Steps(steps)) => steps,
            Ok(_) => return Err(fault::misfit().unknown()),
            Err(code) => return Err(fault::refused(code)),
        };
        match steps.iter().find_map(|step| step.as_ref().err().filter(|code| code.0 != 0)) {
            None => Ok(Some(QueueEntry { key: path.into(), mode: Mode::Read, ..entry })),
            Some(&Code::NO_NODE | &Code::INCONSISTENT) => Ok(None),
            // Done before, and the answer was lost.
            Some(&Code::NODE_EXISTS) => {
                Ok(Some(QueueEntry { key: path.into(), mode: Mode::Read, ..entry }))
            }
            Some(&code) => Err(fault::refused(code)),
        }
    }
}

/// Whether a child is that of one of these paths.
fn is_in(name: &str, paths: &[String]) -> bool {
    paths.iter().any(|path| path.rsplit_once('/').is_some_and(|(_, child)| child == name))
}

/// How many nodes a claim has.
fn count(mode: Mode) -> usize {
    match mode {
        Mode::Permits { take, .. } => usize::try_from(take).unwrap_or(usize::MAX),
        _ => 1,
    }
}

/// Where nodes were made, and when.
type Made = (Vec<String>, u64);

/// What was made; `None` if what is above it is missing.
fn created(answer: Option<ZkAnswer>) -> Result<Option<Made>> {
    let unclear = || fault::misfit().unknown();
    let answer = answer.ok_or_else(unclear)?;
    match answer.result {
        Ok(Body::Made(path, stat)) => Ok(Some((vec![path], version(stat.made)))),
        Ok(Body::Steps(steps)) => created_all(steps, answer.zxid),
        Ok(_) => Err(unclear()),
        Err(Code::NO_NODE) => Ok(None),
        Err(code) => Err(fault::refused(code)),
    }
}

/// All steps of a change have its number.
fn created_all(steps: Vec<Result<Body, Code>>, zxid: i64) -> Result<Option<Made>> {
    let mut paths = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Ok(Body::Made(path, _)) => paths.push(path),
            Ok(_) => return Err(fault::misfit().unknown()),
            Err(Code::NO_NODE) => return Ok(None),
            Err(Code(0)) => {}
            Err(code) => return Err(fault::refused(code)),
        }
    }
    Ok(Some((paths, version(zxid))))
}
