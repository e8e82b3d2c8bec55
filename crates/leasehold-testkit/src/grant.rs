//! A granted lease, put together from the events of its life.

use std::collections::BTreeMap;

use crate::history::{Event, Mode, NEVER, Nanos, OpId, Outcome, What};

/// When an operation started and ended; [`NEVER`] where the end is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Just before the call.
    pub invoke: Nanos,
    /// Just after it returned.
    pub ret: Nanos,
}

/// One granted lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The acquire.
    pub op: OpId,
    /// The holder's process.
    pub pid: u32,
    /// What it locked.
    pub name: String,
    /// And how.
    pub mode: Mode,
    /// The fence.
    pub fence: u64,
    /// When the engine must have granted it.
    pub begin: Span,
    /// When the engine must have ended it: the span of a release, or from the
    /// earliest possible lapse or death to [`NEVER`].
    pub end: Span,
    /// Until when the holder claimed it: the earliest of release called, local
    /// deadline, loss signalled and death.
    pub claimed_until: Nanos,
}

/// Puts the grants of a history together, by name and begin.
///
/// An acquire whose outcome is unknown is left out: it may have held the name
/// at any time or never, so it constrains nobody.
pub(crate) fn assemble(events: &[Event]) -> Vec<Grant> {
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|event| event.at);
    let mut stories = Stories::default();
    events.into_iter().for_each(|event| stories.tell(event));
    let mut grants = stories.grants();
    grants.sort_by(|a, b| (&a.name, a.begin.invoke).cmp(&(&b.name, b.begin.invoke)));
    grants
}

struct Release {
    span: Span,
    outcome: Outcome,
}

/// What is known of one acquire so far.
struct Story {
    pid: u32,
    name: String,
    mode: Mode,
    invoke: Nanos,
    granted: Option<(Nanos, u64)>,
    deadline: Nanos,
    expires: Nanos,
    lost: Nanos,
    releases: BTreeMap<OpId, Release>,
}

#[derive(Default)]
struct Stories {
    acquires: BTreeMap<OpId, Story>,
    /// Which acquire a release belongs to.
    release_of: BTreeMap<OpId, OpId>,
    kills: BTreeMap<u32, Nanos>,
}

impl Stories {
    fn tell(&mut self, event: &Event) {
        match &event.what {
            What::Acquire { name, mode } => self.begin(event, name, *mode),
            What::Kill { process } => {
                self.kills.insert(*process, event.at);
            }
            What::Release { of } => {
                self.release_of.insert(event.op, *of);
                self.go_on(*of, event);
            }
            What::Released { .. } => {
                let acquire = self.release_of.get(&event.op).copied();
                acquire.into_iter().for_each(|acquire| self.go_on(acquire, event));
            }
            _ => self.go_on(event.op, event),
        }
    }

    fn begin(&mut self, event: &Event, name: &str, mode: Mode) {
        let story = Story {
            pid: event.pid,
            name: name.to_owned(),
            mode,
            invoke: event.at,
            granted: None,
            deadline: 0,
            expires: 0,
            lost: NEVER,
            releases: BTreeMap::new(),
        };
        self.acquires.insert(event.op, story);
    }

    fn go_on(&mut self, acquire: OpId, event: &Event) {
        if let Some(story) = self.acquires.get_mut(&acquire) {
            story.tell(event);
        }
    }

    fn grants(self) -> Vec<Grant> {
        let kill = |story: &Story| self.kills.get(&story.pid).copied().unwrap_or(NEVER);
        let stories = self.acquires.iter();
        stories.filter_map(|(op, story)| story.grant(*op, kill(story))).collect()
    }
}

impl Story {
    fn tell(&mut self, event: &Event) {
        match event.what {
            What::Acquired { outcome: Outcome::Ok, fence: Some(fence), deadline, expires } => {
                self.granted = Some((event.at, fence));
                self.extend(deadline, expires);
            }
            What::Renewed { deadline, expires } => self.extend(deadline, expires),
            What::Lost => self.lost = self.lost.min(event.at),
            What::Release { .. } => {
                let span = Span { invoke: event.at, ret: NEVER };
                self.releases.insert(event.op, Release { span, outcome: Outcome::Info });
            }
            What::Released { outcome } => {
                if let Some(release) = self.releases.get_mut(&event.op) {
                    (release.span.ret, release.outcome) = (event.at, outcome);
                }
            }
            _ => {}
        }
    }

