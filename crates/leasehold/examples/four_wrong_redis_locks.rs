//! Four wrong locks on Redis, each failing for real; then the same four
//! situations with Leasehold.
//!
//! ```sh
//! cargo run -p leasehold --features redis --example four_wrong_redis_locks
//! ```
//!
//! It uses the server that `REDIS_URL` names, or starts one of its own
//! (`redis-server`) and ends it again. Where a second process is needed the
//! program starts itself once more. Nothing is played: a lock is "broken" when
//! two hold it, when nobody can have it any more, or when an update is gone.
//!
//! It fails if a wrong lock does not break, or if Leasehold's does.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]
#![allow(clippy::disallowed_methods, reason = "holders sleep through the end of their locks")]
#![allow(clippy::exit, reason = "a holder dies without a word")]

use std::error::Error;
use std::process::{Child, Command, Stdio, exit};
use std::thread::{self, sleep};
use std::time::Duration;

use leasehold::blocking::{self, Guard, Locks, Mutex};
use leasehold::{Predecessor, Released};
use redis::{Connection, FromRedisValue, Script, cmd};
use tempfile::TempDir;

/// How long a lock lasts whose holder is slower than that, and any other one.
const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(30);
/// How often somebody looks whether it is over, and how often at most.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS: usize = 2_000;
/// Nobody waits longer than this for Leasehold.
const PATIENCE: Duration = Duration::from_secs(20);

/// The right way to let go, which is of no use if the value is not unique.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
/// A resource that remembers the largest fence and refuses smaller ones.
const WRITE_FENCED: &str = "
    if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[2]) then return 0 end
    redis.call('HSET', KEYS[1], 'left', ARGV[1], 'fence', ARGV[2])
    return 1";

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    match std::env::args().nth(1) {
        Some(part) => second_process(&part, &mut Stage::open(&std::env::var("REDIS_URL")?)?),
        None => show(),
    }
}

fn show() -> Outcome<()> {
    let server = Server::find()?;
    let mut stage = Stage::open(&server.url)?;
    stage.clean_up()?; // what a run that failed may have left
    crash_between_two_commands(&mut stage)?;
    delete_after_a_look(&mut stage)?;
    the_same_value_twice(&mut stage)?;
    late_write(&mut stage)?;
    stage.clean_up()
}

/// What the program does when it was started by itself.
fn second_process(part: &str, stage: &mut Stage) -> Outcome<()> {
    match part {
        "setnx" => {
            stage.tell::<bool>("SETNX", &["crash", "me"])?;
            exit(1) // and EXPIRE never comes
        }
        "lease" => {
            let _guard = stage.lease("crash", SHORT).lock()?;
            exit(1) // no line below runs, no destructor either
        }
        "same" => wrong_neighbour(stage),
        "try" => match stage.lease("same", LONG).try_lock()? {
            None => Ok(()),
            Some(_) => Err("it is held, and was granted".into()),
        },
        other => Err(format!("there is no part {other:?}").into()),
    }
}

// 1 --------------------------------------------------------------------------

/// A lock and its expiry date are two commands; the process dies between them.
fn crash_between_two_commands(stage: &mut Stage) -> Outcome<()> {
    println!("1. SETNX, then EXPIRE: the process dies in between");
    stage.run_again("setnx")?;
    let left: i64 = stage.tell("PTTL", &["crash"])?;
    let taken: bool = stage.tell("SETNX", &["crash", "somebody else"])?;
    assert!(left == -1 && !taken, "the key has no expiry date, and nobody gets in");
    println!("   wrong      its owner is dead, the key has no expiry date: locked for ever");

    stage.run_again("lease")?;
    let guard = stage.lease("crash", LONG).lock()?;
    assert_eq!(guard.predecessor(), Predecessor::Expired);
    println!("   leasehold  free again after its ttl, and the next one hears: Expired\n");
    Ok(())
}

// 2 --------------------------------------------------------------------------

