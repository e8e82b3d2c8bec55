//! Requests on their way: sent in one go, and again where the server says that
//! nothing was done.

use std::ptr;
use std::time::Duration;

use redis::{RedisError, Value};
use tokio::task::JoinSet;

use super::super::script::Script;
use super::fault;
use super::line::ServerLine;
use super::redirect::Redirect;
use super::reply::RedisReply;
use super::request::RedisRequest;
use super::routes::Routes;
use crate::clock::Moment;
use crate::engines::kit::backoff::Backoff;
use crate::error::{Effect, Error, Result};
use crate::home::Handle;

/// How often one request is sent at most.
const TURNS: u32 = 16;
/// How often without a pause.
const HASTY: u32 = 3;
/// The first pause before the same server is asked again, and the longest.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(200);

/// A request and what has become of it.
struct PendingRequest {
    request: RedisRequest,
    /// Whether the server has forgotten the script.
    in_full: bool,
    /// Whether it was sent the text.
    told: bool,
    /// Where to ask, out of turn, while a slot moves.
    aside: Option<ServerLine>,
    answer: Option<Result<RedisReply>>,
}

/// What goes to one server in one go.
struct Batch {
    line: ServerLine,
    /// Which pending, in order.
    members: Vec<usize>,
    pipeline: redis::Pipeline,
    /// Where in the answers those of the members are.
    places: Vec<usize>,
    /// Whether the last answer says how many replicas have it.
    counted: bool,
    aside: bool,
    /// Scripts whose text is in it.
    taught: Vec<&'static Script>,
}

/// What came back for a batch.
struct Answered {
    batch: Batch,
    sent_at: Moment,
    answers: Result<Vec<Value>>,
}

/// Asks for everything and answers in the same order.
pub(super) async fn run(routes: &Routes, requests: Vec<RedisRequest>) -> Vec<Result<RedisReply>> {
    let mut pending: Vec<PendingRequest> = requests.into_iter().map(PendingRequest::new).collect();
    let end = routes.clock().now().after(routes.timeout());
    let mut backoff = Backoff::new(PAUSE, LONGEST);
    for turn in 1..=TURNS {
        let mut rest = false;
        for answered in send_all(routes, batches(routes, &mut pending)).await {
            let last = turn == TURNS || routes.clock().now() >= end;
            rest |= settle(routes, &mut pending, answered, last);
        }
        if pending.iter().all(|one| one.answer.is_some()) {
            break;
        }
        if rest || turn > HASTY {
            backoff.sleep(routes.clock()).await;
        }
    }
    let unanswered = || Err(fault::away("no server serves this now"));
    pending.into_iter().map(|one| one.answer.unwrap_or_else(unanswered)).collect()
}

impl PendingRequest {
    const fn new(request: RedisRequest) -> Self {
        Self { request, in_full: false, told: false, aside: None, answer: None }
    }

    /// Of several calls of one script, the first teaches the server.
    fn command(&mut self, taught: &mut Vec<&'static Script>) -> redis::Cmd {
        let call = match &self.request {
            RedisRequest::Call(call) => call,
            RedisRequest::Command(command) => return command.clone(),
        };
        self.told = self.in_full && !taught.iter().any(|known| ptr::eq(*known, call.script));
        if self.told {
            taught.push(call.script);
        }
        if self.told { call.in_full() } else { call.by_digest() }
    }
}

/// Groups what is open by the server that it goes to.
fn batches(routes: &Routes, pending: &mut [PendingRequest]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for (member, one) in pending.iter_mut().enumerate() {
        if one.answer.is_some() {
            continue;
        }
        let aside = one.aside.take();
        let (line, aside) = match aside {
            Some(line) => (Ok(line), true),
            None => (routes.line(&one.request), false),
        };
        match line {
            Err(error) => one.answer = Some(Err(error)),
            Ok(line) => batch(&mut batches, line, aside).add(member, one),
        }
    }
    for batch in &mut batches {
        batch.count(routes.replicas(), routes.timeout());
    }
    batches
}

fn batch(batches: &mut Vec<Batch>, line: ServerLine, aside: bool) -> &mut Batch {
    let known = batches.iter().position(|batch| batch.aside == aside && batch.line.is(&line));
    let at = known.unwrap_or_else(|| {
        batches.push(Batch::new(line, aside));
        batches.len() - 1
    });
    &mut batches[at]
}

