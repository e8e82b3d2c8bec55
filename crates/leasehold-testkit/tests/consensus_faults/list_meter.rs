//! A proxy in front of a ZooKeeper that counts lists of lines, and can break all
//! connections.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use leasehold_testkit::contest::Checked;

/// What asks a ZooKeeper for a node, and for its children.
const GET_DATA: i32 = 4;
const GET_CHILDREN: i32 = 8;

pub(crate) struct ListMeter {
    pub(crate) addr: SocketAddr,
    seen: Arc<Mutex<SeenFrames>>,
}

#[derive(Clone, Default)]
struct SeenFrames {
    lists: usize,
    /// The lists that were asked for and are not answered: connection and number.
    under_way: HashSet<(u16, i32)>,
    most: usize,
    /// The watches that were asked for and are not answered.
    asked: HashSet<(u16, i32)>,
    watches: usize,
    open: Vec<Arc<TcpStream>>,
}

impl ListMeter {
    pub(crate) fn to(server: SocketAddr) -> Checked<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let meter = Self { addr: listener.local_addr()?, seen: Arc::default() };
        let seen = Arc::clone(&meter.seen);
        // Ends with the process of the test.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(server) = TcpStream::connect(server) {
                    carry(Arc::new(client), Arc::new(server), &seen);
                }
            }
        });
        Ok(meter)
    }

    /// How often a line was listed.
    pub(crate) fn lists(&self) -> usize {
        locked(&self.seen).lists
    }

    /// How many lists were under way at a time, at the most.
    pub(crate) fn most_lists(&self) -> usize {
        locked(&self.seen).most
    }

    /// How often somebody was answered that a node is watched.
    pub(crate) fn watches(&self) -> usize {
        locked(&self.seen).watches
    }

    pub(crate) fn cut(&self) {
        let mut seen = locked(&self.seen);
        seen.under_way.clear();
        seen.asked.clear();
        for side in seen.open.drain(..) {
            let _ = side.shutdown(Shutdown::Both);
        }
    }
}

impl SeenFrames {
    fn asked(&mut self, connection: u16, frame: &[u8]) {
        let is = |op: i32| frame.get(8..12) == Some(&op.to_be_bytes());
        if is(GET_CHILDREN) {
            self.lists += 1;
            self.under_way.insert((connection, number(frame)));
            self.most = self.most.max(self.under_way.len());
        }
        if is(GET_DATA) && frame.last() == Some(&1) {
            self.asked.insert((connection, number(frame)));
        }
    }

    fn answered(&mut self, connection: u16, frame: &[u8]) {
        self.under_way.remove(&(connection, number(frame)));
        self.watches += usize::from(self.asked.remove(&(connection, number(frame))));
    }
}

/// Passes whole frames both ways, and counts them.
fn carry(client: Arc<TcpStream>, server: Arc<TcpStream>, seen: &Arc<Mutex<SeenFrames>>) {
    let connection = client.peer_addr().map_or(0, |addr| addr.port());
    locked(seen).open.extend([Arc::clone(&client), Arc::clone(&server)]);
    let (asks, answers) = (Arc::clone(seen), Arc::clone(seen));
    let asked = move |frame: &[u8]| locked(&asks).asked(connection, frame);
    let answered = move |frame: &[u8]| locked(&answers).answered(connection, frame);
    let (from, to) = (Arc::clone(&client), Arc::clone(&server));
    thread::spawn(move || pass(&from, &to, asked));
    thread::spawn(move || pass(&server, &client, answered));
}

/// The first frame of a connection says hello, and is of another form.
fn pass(from: &TcpStream, to: &TcpStream, mut count: impl FnMut(&[u8])) {
    let (mut output, mut first) = (to, true);
    while let Ok(frame) = frame(from) {
        if !std::mem::take(&mut first) {
            count(&frame);
        }
        if output.write_all(&frame).is_err() {
            break;
        }
    }
    for side in [from, to] {
        let _ = side.shutdown(Shutdown::Both);
    }
}

/// A frame with its length before it.
fn frame(mut from: &TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame)?;
    let length = frame.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    frame.resize(4 + length, 0);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}

fn number(frame: &[u8]) -> i32 {
    let number = frame.get(4..8).and_then(|bytes| bytes.try_into().ok());
    number.map_or(0, i32::from_be_bytes)
}

fn locked(seen: &Mutex<SeenFrames>) -> MutexGuard<'_, SeenFrames> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
