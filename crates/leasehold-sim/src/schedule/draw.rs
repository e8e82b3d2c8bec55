//! Draws a schedule from a seed: a swarm.
//!
//! Each schedule has a few verbs and a few kinds of fault, not a little of
//! everything: a rare combination is common in some swarm. Spans are drawn
//! relative to each other, because faults live where one is a little longer
//! than another. Half of the schedules have a theme.

use fastrand::Rng;

use super::theme::{Spans, THEMES, Theme};
use super::{Act, Ask, Fault, FaultKind, How, Millis, Patience, Schedule, Setting, Stage};
use super::{PERMITS, Step, User};

/// Users in step begin what they do at multiples of this, almost.
const BEAT: Millis = 40;

/// The schedule of a seed.
#[must_use]
pub fn draw(seed: u64, stage: Stage) -> Schedule {
    let mut dice = Rng::with_seed(seed ^ 0x1ea5_e401_d000_0000);
    // The first numbers of close seeds are alike.
    dice.u64(..);
    let swarm = Swarm::draw(&mut dice, stage);
    let setting = swarm.setting(&mut dice, seed, stage);
    let steps = swarm.steps(&mut dice, &setting);
    let end = steps.iter().map(|step| step.at).max().unwrap_or(0);
    let faults = swarm.faults(&mut dice, &setting, end);
    Schedule { setting, steps, faults }
}

/// What one schedule is made of.
#[derive(Debug)]
struct Swarm {
    topics: Vec<Topic>,
    habits: Vec<Habit>,
    troubles: Vec<FaultKind>,
    clients: u8,
    tasks: u8,
    names: u32,
    /// What it is about, if it has a theme.
    theme: Option<Theme>,
}

/// What is locked, or done instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Mutex,
    Shared,
    Permits,
    All,
    Once,
    Count,
}

/// What users do beside to lock and to let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    Extend,
    Convert,
    Write,
    Bind,
    /// To bind the same again and again.
    Beat,
    Evict,
    Want,
    Look,
    Fixed,
    Owned,
    Delay,
    Dropped,
    OtherTtl,
    Shutdown,
}

const TOPICS: [Topic; 6] =
    [Topic::Mutex, Topic::Shared, Topic::Permits, Topic::All, Topic::Once, Topic::Count];
const HABITS: [Habit; 14] = [
    Habit::Extend,
    Habit::Convert,
    Habit::Write,
    Habit::Bind,
    Habit::Beat,
    Habit::Evict,
    Habit::Want,
    Habit::Look,
    Habit::Fixed,
    Habit::Owned,
    Habit::Delay,
    Habit::Dropped,
    Habit::OtherTtl,
    Habit::Shutdown,
];

impl Topic {
    /// A quorum of engines or Redis servers grants no permits and keeps no records.
    const fn suits(self, stage: Stage) -> bool {
        match self {
            Self::Mutex | Self::Shared | Self::All => true,
            Self::Permits | Self::Once | Self::Count => !stage.is_quorum(),
        }
    }
}

impl Habit {
    const fn suits(self, stage: Stage) -> bool {
        match self {
            Self::Bind | Self::Beat | Self::Want | Self::Delay => !stage.is_quorum(),
            _ => true,
        }
    }
}

/// The faults that a stage can bear without breaking what its users may assume.
#[must_use]
pub const fn suits(kind: FaultKind, stage: Stage) -> bool {
    use FaultKind as K;
    match stage {
        Stage::Contract => !matches!(kind, K::Cut | K::Poison),
        Stage::Members(_) => {
            !matches!(kind, K::Unrung | K::LatePush | K::Amnesia | K::Cut | K::Poison)
        }
        Stage::Redis => !matches!(
            kind,
            K::Echo | K::Slow | K::LatePush | K::Amnesia | K::Refuse | K::Curb | K::Rush
        ),
        Stage::Redlock(_) => {
            matches!(
                kind,
                K::Mute | K::Deaf | K::Stall | K::Pause | K::Cut | K::Kill | K::Restart | K::Drift
            )
        }
    }
}

impl Theme {
    fn suits(&self, stage: Stage) -> bool {
        self.topics.iter().any(|topic| topic.suits(stage))
            && self.habits.iter().all(|habit| habit.suits(stage))
            && (self.troubles.is_empty() || !self.troubles_of(stage).is_empty())
    }