    fn extend(&mut self, deadline: Option<Nanos>, expires: Option<Nanos>) {
        self.deadline = self.deadline.max(deadline.unwrap_or(NEVER));
        self.expires = self.expires.max(expires.unwrap_or(NEVER));
    }

    fn grant(&self, op: OpId, killed: Nanos) -> Option<Grant> {
        let (seen, fence) = self.granted?;
        Some(Grant {
            op,
            pid: self.pid,
            name: self.name.clone(),
            mode: self.mode,
            fence,
            begin: Span { invoke: self.invoke, ret: seen },
            end: self.end(killed),
            claimed_until: self.claimed_until(killed),
        })
    }

    fn end(&self, killed: Nanos) -> Span {
        let with = |outcome| self.releases.values().filter(move |it| it.outcome == outcome);
        let certain = with(Outcome::Ok).map(|release| release.span).min_by_key(|span| span.ret);
        let maybe = with(Outcome::Info).map(|release| release.span.invoke).min().unwrap_or(NEVER);
        let earliest = maybe.min(self.expires).min(killed);
        certain.unwrap_or(Span { invoke: earliest, ret: NEVER })
    }

    fn claimed_until(&self, killed: Nanos) -> Nanos {
        let called = self.releases.values().map(|release| release.span.invoke).min();
        called.unwrap_or(NEVER).min(self.deadline).min(self.lost).min(killed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Grant, Span, assemble};
    use crate::history::{Event, Mode, NEVER, Nanos, OpId, Outcome, What};

    fn event(at: Nanos, op: u64, what: What) -> Event {
        Event { at, pid: 7, op: OpId(op), what }
    }

    fn acquired(deadline: Option<Nanos>, expires: Option<Nanos>) -> What {
        What::Acquired { outcome: Outcome::Ok, fence: Some(1), deadline, expires }
    }

    /// A grant seen at 2 with deadline 50 and earliest expiry 60, and more.
    fn grant(more: Vec<Event>) -> Grant {
        let asked = What::Acquire { name: "n".into(), mode: Mode::Exclusive };
        let mut events = vec![event(1, 1, asked), event(2, 1, acquired(Some(50), Some(60)))];
        events.extend(more);
        assemble(&events).remove(0)
    }

    fn released(at: Nanos, outcome: Outcome) -> Vec<Event> {
        let release = What::Release { of: OpId(1) };
        vec![event(at, 2, release), event(at + 1, 2, What::Released { outcome })]
    }

    #[test]
    fn a_release_ends_claim_and_lease() {
        let grant = grant(released(10, Outcome::Ok));
        assert_eq!((grant.end, grant.claimed_until), (Span { invoke: 10, ret: 11 }, 10));
    }

    #[test]
    fn a_lease_left_alone_may_lapse_from_its_earliest_expiry_on() {
        let grant = grant(vec![]);
        assert_eq!((grant.end, grant.claimed_until), (Span { invoke: 60, ret: NEVER }, 50));
    }

    #[test]
    fn a_failed_release_ends_the_claim_but_not_the_lease() {
        let grant = grant(released(40, Outcome::Fail));
        assert_eq!((grant.end, grant.claimed_until), (Span { invoke: 60, ret: NEVER }, 40));
    }

    #[test]
    fn an_unknown_release_may_work_at_any_time_after_its_call() {
        let grant = grant(released(40, Outcome::Info));
        assert_eq!((grant.end, grant.claimed_until), (Span { invoke: 40, ret: NEVER }, 40));
    }

    #[test]
    fn a_renewal_moves_both_ends_and_a_loss_ends_the_claim() {
        let renewed = What::Renewed { deadline: Some(150), expires: Some(160) };
        let mut events = vec![event(20, 1, renewed)];
        assert_eq!(grant(events.clone()).claimed_until, 150);
        events.push(event(90, 1, What::Lost));
        let grant = grant(events);
        assert_eq!((grant.end.invoke, grant.claimed_until), (160, 90));
    }

    #[test]
    fn a_killed_holder_claims_nothing_more_and_may_be_noticed_at_once() {
        let grant = grant(vec![event(30, 9, What::Kill { process: 7 })]);
        assert_eq!((grant.end, grant.claimed_until), (Span { invoke: 30, ret: NEVER }, 30));
    }

    #[test]
    fn an_unknown_acquire_is_no_grant() {
        let asked = What::Acquire { name: "n".into(), mode: Mode::Exclusive };
        assert!(assemble(&[event(1, 1, asked)]).is_empty());
    }
}
