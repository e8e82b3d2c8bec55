//! Every fault of the proxy bites, shows in the counts, and heals.

// Real sockets on real threads; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold_testkit::proxy::{Fault, FaultProxy, Way};

/// A bound for what will happen.
const BOUND: Duration = Duration::from_secs(20);
/// How long a test listens to a silence before it believes in it.
const SILENCE: Duration = Duration::from_millis(100);

/// Echoes every byte and remembers it, until dropped.
struct Echo {
    addr: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let (heard, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (ear, end) = (Arc::clone(&heard), Arc::clone(&over));
        let thread = thread::spawn(move || serve(&listener, &ear, &end));
        Self { addr, heard, over, thread: Some(thread) }
    }

    fn heard(&self) -> Vec<u8> {
        self.heard.lock().unwrap().clone()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the accept, which then sees the flag.
        let _ = TcpStream::connect(self.addr);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(listener: &TcpListener, heard: &Arc<Mutex<Vec<u8>>>, over: &AtomicBool) {
    for stream in listener.incoming() {
        if over.load(Ordering::SeqCst) {
            return;
        }
        let (stream, ear) = (stream.unwrap(), Arc::clone(heard));
        thread::spawn(move || echo(stream, &ear));
    }
}

fn echo(mut stream: TcpStream, heard: &Mutex<Vec<u8>>) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        heard.lock().unwrap().extend_from_slice(&chunk[..count]);
        if stream.write_all(&chunk[..count]).is_err() {
            return;
        }
    }
}

/// An echo server, a proxy in front of it, and a client that works.
fn set_up() -> (Echo, FaultProxy, TcpStream) {
    let echo = Echo::start();
    let proxy = FaultProxy::to(echo.addr).unwrap();
    let mut client = connect(&proxy);
    client.write_all(b"hi").unwrap();
    assert_eq!(read(&mut client, 2), b"hi");
    proxy.wait_for(BOUND, |counts| counts.replies.passed == 2);
    (echo, proxy, client)
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    let client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_read_timeout(Some(BOUND)).unwrap();
    client
}

fn read(client: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

fn assert_silent(client: &mut TcpStream) {
    client.set_read_timeout(Some(SILENCE)).unwrap();
    let error = client.read(&mut [0]).expect_err("a byte or an end came through");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    client.set_read_timeout(Some(BOUND)).unwrap();
}

fn assert_reset(client: &mut TcpStream) {
    let error = client.read(&mut [0]).expect_err("not reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn bytes_pass_and_are_counted() {
    let (echo, proxy, _client) = set_up();
    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.open), (1, 1));
    assert_eq!((counts.requests.passed, counts.replies.passed), (2, 2));
    assert_eq!((counts.cut, counts.reset, counts.requests.lost), (0, 0, 0));
    assert_eq!(echo.heard(), b"hi");
}

#[test]
fn much_data_passes_unharmed_in_both_directions() {
    let (_echo, _proxy, mut client) = set_up();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut writer, copy) = (client.try_clone().unwrap(), sent.clone());
    let writing = thread::spawn(move || writer.write_all(&copy).unwrap());
    assert!(read(&mut client, sent.len()) == sent, "the bytes changed on the way");
    writing.join().unwrap();
}

#[test]
fn a_half_closed_connection_still_gets_its_replies() {
    let (_echo, proxy, mut client) = set_up();
    client.write_all(b"last words").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"last words");
    proxy.wait_for(BOUND, |counts| counts.open == 0);
}

#[test]
fn a_delay_makes_bytes_late_in_its_own_direction_only() {
    let (_echo, proxy, mut client) = set_up();
    let delay = Duration::from_millis(150);
    proxy.set(Way::Replies, Fault::Delay(delay));
    let start = Instant::now();
    client.write_all(b"slow").unwrap();
    assert_eq!(read(&mut client, 4), b"slow");
    assert!(start.elapsed() >= delay);
    let counts = proxy.wait_for(BOUND, |counts| counts.replies.passed == 6);
    assert_eq!((counts.replies.delayed, counts.requests.delayed), (4, 0));
}

