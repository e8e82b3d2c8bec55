//! A TCP proxy that breaks connections on command.
//!
//! Put a [`FaultProxy`] in front of a server and tell it, per direction, what
//! to do with the bytes. [`FaultProxy::counts`] proves that the fault bit.
//!
//! The proxy keeps the promise of TCP: a connection never loses bytes in the
//! middle. One that lost some ([`Fault::BlackHole`]) passes nothing more in
//! that direction and is reset once the fault is lifted, as it would be after
//! a long partition. [`Fault::Hold`] is the short partition: TCP sends again
//! and everything arrives late.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// How many unread chunks a direction buffers, as a network would.
const BUFFER: usize = 256;
const CHUNK: usize = 16 * 1024;

/// What happens to the bytes of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Bytes pass.
    #[default]
    Pass,
    /// Bytes arrive this much later.
    Delay(Duration),
    /// Each connection passes this many more bytes, then is closed.
    CutAfter(u64),
    /// Bytes are lost; the connection looks alive.
    BlackHole,
    /// Bytes wait in the proxy until the fault changes.
    Hold,
    /// The next byte resets the connection (RST) instead of passing.
    Reset,
}

/// A direction through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// Bytes of one direction, by what happened to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flow {
    /// Arrived on the other side.
    pub passed: u64,
    /// Arrived in so many pieces: as many as were sent, if one at a time.
    pub pieces: u64,
    /// Never arrived: lost in a black hole, or beyond a cut or reset.
    pub lost: u64,
    /// Were delayed (and are counted again when they pass).
    pub delayed: u64,
    /// Were held (and are counted again when they pass).
    pub held: u64,
}

/// What the proxy has seen and done since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Connections that clients made.
    pub connections: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Connections for which the server could not be reached.
    pub unreachable: u64,
    /// Connections closed by [`Fault::CutAfter`].
    pub cut: u64,
    /// Connections the proxy reset.
    pub reset: u64,
    /// Bytes from clients to the server.
    pub requests: Flow,
    /// Bytes from the server to clients.
    pub replies: Flow,
}

impl Counts {
    /// The bytes of one direction.
    #[must_use]
    pub const fn flow(&self, way: Way) -> Flow {
        match way {
            Way::Requests => self.requests,
            Way::Replies => self.replies,
        }
    }

    const fn flow_mut(&mut self, way: Way) -> &mut Flow {
        match way {
            Way::Requests => &mut self.requests,
            Way::Replies => &mut self.replies,
        }
    }
}

/// A fault and how often it was set, so that setting it anew is a change too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Setting {
    fault: Fault,
    turn: u64,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    requests: watch::Sender<Setting>,
    replies: watch::Sender<Setting>,
    /// Counts up each time all connections are to be reset.
    resets: watch::Sender<u64>,
    counts: watch::Sender<Counts>,
    /// The connection that no fault concerns.
    spared: AtomicU64,
}

impl Shared {
    fn new(target: SocketAddr) -> Self {
        let (requests, replies) = (watch::Sender::default(), watch::Sender::default());
        let (resets, counts) = (watch::Sender::default(), watch::Sender::default());
        Self { target, requests, replies, resets, counts, spared: AtomicU64::new(u64::MAX) }
    }

    const fn setting(&self, way: Way) -> &watch::Sender<Setting> {
        match way {
            Way::Requests => &self.requests,
            Way::Replies => &self.replies,
        }
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }

    fn count_flow(&self, way: Way, change: impl FnOnce(&mut Flow)) {
        self.counts.send_modify(|counts| change(counts.flow_mut(way)));
    }
}

/// A proxy on a free loopback port in front of one address.
///
/// It runs on a thread of its own, so that blocking tests can use it, and ends
/// with its value. New connections are accepted by the kernel whatever the
/// fault; a connect that hangs cannot be made here.
#[derive(Debug)]
pub struct FaultProxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Starts a proxy in front of `target` that passes everything.
    ///
    /// # Errors
    ///
    /// When the machine gives no port or no thread.
    pub fn to(target: SocketAddr) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::new(target));
        let (stop, stopped) = watch::channel(());
        let thread = start(runtime, listener, Arc::clone(&shared), stopped)?;
        Ok(Self { addr, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The address clients connect to.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the fault of one direction, for open and new connections.
    pub fn set(&self, way: Way, fault: Fault) {
        self.shared.setting(way).send_modify(|setting| {
            *setting = Setting { fault, turn: setting.turn + 1 };
        });
    }

    /// Sets the fault of both directions.
    pub fn set_both(&self, fault: Fault) {
        self.set(Way::Requests, fault);
        self.set(Way::Replies, fault);
    }

    /// From now on no fault concerns this connection, counted from 0 in the order
    /// they were made.
    pub fn spare(&self, connection: u64) {
        self.shared.spared.store(connection, Ordering::Release);
    }

    /// Passes everything again and lets go of what was held.
    pub fn heal(&self) {
        self.set_both(Fault::Pass);
    }

    /// Resets (RST) all open connections now. New ones are welcome.
    pub fn reset_all(&self) {
        self.shared.resets.send_modify(|turn| *turn += 1);
    }

    /// What was seen and done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// Waits, blocking the thread, until the counts satisfy `wanted`.
    ///
    /// # Panics
    ///
    /// When they do not within `bound`: the fault did not bite.
    pub fn wait_for(&self, bound: Duration, wanted: impl Fn(&Counts) -> bool) -> Counts {
        let end = Instant::now() + bound;
        while !wanted(&self.counts()) {
            assert!(Instant::now() < end, "the fault did not bite: {:?}", self.counts());
            thread::sleep(Duration::from_millis(1));
        }
        self.counts()
    }

    /// The counts as they change, for tests that await.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Counts> {
        self.shared.counts.subscribe()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic on the proxy's thread was printed there.
            let _ = thread.join();
        }
    }
}

