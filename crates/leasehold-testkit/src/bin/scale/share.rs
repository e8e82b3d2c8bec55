//! A share of a crowd: a process of its own with a part of the tasks.

use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use leasehold::Mutex;
use leasehold_testkit::contest::Checked;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::crowd;
use crate::inside;

/// The word before an order on its command line.
pub(crate) const WORD: &str = "--share";

/// What all want.
const NAME: &str = "/crowd";
/// It has a client that was heard of.
const READY: &str = "ready";

/// What it is told before it begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ShareOrder {
    pub(crate) url: String,
    pub(crate) tasks: usize,
    /// For how long they contend.
    pub(crate) look: Duration,
    /// When to give up, should nobody be left to end it.
    pub(crate) seconds: u64,
}

/// Carries out one order, as JSON.
pub(crate) fn contend(order: &str) -> Checked {
    let order: ShareOrder = serde_json::from_str(order)?;
    inside::run_for(order.seconds, take_part(&order))
}

async fn take_part(order: &ShareOrder) -> Checked {
    let locks = leasehold::open(order.url.clone()).await?;
    locks.mutex(format!("/first/{}", std::process::id())).lock().await?.release().await?;
    println!("{READY}");
    spawn_blocking(|| stdin().read_line(&mut String::new())).await??;
    let end = Instant::now() + order.look;
    let turns = |_| take_turns(locks.mutex(NAME), end);
    let grants = crowd::each(0..order.tasks, order.tasks, turns).await?;
    println!("{}", grants.iter().sum::<u64>());
    Ok(())
}

/// How many there were before the end.
async fn take_turns(mutex: Mutex, end: Instant) -> Checked<u64> {
    let mut grants = 0;
    loop {
        let guard = mutex.lock().await?;
        let in_time = Instant::now() < end;
        guard.release().await?;
        if !in_time {
            return Ok(grants);
        }
        grants += 1;
    }
}

/// One that runs.
#[derive(Debug)]
pub(crate) struct Share {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Share {
    pub(crate) fn spawn(order: &ShareOrder) -> Checked<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORD).arg(serde_json::to_string(order)?);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(process.stdout.take().ok_or("no output")?);
        Ok(Self { process, output })
    }

    pub(crate) fn await_ready(&mut self) -> Checked {
        let said = self.line()?;
        if said == READY { Ok(()) } else { Err("one of the processes did not get ready".into()) }
    }

    /// Lets it begin.
    pub(crate) fn go(&mut self) -> Checked {
        Ok(self.process.stdin.take().ok_or("no input")?.write_all(b"\n")?)
    }

    /// Waits for its end; its grants.
    pub(crate) fn end(mut self) -> Checked<u64> {
        let said = self.line()?;
        self.process.wait()?;
        Ok(said.parse().map_err(|_| format!("one of the processes said {said:?}"))?)
    }

    fn line(&mut self) -> Checked<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