#[test]
fn healing_lets_delayed_bytes_go_at_once() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set(Way::Requests, Fault::Delay(Duration::from_secs(3600)));
    client.write_all(b"eager").unwrap();
    proxy.wait_for(BOUND, |counts| counts.requests.delayed == 5);
    proxy.heal();
    assert_eq!(read(&mut client, 5), b"eager");
}

#[test]
fn a_cut_passes_so_many_bytes_and_then_closes() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set(Way::Replies, Fault::CutAfter(3));
    client.write_all(b"abcdef").unwrap();
    assert_eq!(read(&mut client, 3), b"abc");
    assert!(!matches!(client.read(&mut [0]), Ok(1)), "a byte beyond the cut");
    let counts = proxy.wait_for(BOUND, |counts| counts.cut == 1);
    assert_eq!((counts.replies.passed, counts.replies.lost, counts.open), (5, 3, 0));
}

#[test]
fn a_cut_counts_anew_for_each_connection_and_each_setting() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set(Way::Requests, Fault::CutAfter(4));
    client.write_all(b"123").unwrap();
    assert_eq!(read(&mut client, 3), b"123");
    proxy.set(Way::Requests, Fault::CutAfter(4));
    client.write_all(b"456").unwrap();
    assert_eq!(read(&mut client, 3), b"456");
    let mut second = connect(&proxy);
    second.write_all(b"789").unwrap();
    assert_eq!(read(&mut second, 3), b"789");
    assert_eq!(proxy.counts().cut, 0);
}

#[test]
fn a_cut_at_zero_lets_no_byte_of_a_request_through() {
    let (echo, proxy, mut client) = set_up();
    proxy.set(Way::Requests, Fault::CutAfter(0));
    client.write_all(b"never").unwrap();
    proxy.wait_for(BOUND, |counts| counts.cut == 1 && counts.requests.lost == 5);
    assert!(!matches!(client.read(&mut [0]), Ok(1)));
    assert_eq!(echo.heard(), b"hi");
}

#[test]
fn a_black_hole_swallows_both_ways_and_the_connection_never_works_again() {
    let (echo, proxy, mut client) = set_up();
    proxy.set_both(Fault::BlackHole);
    client.write_all(b"lost").unwrap();
    proxy.wait_for(BOUND, |counts| counts.requests.lost == 4);
    assert_silent(&mut client);
    proxy.heal();
    assert_reset(&mut client);
    assert_eq!(proxy.wait_for(BOUND, |counts| counts.open == 0).reset, 1);
    assert_eq!(echo.heard(), b"hi", "a stream with a hole went on");
    let mut second = connect(&proxy);
    second.write_all(b"!").unwrap();
    assert_eq!(read(&mut second, 1), b"!");
}

#[test]
fn a_connection_that_lost_nothing_survives_a_black_hole() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set_both(Fault::BlackHole);
    assert_silent(&mut client);
    proxy.heal();
    client.write_all(b"alive").unwrap();
    assert_eq!(read(&mut client, 5), b"alive");
}

#[test]
fn the_end_of_a_stream_does_not_leak_out_of_a_black_hole() {
    let (_echo, proxy, client) = set_up();
    proxy.set_both(Fault::BlackHole);
    drop(client);
    thread::sleep(SILENCE);
    assert_eq!(proxy.counts().open, 1, "the server heard of the end");
    proxy.heal();
    proxy.wait_for(BOUND, |counts| counts.open == 0);
}

#[test]
fn lost_replies_leave_the_request_applied() {
    let (echo, proxy, mut client) = set_up();
    proxy.set(Way::Replies, Fault::BlackHole);
    client.write_all(b"applied").unwrap();
    let counts = proxy.wait_for(BOUND, |counts| counts.replies.lost == 7);
    assert_eq!((counts.requests.passed, counts.replies.passed), (9, 2));
    assert_silent(&mut client);
    assert_eq!(echo.heard(), b"hiapplied");
}

