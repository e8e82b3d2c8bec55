//! A claim that was answered, and whose next question was not.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::server::Server;

use super::store::Store;
use super::{LONG, NAME, open};

/// What asks a ZooKeeper whether a node is there.
const EXISTS: i32 = 3;

/// A proxy in front of a ZooKeeper that ends a connection instead of passing a
/// certain request, so many times.
struct Cutter {
    addr: SocketAddr,
    left: Arc<AtomicU32>,
}

impl Cutter {
    fn to(server: SocketAddr, request: i32) -> Checked<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (addr, left) = (listener.local_addr()?, Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&left);
        // Ends with the process of the test.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let left = Arc::clone(&counted);
                if let Ok(server) = TcpStream::connect(server) {
                    thread::spawn(move || pass(&client, &server, request, &left));
                }
            }
        });
        Ok(Self { addr, left })
    }

    fn cut(&self, times: u32) {
        self.left.store(times, Ordering::SeqCst);
    }

    fn has_bitten(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }
}

/// Passes whole requests one way, and whatever comes the other way.
fn pass(client: &TcpStream, server: &TcpStream, request: i32, left: &Arc<AtomicU32>) {
    let (Ok(mut replies), Ok(mut back)) = (server.try_clone(), client.try_clone()) else { return };
    let answers = thread::spawn(move || _ = io::copy(&mut replies, &mut back));
    let _ = pass_requests(client, server, request, left);
    for side in [client, server] {
        let _ = side.shutdown(Shutdown::Both);
    }
    let _ = answers.join();
}

fn pass_requests(
    mut client: &TcpStream,
    mut server: &TcpStream,
    request: i32,
    left: &AtomicU32,
) -> io::Result<()> {
    for at in 0.. {
        let mut size = [0; 4];
        client.read_exact(&mut size)?;
        let mut body = vec![0; u32::from_be_bytes(size) as usize];
        client.read_exact(&mut body)?;
        // The first one says hello, and is of another form.
        let is_it = at > 0 && body.get(4..8) == Some(&request.to_be_bytes());
        let one_less = |left: u32| left.checked_sub(1);
        let counts = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        if is_it && counts() {
            return Ok(());
        }
        server.write_all(&[&size[..], &body].concat())?;
    }
    Ok(())
}

/// Z12: the node is there, and its maker knows; then the connection breaks. It holds
/// with that node, and does not wait behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_behind_a_node_of_its_own() -> Checked {
    let server = Server::zookeeper()?;
    let cutter = Cutter::to(server.addr(), EXISTS)?;
    let (one, two) = (open(&server.url_via(cutter.addr)).await?, open(&server.url()).await?);
    // A name that was a semaphore has folders, and whether they are empty is asked.
    two.semaphore(NAME, 3).acquire(1).await?.release().await?;
    for _ in 0..3 {
        cutter.cut(1);
        let guard = one.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
        assert!(cutter.has_bitten(), "the fault did not bite");
        assert_eq!(claims(&server)?, 1, "it has left another one");
        assert!(two.mutex(NAME).ttl(LONG).try_lock().await?.is_none(), "two holders");
        guard.release().await?;
        assert_eq!(claims(&server)?, 0, "an orphan");
    }
    Ok(())
}

/// Z12: it gives up in between. What it made goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_given_up_after_its_node_was_made_leaves_nothing() -> Checked {
    let server = Server::zookeeper()?;
    let cutter = Cutter::to(server.addr(), EXISTS)?;
    let url = server.url_via(cutter.addr);
    let one = leasehold::open(format!("{url}?names=raw&timeout=1s&retry=none")).await?;
    let two = open(&server.url()).await?;
    two.semaphore(NAME, 3).acquire(1).await?.release().await?;
    cutter.cut(1);
    let failed = one.mutex(NAME).ttl(LONG).lock().within(BOUND).await;
    assert!(cutter.has_bitten(), "the fault did not bite");
    assert!(failed.is_err(), "it was told to try once");
    until("nothing is left", || async { Ok(claims(&server)? == 0) }).await?;
    two.mutex(NAME).ttl(LONG).lock().within(BOUND).await?.release().await?;
    Ok(())
}

/// How many claim the name, without the folders of a semaphore.
fn claims(server: &Server) -> Checked<usize> {
    let line = Store::Zookeeper.line(server)?;
    Ok(line.iter().filter(|node| node.contains("_c_")).count())
}