    fn troubles_of(&self, stage: Stage) -> Vec<FaultKind> {
        self.troubles.iter().copied().filter(|kind| suits(*kind, stage)).collect()
    }
}

impl Swarm {
    fn draw(dice: &mut Rng, stage: Stage) -> Self {
        let themes: Vec<&Theme> = THEMES.iter().filter(|theme| theme.suits(stage)).collect();
        if dice.bool() {
            let theme = *themes[dice.usize(..themes.len())];
            return Self::about(dice, stage, theme);
        }
        let topics = TOPICS.into_iter().filter(|topic| topic.suits(stage));
        let habits = HABITS.into_iter().filter(|habit| habit.suits(stage));
        let troubles = FaultKind::ALL.iter().copied().filter(|kind| suits(*kind, stage));
        let few = dice.usize(0..4);
        let mut troubles = if few == 0 { Vec::new() } else { some(dice, troubles.collect(), few) };
        // A holder that is not told of a shorter lease cannot know of it: a
        // server that shortens leases is all that goes wrong.
        if troubles.contains(&FaultKind::Curb) {
            troubles = vec![FaultKind::Curb];
        }
        Self {
            topics: some(dice, topics.collect(), 1),
            habits: some(dice, habits.collect(), 2),
            troubles,
            clients: dice.u8(1..4),
            tasks: dice.u8(1..3),
            names: dice.u32(1..3),
            theme: None,
        }
    }

    fn about(dice: &mut Rng, stage: Stage, theme: Theme) -> Self {
        let topics = theme.topics.iter().copied().filter(|topic| topic.suits(stage));
        Self {
            topics: topics.collect(),
            habits: theme.habits.to_vec(),
            troubles: theme.troubles_of(stage),
            clients: if theme.crowded { 3 } else { dice.u8(1..4) },
            tasks: if theme.in_step { dice.u8(2..5) } else { dice.u8(1..3) },
            names: if theme.crowded { 1 } else { dice.u32(1..3) },
            theme: Some(theme),
        }
    }

    fn setting(&self, dice: &mut Rng, seed: u64, stage: Stage) -> Setting {
        let ttl = 200 << dice.u64(0..5);
        let extends = self.theme.is_some() && self.habits.contains(&Habit::Extend);
        let slowest = if dice.bool() { 1 + dice.u64(0..30) } else { 1 };
        // A member of a quorum is asked several times for one claim: that has to be
        // done within the ttl.
        let slowest = if stage.is_quorum() { slowest.min(ttl / 25) } else { slowest };
        // The network delivers one message in a millisecond. A time-out that a few
        // requests of a quorum exceed by themselves is a fault of its user.
        let usual = slowest * 2 + if stage.is_quorum() { 60 } else { 10 };
        Setting {
            seed,
            stage,
            ttl,
            ttl_max: ttl * if extends { 10 } else { [1, 2, 10][dice.usize(..3)] },
            timeout: share(dice, ttl, 10, 80).max(usual),
            retries: [0, 1, 3, 20][dice.usize(..4)],
            quickest: 1,
            slowest,
        }
    }

    fn steps(&self, dice: &mut Rng, setting: &Setting) -> Vec<Step> {
        let mut steps = Vec::new();
        for client in 0..self.clients {
            for task in 0..self.tasks {
                let user = User { client, task };
                Writer { swarm: self, setting, user, at: dice.u64(0..100), steps: &mut steps }
                    .program(dice);
            }
        }
        steps.sort_by_key(|step| (step.at, step.user));
        steps
    }

    fn faults(&self, dice: &mut Rng, setting: &Setting, end: Millis) -> Vec<Fault> {
        if self.troubles.is_empty() {
            return Vec::new();
        }
        let most = self.theme.map_or(8, |theme| theme.faults);
        let count = dice.usize(most / 4..most).max(1);
        let mut faults: Vec<Fault> = (0..count).map(|_| self.fault(dice, setting, end)).collect();
        faults.sort_by_key(|fault| fault.at);
        faults
    }

