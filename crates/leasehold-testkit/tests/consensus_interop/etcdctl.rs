//! `etcdctl lock`, `etcdctl elect` and our mutex.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use leasehold::Locks;
use leasehold_testkit::contest::{BOUND, Checked, until};
use leasehold_testkit::holder::{Hold, Holder, Orders};
use leasehold_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};

/// With and without a slash: both are prefixes to etcd.
pub(crate) const NAME: &str = "shop/orders";
const LONG: Duration = Duration::from_secs(100);
const BRIEF: Duration = Duration::from_secs(2);

/// An `etcdctl` that holds, or waits. Dropping it kills the process.
pub(crate) struct Ctl {
    child: Child,
    says: Receiver<String>,
}

impl Ctl {
    pub(crate) fn spawn(server: &Server, words: &[&str]) -> Checked<Self> {
        let mut command = server.etcdctl()?;
        let mut child = command.args(words).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let (sender, says) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Self { child, says })
    }

    fn lock(server: &Server) -> Checked<Self> {
        Self::spawn(server, &["lock", "--ttl=3", NAME])
    }

    /// The key it holds with; it says so once it holds.
    pub(crate) fn granted(&self) -> Checked<String> {
        Ok(self.says.recv_timeout(BOUND)?)
    }

    /// Lets go: it is asked to end.
    fn release(&mut self) -> Checked {
        self.signal(Signal::INT)?;
        self.child.wait()?;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Checked {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }
}

impl Drop for Ctl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn open(server: &Server) -> Checked<Locks> {
    Ok(leasehold::open(url(server)).await?)
}

fn url(server: &Server) -> String {
    format!("{}?names=raw", server.url())
}

/// How many keys stand in line.
fn line(server: &Server) -> Checked<usize> {
    let keys = server.tell(&["get", "--prefix", "--keys-only", &format!("{NAME}/")])?;
    Ok(keys.lines().filter(|key| !key.is_empty()).count())
}

/// The number that orders a key among all.
fn revision(server: &Server, key: &str) -> Checked<u64> {
    let answer = server.tell(&["get", key, "-w", "json"])?;
    let answer: serde_json::Value = serde_json::from_str(&answer)?;
    let revision = answer["kvs"][0]["create_revision"].as_u64();
    Ok(revision.ok_or("the key is gone")?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_lock_waits_for_us() -> Checked {
    let server = Server::etcd()?;
    let ours = open(&server).await?;
    let guard = ours.mutex(NAME).ttl(LONG).lock().await?;
    let ctl = Ctl::lock(&server)?;
    until("it queues", || async { Ok(line(&server)? == 2) }).await?;
    assert!(ctl.says.try_recv().is_err(), "two holders");
    let fence = guard.fence();
    guard.release().await?;
    assert!(revision(&server, &ctl.granted()?)? > fence);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_wait_for_etcdctl_lock() -> Checked {
    let server = Server::etcd()?;
    let ours = open(&server).await?;
    let mut ctl = Ctl::lock(&server)?;
    let theirs = revision(&server, &ctl.granted()?)?;
    let mutex = ours.mutex(NAME).ttl(LONG);
    assert!(mutex.try_lock().await?.is_none(), "two holders");
    let waiting = tokio::spawn(mutex.lock().within(BOUND).into_future());
    until("we queue", || async { Ok(line(&server)? == 2) }).await?;
    ctl.release()?;
    assert!(waiting.await??.fence() > theirs);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_both_sides_are_served_in_the_order_of_their_revision() -> Checked {
    let server = Server::etcd()?;
    let ours = open(&server).await?;
    let queued = async |count| until("it queues", || async { Ok(line(&server)? == count) }).await;
    let guard = ours.mutex(NAME).ttl(LONG).lock().await?;
    let mut first = Ctl::lock(&server)?;
    queued(2).await?;
    let second = tokio::spawn(ours.mutex(NAME).ttl(LONG).fair().lock().within(BOUND).into_future());
    queued(3).await?;
    let third = Ctl::lock(&server)?;
    queued(4).await?;
    let mut fences = vec![guard.fence()];
    guard.release().await?;
    fences.push(revision(&server, &first.granted()?)?);
    first.release()?;
    let second = second.await??;
    fences.push(second.fence());
    second.release().await?;
    fences.push(revision(&server, &third.granted()?)?);
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{fences:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_and_our_mutex_exclude_each_other() -> Checked {
    let server = Server::etcd()?;
    let ours = open(&server).await?;
    let mut leader = Ctl::spawn(&server, &["elect", NAME, "ann"])?;
    leader.granted()?;
    let mutex = ours.mutex(NAME).ttl(LONG);
    assert!(mutex.try_lock().await?.is_none(), "two holders");
    let waiting = tokio::spawn(mutex.lock().within(BOUND).into_future());
    until("we queue", || async { Ok(line(&server)? == 2) }).await?;
    leader.release()?;
    let guard = waiting.await??;
    let next = Ctl::spawn(&server, &["elect", NAME, "bob"])?;
    until("it queues", || async { Ok(line(&server)? == 2) }).await?;
    assert!(next.says.try_recv().is_err(), "two holders");
    let fence = guard.fence();
    guard.release().await?;
    assert!(revision(&server, &next.granted()?)? > fence);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_etcdctl_lets_us_in_after_its_lease() -> Checked {
    let server = Server::etcd()?;
    let ours = open(&server).await?;
    let mut ctl = Ctl::lock(&server)?;
    let theirs = revision(&server, &ctl.granted()?)?;
    ctl.child.kill()?;
    let guard = ours.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
    assert!(guard.fence() > theirs);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_of_ours_lets_etcdctl_in_after_its_lease() -> Checked {
    let server = Server::etcd()?;
    let mut holder =
        Holder::spawn(Orders::new(&url(&server), NAME).ttl(BRIEF).hold(Hold::UntilTold))?;
    let fence = holder.granted()?;
    let ctl = Ctl::lock(&server)?;
    until("it queues", || async { Ok(line(&server)? == 2) }).await?;
    holder.kill()?;
    assert!(revision(&server, &ctl.granted()?)? > fence);
    Ok(())
}

/// It stood still for longer than its lease; what it gives back then is not ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcdctl_that_stood_still_does_not_take_our_lock_away() -> Checked {
    let server = Server::etcd()?;
    let ours = open(&server).await?;
    let mut ctl = Ctl::lock(&server)?;
    ctl.granted()?;
    ctl.signal(Signal::STOP)?;
    let guard = ours.mutex(NAME).ttl(LONG).lock().within(BOUND).await?;
    ctl.signal(Signal::CONT)?;
    ctl.release()?;
    guard.check()?;
    assert_eq!(line(&server)?, 1);
    Ok(())
}