#[test]
fn lost_requests_leave_replies_free() {
    let (echo, proxy, mut client) = set_up();
    proxy.set(Way::Replies, Fault::Hold);
    client.write_all(b"asked").unwrap();
    proxy.wait_for(BOUND, |counts| counts.replies.held == 5);
    proxy.set(Way::Requests, Fault::BlackHole);
    client.write_all(b"unheard").unwrap();
    proxy.wait_for(BOUND, |counts| counts.requests.lost == 7);
    proxy.set(Way::Replies, Fault::Pass);
    assert_eq!(read(&mut client, 5), b"asked");
    assert_eq!(echo.heard(), b"hiasked");
}

#[test]
fn held_replies_arrive_whole_when_let_go() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set(Way::Replies, Fault::Hold);
    client.write_all(b"one").unwrap();
    proxy.wait_for(BOUND, |counts| counts.replies.held == 3);
    client.write_all(b"two").unwrap();
    assert_silent(&mut client);
    proxy.set(Way::Replies, Fault::Pass);
    assert_eq!(read(&mut client, 6), b"onetwo");
    assert_eq!(proxy.counts().replies.lost, 0);
}

#[test]
fn held_replies_can_be_lost_instead() {
    let (_echo, proxy, mut client) = set_up();
    proxy.set(Way::Replies, Fault::Hold);
    client.write_all(b"gone").unwrap();
    proxy.wait_for(BOUND, |counts| counts.replies.held == 4);
    proxy.set(Way::Replies, Fault::BlackHole);
    proxy.wait_for(BOUND, |counts| counts.replies.lost == 4);
    assert_silent(&mut client);
}

#[test]
fn a_reset_on_replies_answers_an_applied_request_with_rst() {
    let (echo, proxy, mut client) = set_up();
    proxy.set(Way::Replies, Fault::Reset);
    client.write_all(b"x").unwrap();
    assert_reset(&mut client);
    let counts = proxy.wait_for(BOUND, |counts| counts.reset == 1);
    assert_eq!((counts.replies.lost, counts.open), (1, 0));
    assert_eq!(echo.heard(), b"hix");
}

#[test]
fn all_open_connections_can_be_reset_at_once_and_new_ones_work() {
    let (_echo, proxy, mut first) = set_up();
    let mut second = connect(&proxy);
    proxy.wait_for(BOUND, |counts| counts.open == 2);
    proxy.reset_all();
    assert_reset(&mut first);
    assert_reset(&mut second);
    assert_eq!(proxy.wait_for(BOUND, |counts| counts.open == 0).reset, 2);
    let mut third = connect(&proxy);
    third.write_all(b"3").unwrap();
    assert_eq!(read(&mut third, 1), b"3");
}

#[test]
fn a_server_that_is_away_resets_the_client_and_is_counted() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let away = listener.local_addr().unwrap();
    drop(listener);
    let proxy = FaultProxy::to(away).unwrap();
    let mut client = connect(&proxy);
    assert_reset(&mut client);
    proxy.wait_for(BOUND, |counts| counts.unreachable == 1 && counts.open == 0);
}

#[test]
fn a_dropped_proxy_closes_its_port_and_its_connections() {
    let (_echo, proxy, mut client) = set_up();
    let addr = proxy.addr();
    drop(proxy);
    assert!(!matches!(client.read(&mut [0]), Ok(1)));
    assert!(TcpStream::connect(addr).is_err());
}

#[test]
#[should_panic(expected = "the fault did not bite")]
fn a_fault_that_does_not_bite_fails_the_test() {
    let (_echo, proxy, _client) = set_up();
    proxy.set_both(Fault::BlackHole);
    proxy.wait_for(Duration::from_millis(20), |counts| counts.requests.lost > 0);
}
