//! Shrinks a schedule that breaks a promise to a short one that breaks it too.
//!
//! First whole users and constant delays, then delta debugging over faults and
//! steps, then smaller and rounder numbers; again and again until nothing helps.

use std::collections::BTreeSet;

use crate::schedule::{Act, Schedule, User};

/// So many runs are enough for the last word.
const MOST: u32 = 3000;

/// The shortest schedule that was found for which `breaks` still says yes.
pub fn shrink(schedule: Schedule, breaks: impl FnMut(&Schedule) -> bool) -> Schedule {
    let mut shrinker = Shrinker { best: schedule, breaks, runs: 0 };
    loop {
        let before = shrinker.best.clone();
        shrinker.users();
        shrinker.calm();
        shrinker.faults();
        shrinker.steps();
        shrinker.numbers();
        if shrinker.best == before || shrinker.runs >= MOST {
            return shrinker.best;
        }
    }
}

struct Shrinker<B> {
    best: Schedule,
    breaks: B,
    runs: u32,
}

impl<B: FnMut(&Schedule) -> bool> Shrinker<B> {
    /// Takes `smaller` if it breaks as well.
    fn accept(&mut self, smaller: Schedule) -> bool {
        if smaller == self.best || self.runs >= MOST {
            return false;
        }
        self.runs += 1;
        let breaks = (self.breaks)(&smaller);
        if breaks {
            self.best = smaller;
        }
        breaks
    }

    fn change(&mut self, change: impl FnOnce(&mut Schedule)) -> bool {
        let mut smaller = self.best.clone();
        change(&mut smaller);
        // A program is what it is in print: in the order of time.
        smaller.steps.sort_by_key(|step| step.at);
        self.accept(smaller)
    }

    fn users(&mut self) {
        let users: BTreeSet<User> = self.best.steps.iter().map(|step| step.user).collect();
        for user in users {
            self.change(|it| it.steps.retain(|step| step.user != user));
        }
    }

    /// Every message takes as long as the next, and nothing is sent again.
    fn calm(&mut self) {
        self.change(|it| it.setting.slowest = it.setting.quickest);
        self.change(|it| it.setting.retries = 0);
    }

    fn faults(&mut self) {
        let all = self.best.faults.len();
        self.chunks(all, |it| it.faults.len(), |it, from, to| drop(it.faults.drain(from..to)));
    }

    fn steps(&mut self) {
        let all = self.best.steps.len();
        self.chunks(all, |it| it.steps.len(), |it, from, to| drop(it.steps.drain(from..to)));
    }

    /// Leaves out ever smaller parts.
    fn chunks(
        &mut self,
        all: usize,
        len: fn(&Schedule) -> usize,
        leave_out: fn(&mut Schedule, usize, usize),
    ) {
        let mut size = all;
        while size > 0 {
            let mut from = 0;
            while from < len(&self.best) {
                let to = (from + size).min(len(&self.best));
                if !self.change(|it| leave_out(it, from, to)) {
                    from += size;
                }
            }
            size /= 2;
        }
    }

    fn numbers(&mut self) {
        let count = numbers(&mut self.best.clone()).len();
        for at in 0..count {
            self.number(at);
        }
    }

    /// One number: nothing, half of it, or a round one.
    fn number(&mut self, at: usize) {
        loop {
            let now = *numbers(&mut self.best.clone())[at];
            let tried =
                smaller(now).into_iter().any(|less| self.change(|it| *numbers(it)[at] = less));
            if !tried {
                return;
            }
        }
    }
}

/// All numbers of a schedule that may be smaller.
fn numbers(schedule: &mut Schedule) -> Vec<&mut u64> {
    let mut all = Vec::new();
    for fault in &mut schedule.faults {
        all.extend([&mut fault.at, &mut fault.span, &mut fault.by]);
    }
    for step in &mut schedule.steps {
        all.push(&mut step.at);
        all.extend(step.act.number());
    }
    all
}

impl Act {
    fn number(&mut self) -> Option<&mut u64> {
        match self {
            Self::Extend(_, number)
            | Self::Write(_, number)
            | Self::Once(_, number)
            | Self::Shutdown(number) => Some(number),
            Self::Ask(ask) => match &mut ask.patience {
                crate::schedule::Patience::Within(limit) => Some(limit),
                _ => None,
            },
            _ => None,
        }
    }
}

/// What to try in place of a number, the smallest first.
fn smaller(number: u64) -> Vec<u64> {
    let round = |to: u64| number / to * to;
    let mut all = vec![0, number / 2, number / 4 * 3, round(1000), round(100), round(10)];
    all.retain(|less| *less < number);
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Stage;
    use crate::schedule::draw::draw;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let extends = |it: &Schedule| {
            it.steps.iter().any(|step| matches!(&step.act, Act::Extend(_, by) if *by > 70))
        };
        let mut seeds = (0..).map(|seed| draw(seed, Stage::Contract));
        let schedule = seeds.find(|it| extends(it) && !it.faults.is_empty()).unwrap();
        let short = shrink(schedule, extends);
        assert!(short.faults.is_empty());
        let [step] = &short.steps[..] else { panic!("{} steps", short.steps.len()) };
        assert_eq!(step.at, 0);
        assert!(matches!(&step.act, Act::Extend(_, by) if (71..=200).contains(by)), "{step}");
    }
}
