//! Joins that an etcd carries out after later ones: nothing orders two calls.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::server::Server;

use super::etcd_leases::counted;
use super::store::Store;
use super::{LONG, NAME, open};

/// What every HTTP/2 connection begins with.
const PREFACE: usize = 24;
/// The frames that take a call back. A member that stands still does not see them.
const TAKES_BACK: [u8; 2] = [3, 7];

/// A proxy in front of an etcd that passes whole frames, and can keep those of all
/// connections it has by then. Later connections are not concerned: another member
/// serves them.
struct Stall {
    addr: SocketAddr,
    kept: Arc<Mutex<KeptFrames>>,
}

#[derive(Default)]
struct KeptFrames {
    connections: usize,
    /// Those before this one stand still.
    still: usize,
    frames: Vec<(TcpStream, Vec<u8>)>,
}

impl Stall {
    fn before(server: SocketAddr) -> Checked<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (addr, kept) = (listener.local_addr()?, Arc::<Mutex<KeptFrames>>::default());
        let shared = Arc::clone(&kept);
        // Ends with the process of the test.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                if let Ok(server) = TcpStream::connect(server) {
                    thread::spawn(move || pass(&client, &server, &shared));
                }
            }
        });
        Ok(Self { addr, kept })
    }

    /// From now on what is said on any open connection is kept.
    fn begin(&self) {
        let mut kept = locked(&self.kept);
        kept.still = kept.connections;
    }

    /// Whether something that says this is kept.
    fn keeps(&self, text: &str) -> bool {
        let says = |frame: &[u8]| frame.windows(text.len()).any(|part| part == text.as_bytes());
        locked(&self.kept).frames.iter().any(|(_, frame)| says(frame))
    }

    /// What was kept arrives, and the server has answered it.
    async fn end(&self, server: &Server) -> Checked {
        let before = transactions(server)?;
        let frames = {
            let mut kept = locked(&self.kept);
            kept.still = 0;
            std::mem::take(&mut kept.frames)
        };
        for (mut to, frame) in frames.iter().map(|(to, frame)| (to, frame)) {
            to.write_all(frame)?;
        }
        until("it is carried out", || async { Ok(transactions(server)? > before) }).await
    }
}

fn locked(kept: &Mutex<KeptFrames>) -> std::sync::MutexGuard<'_, KeptFrames> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The transactions that a server has answered.
fn transactions(server: &Server) -> Checked<u64> {
    counted(server.addr(), "grpc_server_handled_total", "grpc_method=\"Txn\"")
}

fn pass(client: &TcpStream, server: &TcpStream, kept: &Mutex<KeptFrames>) {
    let (Ok(mut replies), Ok(mut back)) = (server.try_clone(), client.try_clone()) else { return };
    thread::spawn(move || _ = io::copy(&mut replies, &mut back));
    let number = {
        let mut kept = locked(kept);
        kept.connections += 1;
        kept.connections - 1
    };
    let _ = pass_frames(client, server, kept, number);
    // What is kept has yet to arrive.
    if number >= locked(kept).still {
        let _ = server.shutdown(Shutdown::Both);
    }
}

fn pass_frames(
    mut client: &TcpStream,
    mut server: &TcpStream,
    kept: &Mutex<KeptFrames>,
    number: usize,
) -> io::Result<()> {
    let mut preface = [0; PREFACE];
    client.read_exact(&mut preface)?;
    server.write_all(&preface)?;
    loop {
        let frame = frame(client)?;
        let mut kept = locked(kept);
        if number >= kept.still {
            server.write_all(&frame)?;
        } else if !TAKES_BACK.contains(&frame[3]) {
            kept.frames.push((server.try_clone()?, frame));
        }
    }
}

fn frame(mut from: &TcpStream) -> io::Result<Vec<u8>> {
    let mut head = [0; 9];
    from.read_exact(&mut head)?;
    let size = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut body = vec![0; size as usize];
    from.read_exact(&mut body)?;
    Ok([&head[..], &body].concat())
}

/// E11: a claim is granted by its second join, and released. Then the first arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_arrives_after_the_release_leaves_nothing() -> Checked {
    let server = Server::etcd()?;
    let stall = Stall::before(server.addr())?;
    let (one, two) = (open(&server.url_via(stall.addr)).await?, open(&server.url()).await?);
    one.mutex(NAME).ttl(LONG).lock().await?.release().await?;
    stall.begin();
    let guard = one.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
    assert!(stall.keeps("/n/"), "the fault did not bite");
    guard.release().await?;
    stall.end(&server).await?;
    assert_eq!(Store::Etcd.line(&server)?, [""; 0], "it is nobody's");
    two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?.release().await?;
    Ok(())
}

/// E11: it is turned away by its second join, because somebody holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_that_arrives_after_it_was_turned_away_leaves_nothing() -> Checked {
    let server = Server::etcd()?;
    let stall = Stall::before(server.addr())?;
    let (one, two) = (open(&server.url_via(stall.addr)).await?, open(&server.url()).await?);
    one.mutex(NAME).ttl(LONG).lock().await?.release().await?;
    let held = two.mutex(NAME).ttl(LONG).lock().await?;
    stall.begin();
    assert!(one.mutex(NAME).ttl(LONG).try_lock().await?.is_none(), "two holders");
    assert!(stall.keeps("/n/"), "the fault did not bite");
    held.release().await?;
    stall.end(&server).await?;
    assert_eq!(Store::Etcd.line(&server)?, [""; 0], "it is nobody's");
    Ok(())
}

/// E11: it has permits, and has left the door, when it arrives there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_arrives_after_the_door_was_left_keeps_nobody_out() -> Checked {
    let server = Server::etcd()?;
    let stall = Stall::before(server.addr())?;
    let (one, two) = (open(&server.url_via(stall.addr)).await?, open(&server.url()).await?);
    one.semaphore(NAME, 2).ttl(LONG).acquire(1).await?.release().await?;
    stall.begin();
    let guard = one.semaphore(NAME, 2).ttl(LONG).acquire(1).within(BOUND).await?;
    assert!(stall.keeps("/n/locks/"), "the fault did not bite");
    stall.end(&server).await?;
    two.semaphore(NAME, 2).ttl(LONG).acquire(1).within(BOUND).await?.release().await?;
    guard.release().await?;
    assert_eq!(Store::Etcd.line(&server)?, [""; 0], "it is nobody's");
    Ok(())
}
