//! `leasehold-holder ORDERS`: locks and holds as told; see `holder.rs`.

#![allow(clippy::disallowed_methods, reason = "a real process with real time")]
#![allow(clippy::print_stdout, reason = "lines are how it talks to the test")]

use std::error::Error;
use std::fs;
use std::io;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold::{Guard, Locks, Mutex, Released};
use leasehold_testkit::history::{Mode, OpId, Outcome, Recorder, Term};
use leasehold_testkit::holder::{End, Hold, Orders};
use leasehold_testkit::register::Register;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    let orders: Orders = serde_json::from_str(&std::env::args().nth(1).ok_or("no orders")?)?;
    println!("clock {}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
    // The first runtime of a process may open sockets for its signals, for good.
    drop(Builder::new_current_thread().enable_all().build()?);
    let before = sockets()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let locks = runtime.block_on(async { leasehold::open(&orders.url).await })?;
    let end = orders.end;
    let holder = Rc::new(Holder::new(orders, locks)?);
    let kept = runtime.block_on(holder.crowd())?;
    if end == End::Report {
        drop((kept, holder, runtime));
        println!("left {}", left(before)?);
        return Ok(());
    }
    drop(holder);
    drop(kept);
    Ok(())
}

struct Holder {
    orders: Orders,
    mutex: Mutex,
    recorder: Option<Recorder>,
    register: Option<Register>,
}

impl Holder {
    fn new(orders: Orders, locks: Locks) -> Done<Self> {
        let mutex = locks.mutex(&orders.name).ttl(orders.ttl).label(&orders.label);
        let mutex = if orders.fair { mutex.fair() } else { mutex };
        let recorder = orders.history.as_ref().map(Recorder::open).transpose()?;
        let register = orders.register.as_ref().map(Register::open).transpose()?;
        Ok(Self { orders, mutex, recorder, register })
    }

    /// All tasks; what is still held at the end.
    #[allow(clippy::future_not_send, reason = "it lives on one thread")]
    async fn crowd(self: &Rc<Self>) -> Done<Vec<Guard>> {
        let local = LocalSet::new();
        let work = |_| {
            let task = Rc::clone(self);
            local.spawn_local(async move { task.work().await })
        };
        let tasks: Vec<_> = (0..self.orders.tasks).map(work).collect();
        let mut kept = Vec::new();
        for task in tasks {
            kept.extend(local.run_until(task).await??);
        }
        Ok(kept)
    }

    /// All rounds; what is still held at the end.
    async fn work(&self) -> Done<Option<Guard>> {
        for _ in 0..self.orders.rounds {
            let (guard, asked) = self.lock().await?;
            self.hold()?;
            self.look(&guard, asked);
            self.write(&guard)?;
            match self.orders.end {
                End::Release | End::Report => self.release(guard, asked).await?,
                End::Main => return Ok(Some(guard)),
                End::Exit => exit(),
            }
        }
        Ok(None)
    }

    async fn lock(&self) -> Done<(Guard, Option<OpId>)> {
        println!("asking");
        let recorder = self.recorder.as_ref();
        let asked = recorder.map(|it| it.acquire(&self.orders.name, Mode::Exclusive));
        let guard = self.mutex.lock().await?;
        if let (Some(recorder), Some(asked)) = (recorder, asked) {
            recorder.granted(asked, guard.fence(), term(&guard));
        }
        println!("granted {}", guard.fence());
        Ok((guard, asked))
    }

    fn hold(&self) -> Done {
        match self.orders.hold {
            Hold::Moment => {}
            Hold::For(span) => thread::sleep(span),
            Hold::UntilTold => {
                io::stdin().read_line(&mut String::new())?;
            }
        }
        Ok(())
    }

    /// The first look after the hold.
    fn look(&self, guard: &Guard, asked: Option<OpId>) {
        let held = guard.check().is_ok();
        if let (Some(recorder), Some(asked)) = (&self.recorder, asked) {
            if held { recorder.renewed(asked, term(guard)) } else { recorder.lost(asked) }
        }
        println!("{}", if held { "held" } else { "lost" });
    }

    /// Adds one, whatever the guard says: the register must know better.
    fn write(&self, guard: &Guard) -> Done {
        let Some(register) = &self.register else { return Ok(()) };
        let seen = register.read(guard.fence())?;
        let saw = seen.unwrap_or_default();
        let accepted = register.write(guard.fence(), saw, saw + 1)?;
        println!("{}", if accepted { "accepted" } else { "refused" });
        Ok(())
    }

    async fn release(&self, guard: Guard, asked: Option<OpId>) -> Done {
        let recorder = self.recorder.as_ref();
        let ending = recorder.zip(asked).map(|(it, asked)| it.release(asked));
        let released = guard.release().await? == Released::Released;
        if let (Some(recorder), Some(ending)) = (recorder, ending) {
            // Gone already: before the call, or by a first try whose reply was lost.
            recorder.released(ending, if released { Outcome::Ok } else { Outcome::Info });
        }
        println!("{}", if released { "released" } else { "already lost" });
        Ok(())
    }
}

fn term(guard: &Guard) -> Term {
    let deadline = Some(guard.deadline().nanos());
    Term { deadline, expires: deadline }
}

#[expect(clippy::exit, reason = "to end without any clean-up is the point")]
fn exit() -> ! {
    std::process::exit(0)
}

/// What this process still has of the library, once it has had its time.
fn left(before: usize) -> Done<String> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let (threads, sockets) = (threads()?, sockets()?.saturating_sub(before));
        if threads + sockets == 0 || Instant::now() > end {
            return Ok(format!("{threads} threads {sockets} sockets"));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn threads() -> Done<usize> {
    let tasks = fs::read_dir("/proc/self/task")?.filter_map(Result::ok);
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    Ok(names
        .filter(|name| name.starts_with("leasehold") && !name.starts_with("leasehold-hold"))
        .count())
}

/// Its own pipes are no sockets.
fn sockets() -> Done<usize> {
    let open = fs::read_dir("/proc/self/fd")?.filter_map(Result::ok);
    let targets = open.filter_map(|it| fs::read_link(it.path()).ok());
    Ok(targets.filter(|it| it.to_string_lossy().starts_with("socket:")).count())
}
