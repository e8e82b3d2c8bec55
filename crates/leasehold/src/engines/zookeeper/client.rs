//! What all verbs share: sessions, paths, and requests that see at least what
//! this client has seen before.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::child_walks::ChildWalks;
use super::chores::Chores;
use super::connection::{ZkAnswer, ZkConnection};
use super::fault;
use super::layout::PathLayout;
use super::paths::above;
use super::session_link::{SessionLink, SessionTerms};
use super::sessions::Sessions;
use super::wire::{Body, Code, CreateMode, Stat, ZkRequest};
use crate::engines::consensus::Session;
use crate::error::Result;

pub(super) struct ZkClient {
    pub(super) terms: Arc<SessionTerms>,
    pub(super) sessions: Sessions,
    pub(super) layout: PathLayout,
    pub(super) chores: Chores,
    pub(super) walks: ChildWalks,
}

impl fmt::Debug for ZkClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.terms.settings.endpoint()).finish()
    }
}

impl ZkClient {
    pub(super) async fn session(&self, ttl: Duration, delay: Duration) -> Result<Arc<Session>> {
        let session_link = self.sessions.of_ttl(ttl, delay).await?;
        // One that has lost its connection may be over without our knowing it.
        session_link.connection().await?;
        Ok(Arc::clone(session_link.session()))
    }

    /// After a silence the leader knows little of us, and one answer proves little.
    pub(super) async fn prove(&self, session: Arc<Session>) -> Result<()> {
        let clock = &self.terms.clock;
        let (session_link, called) = (self.sessions.of(&session)?, clock.now());
        let end = called.after(self.terms.settings.timeout);
        loop {
            only(ask(&session_link, vec![ZkRequest::proof()]).await?)?
                .result
                .map_err(fault::refused)?;
            if session.proven() >= called {
                return Ok(());
            }
            if clock.now() >= end {
                return Err(fault::silent());
            }
            clock.sleep_until(clock.now().after(self.sessions.shortest() / 16)).await;
        }
    }

    /// Does what falls due, for ever.
    pub(super) async fn keep_tidy(self: Arc<Self>) {
        loop {
            let path = self.chores.next(&self.terms.clock).await;
            // Whoever meets it next will try again.
            let _ = self.tidy(path).await;
        }
    }

    /// Sends all in one go over any session.
    pub(super) async fn ask(&self, requests: Vec<ZkRequest>) -> Result<Vec<ZkAnswer>> {
        let session_link = self.sessions.any().await?;
        ask(&session_link, requests).await
    }

    /// The same, from a server that knows all that is decided by now.
    pub(super) async fn ask_now(&self, requests: Vec<ZkRequest>) -> Result<Vec<ZkAnswer>> {
        let session_link = self.sessions.any().await?;
        ask_now(&session_link, requests).await
    }

    pub(super) fn create(&self, path: String, data: Vec<u8>, node: CreateMode) -> ZkRequest {
        ZkRequest::Create { path, data, node, acl: self.terms.settings.acl }
    }

    /// Makes whatever is missing above `path`; whether nobody forbids that. Servers
    /// remove it once it is empty.
    pub(super) async fn make_above(&self, session_link: &SessionLink, path: &str) -> Result<bool> {
        let containers = above(path).into_iter();
        let containers = containers.map(|path| self.create(path, vec![], CreateMode::Container));
        let answers = ask(session_link, containers.collect()).await?;
        let first = answers.iter().find_map(|answer| answer.result.as_ref().err().copied());
        if first != Some(Code::UNIMPLEMENTED) {
            return made(answers);
        }
        self.make_nodes_above(session_link, path).await
    }

    /// The same, and nobody removes it.
    pub(super) async fn make_nodes_above(&self, link: &SessionLink, path: &str) -> Result<bool> {
        let nodes = above(path).into_iter();
        let nodes = nodes.map(|path| self.create(path, vec![], CreateMode::Persistent));
        made(ask(link, nodes.collect()).await?)
    }
}

/// Sends all in one go over a session.
pub(super) async fn ask(
    session_link: &SessionLink,
    requests: Vec<ZkRequest>,
) -> Result<Vec<ZkAnswer>> {
    ask_on(&session_link.connection().await?, requests).await
}

/// The same, from a server that knows all that is decided by now.
pub(super) async fn ask_now(
    session_link: &SessionLink,
    mut requests: Vec<ZkRequest>,
) -> Result<Vec<ZkAnswer>> {
    let connection = session_link.connection().await?;
    requests.insert(0, ZkRequest::Sync);
    let mut answers = connection.ask(requests).await?;
    answers.remove(0).result.map_err(fault::refused)?;
    Ok(answers)
}

/// Sends all in one go. A server that may be behind what we know catches up
/// first, so that nothing is read that is older.
pub(super) async fn ask_on(
    connection: &ZkConnection,
    mut requests: Vec<ZkRequest>,
) -> Result<Vec<ZkAnswer>> {
    if !connection.is_behind() || !requests.iter().any(ZkRequest::reads) {
        return connection.ask(requests).await;
    }
    requests.insert(0, ZkRequest::Sync);
    let mut answers = connection.ask(requests).await?;
    answers.remove(0).result.map_err(fault::refused)?;
    Ok(answers)
}

/// It does not matter who has made a node that we need. False if one of them may be
/// missing because we may not make it.
fn made(answers: Vec<ZkAnswer>) -> Result<bool> {
    let mut allowed = true;
    for answer in answers {
        match answer.result {
            Ok(_) | Err(Code::NODE_EXISTS) => {}
            // One above went away meanwhile. Whoever needs it will ask again.
            Err(Code::NO_NODE) => {}
            // Those above may be another's to look after; they only have to be there.
            Err(Code::NO_AUTH) => allowed = false,
            Err(code) => return Err(fault::refused(code)),
        }
    }
    Ok(allowed)
}

pub(super) fn only(answers: Vec<ZkAnswer>) -> Result<ZkAnswer> {
    answers.into_iter().next().ok_or_else(fault::misfit)
}

/// The children that an answer lists; none if their parent is not there.
pub(super) fn children(answer: ZkAnswer) -> Result<Vec<String>> {
    match answer.result {
        Ok(Body::Children(children)) => Ok(children),
        Ok(_) => Err(fault::misfit()),
        Err(Code::NO_NODE) => Ok(Vec::new()),
        Err(code) => Err(fault::refused(code)),
    }
}

/// What an answer says of a node; `None` if it is not there.
pub(super) fn known(answer: ZkAnswer) -> Result<Option<Stat>> {
    match answer.result {
        Ok(Body::Known(stat)) => Ok(Some(stat)),
        Ok(_) => Err(fault::misfit()),
        Err(Code::NO_NODE) => Ok(None),
        Err(code) => Err(fault::refused(code)),
    }
}

/// What an answer brings of a node; `None` if it is not there.
pub(super) fn data(answer: ZkAnswer) -> Result<Option<(Vec<u8>, Stat)>> {
    match answer.result {
        Ok(Body::Data(bytes, stat)) => Ok(Some((bytes, stat))),
        Ok(_) => Err(fault::misfit()),
        Err(Code::NO_NODE) => Ok(None),
        Err(code) => Err(fault::refused(code)),
    }
}

/// Whether what should go was there.
pub(super) fn gone(answer: ZkAnswer) -> Result<bool> {
    match answer.result {
        Ok(_) => Ok(true),
        Err(Code::NO_NODE) => Ok(false),
        Err(code) => Err(fault::refused(code)),
    }
}
