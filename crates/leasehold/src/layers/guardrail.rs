//! The guardrail: refuses what the engine does not promise, before it is asked.
//! So no engine needs answers for what it cannot do.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::{
    Claim, Ending, META_MAX, Mode, Refresh, Released, Renewal, SPAN_MAX, Ticket, VALUE_MAX,
    Verdict, Wake,
};
use crate::clock::Moment;
use crate::engine::profile::{self, Grants, Order};
use crate::engine::{
    BoxFuture, Engine, Events, Evicted, Eviction, Finding, Listing, Page, Profile, RecordStore,
    Selector,
};
use crate::error::{Error, ErrorKind, Result};
use crate::mutant::{self, Mutant};

#[derive(Debug)]
pub(crate) struct Guardrail(pub(crate) Arc<dyn Engine>);

impl Guardrail {
    fn check_records(&self, needed: bool) -> Result<()> {
        if !needed || self.0.records().is_some() {
            return Ok(());
        }
        Err(unsupported(self.profile(), "keeps no records"))
    }
}

/// Refuses a claim that this engine could never grant as asked.
fn check(claim: &Claim, profile: &Profile) -> Result<()> {
    claim.ticket.mode.check()?;
    check_mode(claim.ticket.mode, profile)?;
    if claim.fair && profile.order < Order::Fifo {
        return Err(unsupported(profile, "does not serve in order of arrival (fair)"));
    }
    if !claim.lock_delay.is_zero() && !profile.lock_delay {
        return Err(unsupported(profile, "cannot keep an expired name closed (lock_delay)"));
    }
    check_span("lock_delay", claim.lock_delay)?;
    if claim.meta.as_ref().is_some_and(|meta| meta.len() > META_MAX) {
        return Err(Error::invalid(format!("meta is longer than {META_MAX} bytes")));
    }
    check_candidate(claim)?;
    let name = claim.ticket.name.as_str();
    if name.len() > profile.limits.name_max {
        let most = profile.limits.name_max;
        return Err(Error::invalid(format!(
            "{} takes names of at most {most} bytes",
            profile.scheme
        )));
    }
    check_ttl(claim.ttl, profile)
}

/// One leads: a candidacy takes its name alone.
fn check_candidate(claim: &Claim) -> Result<()> {
    let Some(value) = &claim.candidate else { return Ok(()) };
    if claim.ticket.mode != Mode::Exclusive {
        let mode = claim.ticket.mode;
        return Err(Error::invalid(format!("a candidacy is exclusive, and this one says {mode}")));
    }
    if value.len() > VALUE_MAX {
        let size = value.len();
        return Err(Error::invalid(format!(
            "a candidate proposes {size} bytes, and may propose {VALUE_MAX} (1 MiB)"
        )));
    }
    Ok(())
}

fn check_mode(mode: Mode, profile: &Profile) -> Result<()> {
    let needed = match mode {
        Mode::Exclusive => Grants::Exclusive,
        Mode::Read | Mode::Write => Grants::Shared,
        Mode::Permits { .. } => Grants::Counted,
    };
    if profile.grants < needed {
        return Err(unsupported(profile, &format!("does not grant {mode}")));
    }
    match mode {
        Mode::Permits { of, .. } if of > profile.limits.permits_max => {
            let most = profile.limits.permits_max;
            Err(Error::invalid(format!("{} takes at most {most} permits", profile.scheme)))
        }
        _ => Ok(()),
    }
}

/// Refuses a ttl that the engine takes in no claim, so in no extension either.
pub(crate) fn check_ttl(ttl: Duration, profile: &Profile) -> Result<()> {
    let profile::Limits { ttl_min, ttl_max, .. } = profile.limits;
    if (ttl_min..=ttl_max).contains(&ttl) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "ttl {ttl:?} is out of range: {} takes {ttl_min:?} to {ttl_max:?}",
        profile.scheme
    )))
}

/// Refuses a span that no store can write down.
pub(crate) fn check_span(what: &str, span: Duration) -> Result<()> {
    if span <= SPAN_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} {span:?} is too long: at most {SPAN_MAX:?}")))
}