impl Batch {
    fn new(line: ServerLine, aside: bool) -> Self {
        Self {
            line,
            members: Vec::new(),
            pipeline: redis::Pipeline::new(),
            places: Vec::new(),
            counted: false,
            aside,
            taught: Vec::new(),
        }
    }

    fn add(&mut self, member: usize, one: &mut PendingRequest) {
        if self.aside {
            self.pipeline.cmd("ASKING");
        }
        self.members.push(member);
        self.places.push(self.pipeline.len());
        self.counted |= one.request.is_counted();
        self.pipeline.add_command(one.command(&mut self.taught));
    }

    /// Lets the server answer when so many replicas have what was written.
    fn count(&mut self, replicas: Option<u64>, timeout: Duration) {
        self.counted &= replicas.is_some();
        if let (true, Some(replicas)) = (self.counted, replicas) {
            // The answer has to be here before the command times out.
            let patience = u64::try_from(timeout.as_millis() / 2).unwrap_or(u64::MAX).max(1);
            self.pipeline.cmd("WAIT").arg(replicas).arg(patience);
        }
    }

    async fn send(self, routes: Routes) -> Answered {
        // Stamped again before the bytes leave: waiting for a connection must
        // not eat up the lease.
        let wire = self.line.wire(routes.timeout()).await;
        let sent_at = routes.clock().now();
        let answers = match wire {
            Ok(wire) => wire.send(&self.pipeline).await,
            Err(error) => Err(error),
        };
        Answered { batch: self, sent_at, answers }
    }
}

async fn send_all(routes: &Routes, mut batches: Vec<Batch>) -> Vec<Answered> {
    if batches.len() == 1 {
        let only = batches.remove(0);
        return vec![only.send(routes.clone()).await];
    }
    let mut sent = JoinSet::new();
    for batch in batches {
        Handle::current().spawn_in(&mut sent, batch.send(routes.clone()));
    }
    sent.join_all().await
}

/// Writes answers down. True if something is to be asked again after a pause.
fn settle(routes: &Routes, pending: &mut [PendingRequest], answered: Answered, last: bool) -> bool {
    let Answered { batch, sent_at, answers } = answered;
    let mut answers = match answers {
        Ok(answers) => answers,
        Err(error) => return give_up(routes, pending, &batch, &error, last),
    };
    let acknowledged = batch.counted.then(|| answers.pop().map_or(0, |count| number(&count)));
    let mut rest = false;
    for (&member, &place) in batch.members.iter().zip(&batch.places) {
        let one = &mut pending[member];
        let value = std::mem::replace(&mut answers[place], Value::Nil);
        match value.extract_error() {
            Ok(value) => one.answer = Some(Ok(RedisReply { value, sent_at, acknowledged })),
            Err(cause) => rest |= one.again(routes, &batch, &cause, last),
        }
    }
    rest
}

/// No answer for a whole batch. Asked again only if nothing has left, and
/// another server may come to serve it.
fn give_up(
    routes: &Routes,
    pending: &mut [PendingRequest],
    batch: &Batch,
    error: &Error,
    last: bool,
) -> bool {
    let again = routes.lost() && error.effect() == Effect::NotApplied && !last;
    for &member in batch.members.iter().filter(|_| !again) {
        pending[member].answer = Some(Err(error.clone()));
    }
    again
}

impl PendingRequest {
    /// After a refusal: the answer, or another turn. True if after a pause.
    fn again(&mut self, routes: &Routes, batch: &Batch, cause: &RedisError, last: bool) -> bool {
        if fault::code(cause) == Some("NOSCRIPT") && !self.told {
            self.tell_next(batch);
            return false;
        }
        match routes.refused(&batch.line, cause) {
            Redirect::Again if !last => {}
            Redirect::Aside(line) if !last => self.aside = Some(line),
            Redirect::Later if !last => return true,
            _ => self.answer = Some(Err(fault::refused(cause))),
        }
        false
    }

    /// The server has to be told the script, however late it is: that a process
    /// stood still is no fault of the server.
    fn tell_next(&mut self, batch: &Batch) {
        self.in_full = true;
        self.aside = batch.aside.then(|| batch.line.clone());
    }
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Int(count) => u64::try_from(*count).unwrap_or(0),
        _ => 0,
    }
}