/// "Is it mine? Then delete it": between the two it became somebody else's.
fn delete_after_a_look(stage: &mut Stage) -> Outcome<()> {
    println!("2. GET, compare, DEL: the lock ends between the look and the delete");
    assert!(stage.set("look", "first", SHORT)?);
    let mine = stage.tell::<Option<String>>("GET", &["look"])?.as_deref() == Some("first");
    stage.sleep_until_gone("look")?;
    assert!(stage.set("look", "second", LONG)?, "it is the second one's now");
    let deleted = mine && stage.tell("DEL", &["look"])?;
    assert!(deleted && stage.set("look", "third", LONG)?, "the second holds it, and the third");
    println!("   wrong      the first deletes the second's lock, and a third gets in");

    let first = stage.lease("look", SHORT).renew(false).lock()?;
    let second = stage.lease("look", LONG).lock()?;
    assert_eq!(first.release()?, Released::AlreadyLost);
    second.check()?;
    assert!(stage.lease("look", LONG).try_lock()?.is_none(), "it is still the second one's");
    println!("   leasehold  the first is told AlreadyLost, the second keeps its lock\n");
    Ok(())
}

// 3 --------------------------------------------------------------------------

/// A thread id says who holds it, but every process has a thread 1.
fn the_same_value_twice(stage: &mut Stage) -> Outcome<()> {
    println!("3. a value that is not unique: {}, as in every process", value());
    assert!(stage.set("same", &value(), LONG)?);
    stage.run_again("same")?;
    let free = !stage.tell::<bool>("EXISTS", &["same"])?;
    assert!(free, "we never let go, and it is free");
    println!("   wrong      another process gave up waiting and released ours");

    let guard = stage.lease("same", LONG).lock()?;
    stage.run_again("try")?;
    guard.check()?;
    assert_eq!(guard.release()?, Released::Released);
    println!("   leasehold  128 random bits per lease; who was granted nothing has no guard\n");
    Ok(())
}

/// Cannot have the lock, and lets go all the same, as a `finally` does. It even
/// compares and deletes in one step.
fn wrong_neighbour(stage: &mut Stage) -> Outcome<()> {
    assert!(!stage.set("same", &value(), LONG)?, "it is held");
    let release = Script::new(COMPARE_AND_DELETE);
    let key = stage.key("same");
    Ok(release.key(key).arg(value()).invoke(&mut stage.redis)?)
}

fn value() -> String {
    format!("{:?}", thread::current().id())
}

// 4 --------------------------------------------------------------------------

/// Even with a right lock: a holder that was paused does not know that it is
/// over. Only the resource can refuse it, by a fence.
fn late_write(stage: &mut Stage) -> Outcome<()> {
    println!("4. no fence: two sell one item each of ten, one of them is paused");
    stage.tell::<()>("SET", &["left", "10"])?;
    assert!(stage.set("stock", "paused", SHORT)?);
    let read: u32 = stage.tell("GET", &["left"])?;
    stage.sleep_until_gone("stock")?;
    sell_meanwhile(stage)?;
    stage.tell::<()>("SET", &["left", &(read - 1).to_string()])?;
    let left: u32 = stage.tell("GET", &["left"])?;
    assert_eq!(left, 9, "two were sold, one is missing");
    println!("   wrong      2 sold, {left} left: an update is lost");

    let paused = stage.lease("stock", SHORT).renew(false).lock()?;
    let read = stage.left()?;
    let other = stage.lease("stock", LONG).lock()?; // as soon as it may
    assert!(stage.sell(&other, read)?);
    other.release()?;
    assert!(!stage.sell(&paused, read)?, "refused: a larger fence was here");
    assert!(paused.check().is_err_and(|error| error.is_lost()), "its guard knew, too");
    let again = stage.lease("stock", LONG).lock()?;
    let read = stage.left()?;
    assert!(stage.sell(&again, read)?);
    assert_eq!(stage.left()?, 8);
    println!("   leasehold  the late write is refused; it begins anew: 2 sold, 8 left");
    Ok(())
}

