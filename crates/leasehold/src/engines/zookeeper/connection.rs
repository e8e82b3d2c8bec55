//! One connection: requests go out in order and many at a time, and answers come
//! back in the same order.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::AbortHandle;

use super::dial::{Boxed, frame};
use super::fault;
use super::liveness::LivenessProof;
use super::watches::NodeWatches;
use super::wire::{Body, Code, Head, JuteReader, PING_XID, RequestKind, WatchNotice, ZkRequest};
use crate::clock::{Clock, Moment};
use crate::engines::kit::timeout::timeout;
use crate::error::{Error, Result};
use crate::home::Handle;

/// The longest request that a server takes, unless its `jute.maxbuffer` is changed,
/// and the longest we send to find out.
const LARGE: usize = 0xf_ffff;
const REQUEST_MAX: usize = 4 * 1024 * 1024;
/// How many requests may be on their way.
const WAITING_MAX: usize = 100_000;

/// An answer.
#[derive(Debug)]
pub(super) struct ZkAnswer {
    /// Which frame of its connection it was.
    pub(super) frame: u64,
    /// The newest change that the server knew of.
    pub(super) zxid: i64,
    /// When it was asked for: what it shows is not older.
    pub(super) asked_at: Moment,
    pub(super) result: Result<Body, Code>,
}

/// A connection that stands, or stood. Once gone it stays gone.
#[derive(Clone, Debug)]
pub(super) struct ZkConnection {
    shared: Arc<ConnectionShared>,
    tasks: Arc<Tasks>,
}

#[derive(Debug)]
struct ConnectionShared {
    clock: Clock,
    timeout: Duration,
    proof: LivenessProof,
    watches: NodeWatches,
    /// The newest change that this client knows of, by any connection.
    newest: Arc<AtomicI64>,
    /// The newest that this one has told of.
    told: AtomicI64,
    pending: Mutex<PendingRequests>,
    work: Notify,
    gone: watch::Sender<bool>,
}

/// What is on its way.
#[derive(Debug, Default)]
struct PendingRequests {
    xid: i32,
    out: Vec<u8>,
    waiting: VecDeque<Waiting>,
    /// When the pings left that have not come back.
    pings: VecDeque<Moment>,
    last_sent: Moment,
    gone: bool,
}

#[derive(Debug)]
struct Waiting {
    xid: i32,
    kind: RequestKind,
    /// Whether a majority has to agree before it is answered.
    agreed: bool,
    sent_at: Moment,
    tell: oneshot::Sender<ZkAnswer>,
}

#[derive(Debug)]
struct Tasks {
    reader: AbortHandle,
    writer: AbortHandle,
    shared: Arc<ConnectionShared>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
        self.shared.fail();
    }
}

impl ZkConnection {
    /// Takes over a stream whose server has greeted us.
    pub(super) fn start(
        stream: Boxed,
        proof: LivenessProof,
        newest: &Arc<AtomicI64>,
        clock: &Clock,
        timeout: Duration,
        home: &Handle,
    ) -> Self {
        let shared = Arc::new(ConnectionShared {
            clock: clock.clone(),
            timeout,
            proof,
            watches: NodeWatches::default(),
            newest: Arc::clone(newest),
            told: AtomicI64::new(0),
            pending: Mutex::default(),
            work: Notify::new(),
            gone: watch::Sender::new(false),
        });
        let (input, output) = tokio::io::split(stream);
        let reader = home.spawn(read(Arc::clone(&shared), input)).abort_handle();
        let writer = home.spawn(write(Arc::clone(&shared), output)).abort_handle();
        let tasks = Tasks { reader, writer, shared: Arc::clone(&shared) };
        Self { shared, tasks: Arc::new(tasks) }
    }

    /// Sends all in one go and waits for all answers. Each may be an error of its
    /// own; an error here is about all of them.
    pub(super) async fn ask(&self, requests: Vec<ZkRequest>) -> Result<Vec<ZkAnswer>> {
        let writes = requests.iter().any(ZkRequest::writes);
        let (coming, large) = self.shared.send(&requests)?;
        let broken = || if large { fault::too_large() } else { fault::broken() };
        let work = async {
            let mut answers = Vec::with_capacity(coming.len());
            for answer in coming {
                answers.push(answer.await.map_err(|_| broken())?);
            }
            Ok(answers)
        };
        let answers = timeout(&self.shared.clock, self.shared.timeout, work).await;
        let answers = answers.unwrap_or_else(|| Err(fault::silent()));
        answers.map_err(|error: Error| if writes { error.unknown() } else { error })
    }

