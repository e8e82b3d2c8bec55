//! Leasehold, and what it is measured against, behind the line protocol of
//! interop/README.md: started with `HOST:PORT[,HOST:PORT..]`.

#![allow(clippy::disallowed_methods, reason = "a peer has a clock and tasks of its own")]
#![allow(clippy::print_stdout, reason = "that is how it answers")]

mod crowd;
mod door;

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead};
use std::time::Duration;

use leasehold_testkit::peer::now;

use self::door::{Doors, Held};

type Answer = Result<String, Box<dyn Error + Send + Sync>>;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let servers = std::env::args().nth(1).ok_or("which servers?")?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    let mut peer = Peer { doors: Doors::new(&servers), held: HashMap::new() };
    println!("ready");
    for line in io::stdin().lock().lines() {
        match line?.trim() {
            "quit" => break,
            line => println!("{}", runtime.block_on(peer.answer(line))),
        }
    }
    Ok(())
}

struct Peer {
    doors: Doors,
    /// By name; a semaphore is held more than once.
    held: HashMap<String, Vec<Held>>,
}

impl Peer {
    async fn answer(&mut self, line: &str) -> String {
        let answer = match line.split(' ').collect::<Vec<_>>()[..] {
            ["lock", kind, name, wait, lease] => self.lock(kind, name, wait, lease).await,
            ["unlock", _, name] => self.unlock(name).await,
            ["extend", _, name, lease] => self.extend(name, lease).await,
            ["contend", kind, name, tasks, span] => {
                self.contend(kind, name, tasks, millis(span)).await
            }
            ["bench", kind, tasks, span] => self.bench(kind, tasks, millis(span)).await,
            _ => Err("unknown command".into()),
        };
        answer.unwrap_or_else(|error| format!("error {error}").replace('\n', " "))
    }

    async fn lock(&mut self, kind: &str, name: &str, wait: &str, lease: &str) -> Answer {
        let door = self.doors.open(kind, name).await?;
        let Some(held) = door.lock(millis(wait), millis(lease)).await? else {
            return Ok("busy".into());
        };
        let answer = format!("granted {} {}", held.token(), now().as_nanos());
        self.held.entry(name.to_owned()).or_default().push(held);
        Ok(answer)
    }

    async fn unlock(&mut self, name: &str) -> Answer {
        let held = self.held.get_mut(name).and_then(Vec::pop).ok_or("it holds nothing")?;
        let before = now();
        match held.unlock().await? {
            true => Ok(format!("released {}", before.as_nanos())),
            false => Ok("lost".into()),
        }
    }

    async fn extend(&self, name: &str, lease: &str) -> Answer {
        let held = self.held.get(name).and_then(|held| held.last()).ok_or("it holds nothing")?;
        Ok(if held.extend(millis(lease)).await? { "extended" } else { "lost" }.into())
    }

    async fn contend(&self, kind: &str, name: &str, tasks: &str, span: Duration) -> Answer {
        let door = self.doors.open(kind, name).await?;
        let counter = self.doors.driver().await?;
        let did = crowd::contend(door, counter, format!("{name}:counter"), tasks.parse()?, span);
        Ok(format!("did {}", did.await?))
    }

    async fn bench(&self, kind: &str, tasks: &str, span: Duration) -> Answer {
        let mut doors = Vec::new();
        for task in 0..tasks.parse()? {
            doors.push(self.doors.open(kind, &format!("bench:{task}")).await?);
        }
        crowd::bench(doors, span).await
    }
}

fn millis(word: &str) -> Duration {
    Duration::from_millis(word.parse().unwrap_or_default())
}
