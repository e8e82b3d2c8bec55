//! `once`: a command that runs once for each key.

mod cut;
mod report;
mod shift;
mod transcript;

use std::ffi::OsString;
use std::time::Duration;

use leasehold::Locks;
use leasehold::once::{
    Done, Fingerprint, Kept, OnBusy, OnCrash, OnceError, Refusal, TokenFault, Turn,
};

pub(crate) use self::cut::Cut;
use self::report::Report;
use self::shift::Shift;
use super::run::Plan;
use crate::args::{Global, OnLost, Once, Terms};
use crate::engine;
use crate::failure::{BUSY, DENIED, Failure, LOST, UNSURE};
use crate::output::tell;

/// As good as without limit.
const LONG: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// What a record holds, less what it says of itself.
const MOST: usize = 1000 * 1024;
/// The time between SIGTERM and SIGKILL, if the lease leaves that much.
const GRACE: Duration = Duration::from_secs(5);
/// How long it may take to let go of the engine.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) async fn once(global: &Global, args: &Once) -> Result<u8, Failure> {
    let locks = engine::open(global).await?;
    let once = on(&locks, &args.terms);
    if args.forget {
        return engine::answer(async { once.forget(&*args.key).await.map_err(refused) })
            .await
            .map(|()| 0);
    }
    let (about, cut) = (about(&args.command), Cut::default());
    let work = async |turn| run(&args.command, &args.terms, turn, &cut).await;
    let done = cut.or(once.run(&*args.key, about, work)).await;
    finish(&locks, done).await
}

/// Lets go of the engine; the code to exit with.
pub(crate) async fn finish(
    locks: &Locks,
    done: Result<Result<Done, OnceError<Stop>>, Failure>,
) -> Result<u8, Failure> {
    // What could not be given back ends with its lease.
    let _ = locks.shutdown(LAST_WORDS).await;
    replay(done?)
}

/// The recipe that the options describe.
pub(crate) fn on(locks: &Locks, terms: &Terms) -> leasehold::once::Once {
    let busy = match (terms.no_wait, terms.wait) {
        (true, _) => OnBusy::Refuse,
        (false, limit) => OnBusy::Wait(limit.unwrap_or(LONG)),
    };
    let crash = if terms.at_most_once { OnCrash::Unknown } else { OnCrash::Rerun };
    let once = locks.once(&terms.scope).keep(terms.ttl).lease(terms.lease);
    once.on_busy(busy).on_crash(crash).max_outcome(MOST)
}

/// The words of a command: one key is for one command.
pub(crate) fn about(command: &[OsString]) -> Fingerprint {
    let words: Vec<_> = command.iter().map(|word| word.as_encoded_bytes()).collect();
    Fingerprint::of_bytes(&words.join(&0))
}

/// Why a run is not remembered.
pub(crate) enum Stop {
    /// It was not started.
    Failure(Failure),
    /// It ended with this code, and is to be tried again.
    Code(u8),
    /// It did not come to its end; the code to exit with.
    CutOff(u8),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failure(failure) => f.write_str(failure.message()),
            Self::Code(code) | Self::CutOff(code) => write!(f, "exit code {code}"),
        }
    }
}

/// Runs the command and takes down what it says.
pub(crate) async fn run(
    command: &[OsString],
    terms: &Terms,
    turn: Turn,
    cut: &Cut,
) -> Result<Kept, Stop> {
    let environment = [
        ("LEASEHOLD_FENCE", turn.fence().to_string()),
        ("LEASEHOLD_TOOK_OVER", u8::from(turn.took_over()).to_string()),
    ];
    let plan = Plan::new(OnLost::Term, GRACE, terms.lease);
    let report = match Report::of(command, environment, &Shift(turn), plan).await {
        // Not an end that could be told to others: it is as if we had died.
        Err(Stop::CutOff(code)) => match cut.off(code).await {},
        report => report?,
    };
    if terms.retry_failed && report.code != 0 {
        return Err(Stop::Code(report.code));
    }
    Ok(Kept::from(report.encode(MOST)))
}

/// The code to exit with. What a first run has to say has been said.
fn replay(done: Result<Done, OnceError<Stop>>) -> Result<u8, Failure> {
    match done {
        Ok(done) => Report::decode(&done.outcome)?.show(done.replayed),
        Err(OnceError::Failed(Stop::Code(code) | Stop::CutOff(code))) => Ok(code),
        Err(OnceError::Failed(Stop::Failure(failure))) => Err(failure),
        Err(OnceError::Unrecorded { outcome, cause }) => {
            tell(&format!("it was done, but that could not be recorded: {cause}"));
            Report::decode(&outcome)?.show(false)
        }
        Err(OnceError::Refused(refusal)) => Err(refused(refusal)),
        Err(OnceError::CutOff(error)) => Err(Failure::new(LOST, error.to_string())),
        Err(_) => Err(Failure::internal("an end that is not known")),
    }
}

fn refused(refusal: Refusal) -> Failure {
    let code = match &refusal {
        Refusal::Running(_) => BUSY,
        Refusal::Unknown { .. } | Refusal::Gone { .. } | Refusal::NotKept { .. } => UNSURE,
        Refusal::Mismatch => return Failure::usage("the key was used for another command"),
        Refusal::Token(TokenFault::Expired | TokenFault::Forged | TokenFault::OtherScope) => DENIED,
        Refusal::Engine(error) if error.is_lost() => LOST,
        Refusal::Engine(error) => return error.clone().into(),
        _ => return Failure::internal(refusal.to_string()),
    };
    Failure::new(code, refusal.to_string())
}