    fn fault(&self, dice: &mut Rng, setting: &Setting, end: Millis) -> Fault {
        use FaultKind as K;
        let kind = self.troubles[dice.usize(..self.troubles.len())];
        let whom = if kind.hits_server() { setting.stage.servers() } else { self.clients };
        let span = match (self.theme.map_or(Spans::Any, |theme| theme.spans), dice.u32(..3)) {
            (Spans::Timeouts, _) => share(dice, setting.timeout, 20, 200),
            (Spans::Any, 0) => share(dice, setting.timeout, 50, 500),
            _ => share(dice, setting.ttl, 10, 300),
        };
        let (by, span) = match kind {
            K::Slow | K::LatePush | K::Echo => (share(dice, setting.ttl, 5, 150), span),
            // Odd ones say that it is forbidden.
            K::Refuse => (dice.u64(..2), span),
            K::Curb => (share(dice, setting.ttl, 20, 90), 0),
            // Two clocks may differ by a hundredth; see `Profile::drift`.
            K::Drift | K::Rush => (dice.u64(1000..4900), 0),
            K::Amnesia | K::Restart | K::Kill | K::Cut | K::Poison => (0, 0),
            _ => (0, span),
        };
        // What stays begins early: it is there for the rest.
        let early = self.theme.is_some() && matches!(kind, K::Drift | K::Rush | K::Poison);
        let end = if early { end / 4 } else { end };
        Fault { at: dice.u64(..end.max(1)), kind, whom: dice.u8(..whom), by, span }
    }

    fn has(&self, dice: &mut Rng, habit: Habit) -> bool {
        let often = if self.theme.is_some() { 2 } else { 1 };
        self.habits.contains(&habit) && dice.u32(..3) < often
    }
}

/// Writes the program of one user.
struct Writer<'a> {
    swarm: &'a Swarm,
    setting: &'a Setting,
    user: User,
    at: Millis,
    steps: &'a mut Vec<Step>,
}