fn start(
    runtime: Runtime,
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<()>,
) -> io::Result<JoinHandle<()>> {
    let serve = async move {
        tokio::select! {
            () = accept(listener, shared) => {}
            _ = stopped.changed() => {}
        }
    };
    thread::Builder::new().name("fault-proxy".into()).spawn(move || runtime.block_on(serve))
}

/// Accepts until dropped; its connections are dropped with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(connection(client, number, Arc::clone(&shared)));
                    number += 1;
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Why a connection ended.
enum End {
    /// Both sides closed it.
    Closed,
    Cut,
    Reset,
    /// One side reset it, so the other side is reset too.
    Broken,
}

async fn connection(mut client: TcpStream, number: u64, shared: Arc<Shared>) {
    let mut resets = shared.resets.subscribe();
    shared.count(|counts| {
        counts.connections += 1;
        counts.open += 1;
    });
    let end = match TcpStream::connect(shared.target).await {
        Ok(mut server) => {
            let end = tokio::select! {
                end = relay(&mut client, &mut server, number, &shared) => end,
                _ = resets.changed() => End::Reset,
            };
            linger(&server, &end);
            end
        }
        Err(_) => {
            shared.count(|counts| counts.unreachable += 1);
            End::Reset
        }
    };
    linger(&client, &end);
    drop(client);
    shared.count(|counts| {
        counts.open -= 1;
        counts.cut += u64::from(matches!(end, End::Cut));
        counts.reset += u64::from(matches!(end, End::Reset));
    });
}

/// A socket that does not linger is closed with RST instead of FIN.
fn linger(socket: &TcpStream, end: &End) {
    if matches!(end, End::Reset | End::Broken) {
        // Fails only on a socket that is already dead.
        let _ = socket.set_zero_linger();
    }
}

async fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
    number: u64,
    shared: &Shared,
) -> End {
    // Small writes must arrive one by one, or counts and cuts would blur.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    let requests = Pump::new(Way::Requests, number, shared).run(client_read, server_write);
    let replies = Pump::new(Way::Replies, number, shared).run(server_read, client_write);
    match tokio::try_join!(requests, replies) {
        Ok(((), ())) => End::Closed,
        Err(end) => end,
    }
}

/// What one read brought, and when. No bytes mean the end of the stream.
struct Chunk {
    bytes: Vec<u8>,
    read_at: Instant,
    /// The stream ended with a reset.
    broken: bool,
}

/// One direction of one connection.
struct Pump<'a> {
    way: Way,
    /// Of its connection.
    number: u64,
    shared: &'a Shared,
    setting: watch::Receiver<Setting>,
    /// Passed since the setting of this turn, for [`Fault::CutAfter`].
    passed: u64,
    turn: u64,
    /// A black hole took bytes of this connection.
    holed: bool,
}

impl<'a> Pump<'a> {
    fn new(way: Way, number: u64, shared: &'a Shared) -> Self {
        let setting = shared.setting(way).subscribe();
        let turn = setting.borrow().turn;
        Self { way, number, shared, setting, passed: 0, turn, holed: false }
    }

