//! The other process of a hand-over: it locks and releases as it is told, and
//! answers with the time on the host's clock.

use std::io::{BufRead, BufReader, Write, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use leasehold::{Clock, Guard, Moment, Mutex};

use super::NAMESPACE;
use crate::args::{PEER, Peer};
use crate::cmd::run::own_binary;
use crate::engine;
use crate::failure::Failure;
use crate::output;

/// How long it waits for the lock.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to end.
const FAREWELL: Duration = Duration::from_secs(2);
/// Where it finds its engine: others can read a command line.
const ENGINE: &str = "LEASEHOLD_ENGINE";

/// This end of the conversation.
pub(crate) struct Other {
    child: Child,
    words: Option<ChildStdin>,
    answers: Option<BufReader<ChildStdout>>,
}

impl Other {
    pub(crate) fn start(url: &str, name: &str) -> Result<Self, Failure> {
        let mut command = Command::new(own_binary());
        command.arg(PEER).arg("--").arg(name).env(ENGINE, url);
        // Ctrl-C is for us: we end it when it has given back what it has.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let cannot = |cause| Failure::internal(format!("cannot start a process: {cause}"));
        let mut child = command.spawn().map_err(cannot)?;
        let answers = child.stdout.take().map(BufReader::new);
        Ok(Self { words: child.stdin.take(), answers, child })
    }

    pub(crate) fn ask(&mut self, word: &str) -> Result<(), Failure> {
        let written = self.words.as_mut().map(|words| writeln!(words, "{word}"));
        written.and_then(Result::ok).ok_or_else(gone)
    }

    /// The moment at which it had done what it was asked to. Read on a thread
    /// for blocking calls, so that signals are heard meanwhile.
    pub(crate) async fn answer(&mut self) -> Result<Moment, Failure> {
        let mut answers = self.answers.take().ok_or_else(gone)?;
        let reading = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            let read = answers.read_line(&mut line);
            read.ok().map(|_| (line, answers))
        });
        let (line, answers) = reading.await.ok().flatten().ok_or_else(gone)?;
        self.answers = Some(answers);
        line.trim().parse().map(Moment::from_nanos).map_err(|_| gone())
    }
}

/// With nobody to listen to, the other process gives back what it has and ends.
impl Drop for Other {
    fn drop(&mut self) {
        self.words = None;
        let end = Clock::System.now().after(FAREWELL);
        while matches!(self.child.try_wait(), Ok(None)) && Clock::System.now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        // It may have ended long ago.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn gone() -> Failure {
    Failure::internal("the second process has gone; see what it said above")
}

/// That end of the conversation.
pub(crate) async fn peer(args: &Peer) -> Result<u8, Failure> {
    let locks = engine::open_url(&std::env::var(ENGINE).unwrap_or_default()).await?;
    let mutex = locks.namespace(NAMESPACE)?.mutex(&args.name);
    let mut held = None;
    for word in stdin().lock().lines().map_while(Result::ok) {
        held = obey(&mutex, &word, held).await?;
        output::print(&format!("{}\n", Clock::System.now().nanos()))?;
    }
    drop(held);
    // What could not be given back ends with its ttl.
    let _ = locks.shutdown(FAREWELL).await;
    Ok(0)
}

async fn obey(mutex: &Mutex, word: &str, held: Option<Guard>) -> Result<Option<Guard>, Failure> {
    match (word, held) {
        ("lock", None) => Ok(Some(mutex.lock().within(PATIENCE).await?)),
        ("release", Some(guard)) => {
            guard.release().await?;
            Ok(None)
        }
        _ => Err(Failure::internal("asked for what makes no sense")),
    }
}