/// Refuses what a claim could not have asked for. What is left of a fixed lease
/// may be less than the shortest ttl, and nobody is harmed by that.
fn check_refresh(refresh: &Refresh, profile: &Profile) -> Result<()> {
    if mutant::lives(Mutant::ExtendPassesLimits) {
        return Ok(());
    }
    check_span("lock_delay", refresh.lock_delay)?;
    if !refresh.renewed && !refresh.ttl.is_zero() && refresh.ttl < profile.limits.ttl_min {
        return Ok(());
    }
    check_ttl(refresh.ttl, profile)
}

/// Refuses a conversion to what could not have been claimed.
fn check_conversion(to: Mode, profile: &Profile) -> Result<()> {
    if !profile.convert {
        return Err(unsupported(profile, "cannot convert a lease; release it and lock anew"));
    }
    to.check()?;
    check_mode(to, profile)
}

/// What stands for an answer that an engine owes.
pub(crate) fn no_answer() -> Renewal {
    let text = "the engine left out the answer to a renewal";
    Renewal::Unknown(Error::new(ErrorKind::Unexpected, text))
}

fn unsupported(profile: &Profile, what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the {} engine {what}", profile.scheme))
}

impl Engine for Guardrail {
    fn profile(&self) -> &Profile {
        self.0.profile()
    }

    fn acquire(&self, claim: Claim) -> BoxFuture<Result<Verdict>> {
        match check(&claim, self.profile()).and_then(|()| self.check_records(claim.wants.record()))
        {
            Ok(()) => self.0.acquire(claim),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn wait(&self, ticket: Ticket, until: Moment) -> BoxFuture<Result<Wake>> {
        self.0.wait(ticket, until)
    }

    fn renew(&self, tickets: Vec<Refresh>) -> BoxFuture<Vec<Renewal>> {
        let is_fit = |it: &Refresh| check_refresh(it, self.profile()).is_ok();
        if tickets.iter().all(is_fit) {
            return self.0.renew(tickets);
        }
        let checked: Vec<_> = tickets.iter().map(|it| check_refresh(it, self.profile())).collect();
        let asked = self.0.renew(tickets.into_iter().filter(is_fit).collect());
        Box::pin(async move {
            let mut answers = asked.await.into_iter();
            let mut next = || answers.next().unwrap_or_else(no_answer);
            checked.into_iter().map(|it| it.map_or_else(Renewal::Unknown, |()| next())).collect()
        })
    }

    fn release(&self, ticket: Ticket, ending: Ending) -> BoxFuture<Result<Released>> {
        let closed = ending.keep_closed.unwrap_or_default();
        let checked = self.check_records(ending.store.is_some());
        match checked.and_then(|()| check_span("keep_closed", closed)) {
            Ok(()) => self.0.release(ticket, ending),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn convert(&self, ticket: Ticket, to: Mode) -> BoxFuture<Result<Renewal>> {
        match check_conversion(to, self.profile()) {
            Ok(()) => self.0.convert(ticket, to),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn events(&self) -> Events {
        self.0.events()
    }

    fn inspect(&self, selector: Selector, page: Page) -> BoxFuture<Result<Listing>> {
        let by_prefix = matches!(selector, Selector::Prefix(..));
        if by_prefix && self.profile().listing < profile::Lists::Indexed {
            let text = "has no index of its names; ask for one name";
            return Box::pin(ready(Err(unsupported(self.profile(), text))));
        }
        self.0.inspect(selector, page)
    }

    fn evict(&self, eviction: Eviction) -> BoxFuture<Result<Evicted>> {
        if eviction.ask && !self.profile().revocation {
            let text = "cannot ask a holder to let go; evict it, or send word to its owner";
            return Box::pin(ready(Err(unsupported(self.profile(), text))));
        }
        self.0.evict(eviction)
    }

    fn examine(&self) -> BoxFuture<Result<Vec<Finding>>> {
        self.0.examine()
    }

    fn records(&self) -> Option<&dyn RecordStore> {
        self.0.records()
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        self.0.close()
    }
}