    async fn run(mut self, from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> Result<(), End> {
        let (chunks, mut queue) = mpsc::channel(BUFFER);
        let write = async {
            while let Some(chunk) = self.next(&mut queue).await? {
                self.deliver(chunk, &mut to).await?;
            }
            to.shutdown().await.map_err(|_| End::Closed)
        };
        // An end of the writer is an end at once, whatever is still to be read.
        tokio::try_join!(read_all(from, chunks), write).map(|_| ())
    }

    /// The next chunk, or an end if the connection must not outlive a change.
    async fn next(&mut self, queue: &mut mpsc::Receiver<Chunk>) -> Result<Option<Chunk>, End> {
        loop {
            self.end_if_holed()?;
            tokio::select! {
                biased;
                _ = self.setting.changed() => {}
                chunk = queue.recv() => return Ok(chunk),
            }
        }
    }

    /// Waits as the fault demands, then passes the chunk or loses it.
    async fn deliver(&mut self, chunk: Chunk, to: &mut WriteHalf<'_>) -> Result<(), End> {
        let size = chunk.bytes.len() as u64;
        let (mut held, mut delayed) = (false, false);
        loop {
            self.end_if_holed()?;
            match self.fault() {
                Fault::Pass | Fault::Reset if chunk.broken => return Err(End::Broken),
                Fault::Pass => return self.pass(&chunk.bytes, to).await,
                Fault::CutAfter(limit) => return self.pass_up_to(limit, &chunk.bytes, to).await,
                // The end of a stream is no byte: no reset answers it, and
                // after a black hole it is sent again.
                Fault::Reset if size > 0 => return Err(self.lose(size, End::Reset)),
                Fault::BlackHole if size > 0 => return self.swallow(size),
                Fault::Reset => return Ok(()),
                Fault::BlackHole => self.changed().await,
                Fault::Hold => {
                    self.note(&mut held, |flow| flow.held += size);
                    self.changed().await;
                }
                Fault::Delay(delay) => {
                    self.note(&mut delayed, |flow| flow.delayed += size);
                    if self.unchanged_until(chunk.read_at + delay).await {
                        return self.pass(&chunk.bytes, to).await;
                    }
                }
            }
        }
    }

    /// The fault in force; a new turn starts the count for a cut anew.
    fn fault(&mut self) -> Fault {
        let setting = *self.setting.borrow_and_update();
        if setting.turn != self.turn {
            (self.turn, self.passed) = (setting.turn, 0);
        }
        let spared = self.shared.spared.load(Ordering::Acquire) == self.number;
        if spared { Fault::Pass } else { setting.fault }
    }

    async fn pass(&mut self, bytes: &[u8], to: &mut WriteHalf<'_>) -> Result<(), End> {
        let size = bytes.len() as u64;
        if to.write_all(bytes).await.is_err() {
            return Err(self.lose(size, End::Closed));
        }
        self.passed += size;
        self.shared.count_flow(self.way, |flow| {
            flow.passed += size;
            flow.pieces += 1;
        });
        Ok(())
    }

    async fn pass_up_to(
        &mut self,
        limit: u64,
        bytes: &[u8],
        to: &mut WriteHalf<'_>,
    ) -> Result<(), End> {
        let room = usize::try_from(limit.saturating_sub(self.passed)).unwrap_or(usize::MAX);
        let (kept, lost) = bytes.split_at(room.min(bytes.len()));
        self.pass(kept, to).await?;
        if self.passed < limit {
            return Ok(());
        }
        Err(self.lose(lost.len() as u64, End::Cut))
    }

    fn swallow(&mut self, size: u64) -> Result<(), End> {
        self.holed = true;
        self.shared.count_flow(self.way, |flow| flow.lost += size);
        Ok(())
    }

    fn lose(&self, size: u64, end: End) -> End {
        self.shared.count_flow(self.way, |flow| flow.lost += size);
        end
    }

    /// A stream with a hole must never pass another byte.
    fn end_if_holed(&mut self) -> Result<(), End> {
        let still_open = !self.holed || self.fault() == Fault::BlackHole;
        if still_open { Ok(()) } else { Err(End::Reset) }
    }

    fn note(&self, noted: &mut bool, change: impl FnOnce(&mut Flow)) {
        if !std::mem::replace(noted, true) {
            self.shared.count_flow(self.way, change);
        }
    }

    async fn changed(&mut self) {
        // The sender lives in `shared`, which outlives this borrow.
        let _ = self.setting.changed().await;
    }

    async fn unchanged_until(&mut self, due: Instant) -> bool {
        timeout_at(due, self.setting.changed()).await.is_err()
    }
}

/// Reads ahead of the pump, so that delays of many chunks run side by side.
async fn read_all(mut from: ReadHalf<'_>, chunks: mpsc::Sender<Chunk>) -> Result<(), End> {
    loop {
        let mut bytes = vec![0; CHUNK];
        let read = from.read(&mut bytes).await;
        bytes.truncate(*read.as_ref().unwrap_or(&0));
        let ended = bytes.is_empty();
        let chunk = Chunk { bytes, read_at: Instant::now(), broken: read.is_err() };
        if chunks.send(chunk).await.is_err() || ended {
            return Ok(());
        }
    }
}