    /// Whether another connection has told of changes that this one may not know.
    pub(super) fn is_behind(&self) -> bool {
        self.shared.told.load(Ordering::Relaxed) < self.shared.newest.load(Ordering::Relaxed)
    }

    pub(super) fn watches(&self) -> &NodeWatches {
        &self.shared.watches
    }

    /// A sign of life to this server alone, if it had none for `gap`; when the
    /// next one is due.
    pub(super) fn ping(&self, gap: Duration) -> Moment {
        let mut pending = self.shared.pending();
        let now = self.shared.clock.now();
        if now.since(pending.last_sent) >= gap && !pending.gone {
            pending.out.extend(ZkRequest::Ping.frame(PING_XID));
            pending.pings.push_back(now);
            pending.last_sent = now;
            self.shared.work.notify_one();
        }
        pending.last_sent.after(gap)
    }

    /// A sign of life that a majority agrees to. Nobody waits for the answer.
    pub(super) fn ask_for_proof(&self) {
        // A connection that takes no more is on its way out.
        let _ = self.shared.send(&[ZkRequest::proof()]);
    }

    /// Since when the server owes us an answer.
    pub(super) fn owed_since(&self) -> Option<Moment> {
        let pending = self.shared.pending();
        let asked = pending.waiting.front().map(|first| first.sent_at);
        asked.into_iter().chain(pending.pings.front().copied()).min()
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.shared.gone.borrow()
    }

    /// Until the connection has ended.
    pub(super) async fn gone(&self) {
        // The sender lives in `self`, so the channel cannot close meanwhile.
        let _ = self.shared.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// Ends it: nothing that is on its way will be answered.
    pub(super) fn cut(&self) {
        self.tasks.reader.abort();
        self.tasks.writer.abort();
        self.shared.fail();
    }
}

impl ConnectionShared {
    fn pending(&self) -> MutexGuard<'_, PendingRequests> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answers to come, and whether a request is longer than most servers take.
    fn send(&self, requests: &[ZkRequest]) -> Result<(Vec<oneshot::Receiver<ZkAnswer>>, bool)> {
        let mut pending = self.pending();
        if pending.gone {
            return Err(fault::away("the connection is gone"));
        }
        if pending.waiting.len() + requests.len() > WAITING_MAX {
            return Err(fault::away("too many requests are on their way; try again later"));
        }
        let mut frames = Vec::with_capacity(requests.len());
        for (at, request) in (1..).zip(requests) {
            frames.push(request.frame(pending.xid.wrapping_add(at) & i32::MAX));
        }
        if frames.iter().any(|frame| frame.len() > REQUEST_MAX) {
            return Err(Error::invalid("a request to ZooKeeper is longer than 4 MiB"));
        }
        let large = frames.iter().any(|frame| frame.len() > LARGE);
        let now = self.clock.now();
        let coming =
            requests.iter().zip(frames).map(|(request, frame)| pending.add(request, &frame, now));
        let coming = coming.collect();
        self.work.notify_one();
        Ok((coming, large))
    }

    /// Everybody who waits hears that no answer will come.
    fn fail(&self) {
        let mut pending = self.pending();
        *pending = PendingRequests { gone: true, ..PendingRequests::default() };
        drop(pending);
        self.watches.close();
        self.gone.send_replace(true);
    }

    fn take(&self, frame: u64, bytes: &[u8]) -> Result<()> {
        let mut text = JuteReader::new(bytes);
        let head = Head::read(&mut text)?;
        if head.zxid > 0 {
            self.told.fetch_max(head.zxid, Ordering::Relaxed);
            self.newest.fetch_max(head.zxid, Ordering::Relaxed);
        }
        if head.is_notice() {
            self.watches.tell(frame, &WatchNotice::read(&mut text)?);
            return Ok(());
        }
        self.answer(frame, head, &mut text)
    }