fn sell_meanwhile(stage: &mut Stage) -> Outcome<()> {
    assert!(stage.set("stock", "quick", LONG)?);
    let read: u32 = stage.tell("GET", &["left"])?;
    stage.tell::<()>("SET", &["left", &(read - 1).to_string()])?;
    let release = Script::new(COMPARE_AND_DELETE);
    let key = stage.key("stock");
    Ok(release.key(key).arg("quick").invoke(&mut stage.redis)?)
}

// The stage ------------------------------------------------------------------

/// A plain connection for the wrong locks, and a client for the right ones.
struct Stage {
    redis: Connection,
    locks: Locks,
    url: String,
}

impl Stage {
    fn open(url: &str) -> Outcome<Self> {
        let locks = blocking::open(url)?.namespace("four-wrong-locks")?.wait_limit(PATIENCE);
        let redis = redis::Client::open(url)?.get_connection()?;
        Ok(Self { redis, locks, url: url.into() })
    }

    fn lease(&self, name: &str, ttl: Duration) -> Mutex {
        self.locks.mutex(name).ttl(ttl)
    }

    fn key(&self, name: &str) -> String {
        format!("four-wrong-locks:{name}")
    }

    /// One command; the first argument is the name of a key.
    fn tell<T: FromRedisValue>(&mut self, command: &str, args: &[&str]) -> Outcome<T> {
        let key = self.key(args[0]);
        Ok(cmd(command).arg(key).arg(&args[1..]).query(&mut self.redis)?)
    }

    /// Takes a lock the way everyone does; whether it was free.
    fn set(&mut self, name: &str, value: &str, ttl: Duration) -> Outcome<bool> {
        let ttl = ttl.as_millis().to_string();
        Ok(self.tell::<Option<String>>("SET", &[name, value, "NX", "PX", &ttl])?.is_some())
    }

    /// A holder that is slower than its lock.
    fn sleep_until_gone(&mut self, name: &str) -> Outcome<()> {
        for _ in 0..LOOKS {
            if !self.tell::<bool>("EXISTS", &[name])? {
                return Ok(());
            }
            sleep(LOOK);
        }
        Err(format!("{name} does not end").into())
    }

    fn left(&mut self) -> Outcome<u32> {
        Ok(self.tell::<Option<u32>>("HGET", &["fenced", "left"])?.unwrap_or(10))
    }

    /// Sells one of `read`; whether the resource took it.
    fn sell(&mut self, guard: &Guard, read: u32) -> Outcome<bool> {
        let write = Script::new(WRITE_FENCED);
        let key = self.key("fenced");
        Ok(write.key(key).arg(read - 1).arg(guard.fence()).invoke(&mut self.redis)?)
    }

    /// Plays a part in a process of its own. The URL may hold a password, which
    /// is nothing for a command line.
    fn run_again(&self, part: &str) -> Outcome<()> {
        let mut command = Command::new(std::env::current_exe()?);
        let code = command.arg(part).env("REDIS_URL", &self.url).status()?.code();
        let expected = if matches!(part, "setnx" | "lease") { 1 } else { 0 };
        assert_eq!(code, Some(expected), "the other process did its part {part:?}");
        Ok(())
    }

    fn clean_up(&mut self) -> Outcome<()> {
        for name in ["crash", "look", "same", "stock", "left", "fenced"] {
            self.tell::<()>("DEL", &[name])?;
        }
        Ok(())
    }
}

/// The server of `REDIS_URL`, or one of our own that ends with its value.
struct Server {
    url: String,
    process: Option<(Child, TempDir)>,
}

impl Server {
    fn find() -> Outcome<Self> {
        if let Ok(url) = std::env::var("REDIS_URL") {
            return Ok(Self { url, process: None });
        }
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("redis.sock");
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server cannot be started: {error}; set REDIS_URL"))?;
        let url = format!("redis+unix://{}", socket.display());
        Self { url, process: Some((child, folder)) }.once_it_listens()
    }

    fn once_it_listens(self) -> Outcome<Self> {
        let client = redis::Client::open(self.url.as_str())?;
        for _ in 0..LOOKS {
            if client.get_connection().is_ok() {
                return Ok(self);
            }
            sleep(LOOK);
        }
        Err("redis-server does not listen".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