impl Writer<'_> {
    fn program(mut self, dice: &mut Rng) {
        for _ in 0..dice.u32(2..7) {
            let topic = self.swarm.topics[dice.usize(..self.swarm.topics.len())];
            match topic {
                Topic::Once => {
                    let work = share(dice, self.setting.ttl, 0, 150);
                    self.add(Act::Once(format!("k{}", dice.u32(..self.swarm.names)), work));
                }
                Topic::Count => {
                    let poisoned = self.swarm.troubles.contains(&FaultKind::Poison);
                    let letter = if poisoned && dice.u32(..3) == 0 { 'p' } else { 'c' };
                    let number = if letter == 'p' { 0 } else { dice.u32(..self.swarm.names) };
                    self.add(Act::Count(format!("{letter}{number}")));
                }
                _ => self.turn(dice, topic),
            }
            self.pause(dice, 60);
        }
        if self.swarm.has(dice, Habit::Shutdown) && self.user.task == 0 {
            self.add(Act::Shutdown(share(dice, self.setting.ttl, 0, 200)));
        }
    }

    /// From the request to the end of a lease.
    fn turn(&mut self, dice: &mut Rng, topic: Topic) {
        let ask = self.ask(dice, topic);
        let names = ask.names.clone();
        self.add(Act::Ask(ask));
        for _ in 0..dice.u32(0..4) {
            self.pause(dice, 60);
            let name = names[dice.usize(..names.len())].clone();
            self.deed(dice, topic, name);
        }
        let long = dice.u32(..4) == 0;
        let keep = self.swarm.theme.map_or(if long { 300 } else { 50 }, |theme| theme.keep);
        self.pause(dice, keep);
        for name in names {
            match dice.u32(..5) {
                0..3 => self.add(Act::Release(name)),
                3 => self.add(Act::Drop(name)),
                _ => {}
            }
        }
    }

    fn ask(&self, dice: &mut Rng, topic: Topic) -> Ask {
        let swarm = self.swarm;
        let number = dice.u32(..swarm.names);
        let (how, names) = match topic {
            Topic::Shared if dice.bool() => (How::Read, vec![format!("r{number}")]),
            Topic::Shared => (How::Write, vec![format!("r{number}")]),
            Topic::Permits => (How::Permits(dice.u32(1..=PERMITS)), vec![format!("s{number}")]),
            Topic::All => (How::Lock, vec!["m0".into(), "m1".into()]),
            _ if swarm.troubles.contains(&FaultKind::Poison) && dice.u32(..4) == 0 => {
                (How::Lock, vec!["x0".into()])
            }
            _ => (How::Lock, vec![format!("m{number}")]),
        };
        let several = names.len() > 1;
        let ttl = self.setting.ttl;
        let crowded = swarm.theme.is_some_and(|theme| theme.crowded);
        let patience = match dice.u32(..5) {
            0 if crowded => Patience::Within(share(dice, ttl, 5, 100)),
            0 => Patience::Try,
            1 if !several && !crowded => {
                Patience::Attempts(dice.u32(1..5), share(dice, ttl, 1, 40))
            }
            _ => {
                let most = swarm.theme.map_or(400, |theme| theme.wait);
                Patience::Within(share(dice, ttl, 5, most))
            }
        };
        Ask {
            how,
            names,
            patience,
            ttl: swarm.has(dice, Habit::OtherTtl).then(|| share(dice, ttl, 30, 100)),
            fixed: !several && swarm.has(dice, Habit::Fixed),
            owned: !several && swarm.has(dice, Habit::Owned),
            delay: if swarm.has(dice, Habit::Delay) { share(dice, ttl, 5, 100) } else { 0 },
            dropped_at: swarm.has(dice, Habit::Dropped).then(|| dice.u32(1..6)),
        }
    }

    /// Something that is done with a lease, or to it.
    fn deed(&mut self, dice: &mut Rng, topic: Topic, name: String) {
        let Setting { ttl, ttl_max, .. } = *self.setting;
        let swarm = self.swarm;
        if swarm.has(dice, Habit::Extend) {
            let by = [0, ttl / 2, ttl, ttl * 3, ttl_max, ttl_max * 5][dice.usize(..6)];
            self.add(Act::Extend(name, by));
        } else if topic == Topic::Shared && swarm.habits.contains(&Habit::Convert) {
            self.add(Act::Convert(name));
        } else if swarm.has(dice, Habit::Write) && topic != Topic::Permits {
            self.add(Act::Write(name, share(dice, ttl, 0, 120)));
        } else if swarm.has(dice, Habit::Bind) {
            self.add(Act::Bind(name));
        } else if swarm.has(dice, Habit::Beat) {
            (0..100).for_each(|_| self.add(Act::Bind(name.clone())));
        } else if swarm.has(dice, Habit::Evict) {
            self.add(Act::Evict(name));
        } else if swarm.has(dice, Habit::Want) {
            self.add(Act::Want(name));
        } else if swarm.has(dice, Habit::Look) {
            self.add(Act::Look(name));
        }
    }

    fn add(&mut self, act: Act) {
        self.steps.push(Step { at: self.at, user: self.user, act });
        self.at += 1;
    }

    /// Up to so many hundredths of a ttl.
    fn pause(&mut self, dice: &mut Rng, most: u64) {
        self.at += share(dice, self.setting.ttl, 0, most);
        if self.swarm.theme.is_some_and(|theme| theme.in_step) {
            self.at = self.at.next_multiple_of(BEAT) + dice.u64(..4);
        }
    }
}

/// Between `least` and `most` hundredths of `whole`.
fn share(dice: &mut Rng, whole: Millis, least: u64, most: u64) -> Millis {
    whole * dice.u64(least..=most) / 100
}

/// Some of these: one at least, and `few` on average.
fn some<T>(dice: &mut Rng, mut of: Vec<T>, few: usize) -> Vec<T> {
    dice.shuffle(&mut of);
    of.truncate(dice.usize(1..=few * 2 - 1));
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_schedule() {
        for seed in 0..100 {
            assert_eq!(draw(seed, Stage::Contract), draw(seed, Stage::Contract));
        }
    }

    #[test]
    fn every_kind_of_fault_is_drawn_where_it_suits() {
        for stage in [Stage::Contract, Stage::Members(3), Stage::Redis, Stage::Redlock(3)] {
            let drawn: Vec<FaultKind> =
                (0..500).flat_map(|seed| draw(seed, stage).faults).map(|it| it.kind).collect();
            for kind in FaultKind::ALL.iter().filter(|kind| suits(**kind, stage)) {
                assert!(drawn.contains(kind), "{stage}: {}", kind.word());
            }
        }
    }
}