    fn answer(&self, frame: u64, head: Head, text: &mut JuteReader<'_>) -> Result<()> {
        let now = self.clock.now();
        if head.is_ping() {
            if let Some(sent_at) = self.pending().pings.pop_front() {
                self.proof.heard(sent_at, now, false);
            }
            return Ok(());
        }
        let first = self.pending().waiting.pop_front().filter(|first| first.xid == head.xid);
        let first = first.ok_or_else(fault::misfit)?;
        let result = match head.error {
            None => Ok(Body::read(text, first.kind)?),
            Some(code) => Err(code),
        };
        self.proof.heard(first.sent_at, now, first.agreed && result.is_ok());
        let over = matches!(result, Err(Code::SESSION_EXPIRED | Code::SESSION_MOVED));
        // Whoever has stopped waiting does not hear it.
        let _ =
            first.tell.send(ZkAnswer { frame, zxid: head.zxid, asked_at: first.sent_at, result });
        // A server that took us in while the leader ended our session answers
        // pings for ever. Another greeting tells whether it is over.
        if over { Err(fault::over()) } else { Ok(()) }
    }
}

impl PendingRequests {
    fn add(
        &mut self,
        request: &ZkRequest,
        frame: &[u8],
        now: Moment,
    ) -> oneshot::Receiver<ZkAnswer> {
        let (tell, told) = oneshot::channel();
        self.xid = self.xid.wrapping_add(1) & i32::MAX;
        let (xid, kind, agreed) = (self.xid, RequestKind::from(request), request.writes());
        self.waiting.push_back(Waiting { xid, kind, agreed, sent_at: now, tell });
        self.out.extend(frame);
        self.last_sent = now;
        told
    }
}

async fn read(shared: Arc<ConnectionShared>, input: impl AsyncRead + Unpin) {
    let (mut input, mut count) = (BufReader::new(input), 0);
    while let Ok(bytes) = frame(&mut input).await {
        count += 1;
        if shared.take(count, &bytes).is_err() {
            break;
        }
    }
    shared.fail();
}

async fn write(shared: Arc<ConnectionShared>, mut output: impl AsyncWrite + Unpin) {
    let work = async {
        loop {
            shared.work.notified().await;
            let out = std::mem::take(&mut shared.pending().out);
            output.write_all(&out).await?;
            output.flush().await?;
        }
    };
    let _: io::Result<()> = work.await;
    shared.fail();
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::engines::consensus::Session;

    /// The answer to the first request: this code, and nothing else.
    fn refusal(code: Code) -> Vec<u8> {
        let head = [&1_i32.to_be_bytes()[..], &7_i64.to_be_bytes(), &code.0.to_be_bytes()];
        [&16_i32.to_be_bytes()[..], &head.concat()].concat()
    }

    async fn gone_after(code: Code) -> bool {
        let (near, mut far) = tokio::io::duplex(1024);
        let (clock, second) = (Clock::System, Duration::from_secs(1));
        let session = Arc::new(Session::new(1, second, Duration::ZERO, clock.now()));
        let proof = LivenessProof::new(&session, second, second, clock.now());
        let (newest, home) = (Arc::default(), Handle::current());
        let connection =
            ZkConnection::start(Box::new(near), proof, &newest, &clock, 60 * second, &home);
        let server = async {
            let _ = far.read(&mut [0; 64]).await;
            let _ = far.write_all(&refusal(code)).await;
        };
        let (answers, ()) = tokio::join!(connection.ask(vec![ZkRequest::Sync]), server);
        let answer = answers.ok().and_then(|mut answers| answers.pop());
        assert_eq!(answer.and_then(|answer| answer.result.err()), Some(code));
        // The reader has nothing more to read.
        tokio::task::yield_now().await;
        connection.is_gone()
    }

    #[tokio::test]
    async fn a_server_that_says_that_the_session_is_over_is_left() {
        assert!(gone_after(Code::SESSION_EXPIRED).await);
        assert!(gone_after(Code::SESSION_MOVED).await);
        assert!(!gone_after(Code::NO_NODE).await);
    }
}
