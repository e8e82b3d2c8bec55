//! Who holds, as a line shows it: pure, and the same for every store.
//!
//! Whoever stands in line has claimed; the front of the line holds, as far as it
//! fits together. Nobody overtakes, so holders are always the front, and a line
//! only ever moves up. This is the rule of the pure core, read off a list.

use std::sync::Arc;

use super::ensemble::{EntryAhead, QueueEntry};
use crate::claim::Mode;

/// How an entry stands in its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QueueStanding {
    /// It holds.
    Holds,
    /// It waits, at the least until this one goes or changes.
    Behind(EntryAhead),
    /// Somebody before it uses the name as another kind of lock.
    OtherKind(Mode),
    /// It is not in line.
    Absent,
}

/// How `mine` stands in a queue.
pub(super) fn standing(queue: &[QueueEntry], mine: &QueueEntry) -> QueueStanding {
    // Its place is told by the line it is seen in.
    let Some(mine) = queue.iter().find(|entry| entry.is_same(mine)) else {
        return QueueStanding::Absent;
    };
    let ahead: Vec<&QueueEntry> = queue.iter().filter(|entry| entry.order < mine.order).collect();
    if let Some(other) = ahead.iter().find(|entry| !entry.mode.same_kind(mine.mode)) {
        return QueueStanding::OtherKind(other.mode);
    }
    let blocks = |entry: &&&QueueEntry| mine.mode != Mode::Read || entry.mode != Mode::Read;
    // The last of them: whoever stands before it goes earlier, or gives way to it.
    let blocker = ahead.iter().filter(blocks).max_by_key(|entry| entry.order);
    blocker.map_or(QueueStanding::Holds, |entry| QueueStanding::Behind(behind(entry)))
}

fn behind(entry: &QueueEntry) -> EntryAhead {
    EntryAhead { key: Arc::clone(&entry.key), order: entry.order }
}

/// The front of a queue: those who hold, first come first. `queue` is in order.
pub(super) fn holders(queue: &[QueueEntry]) -> &[QueueEntry] {
    let reads = |entry: &&QueueEntry| entry.mode == Mode::Read;
    let Some(first) = queue.first() else { return &[] };
    // A writer that has become a reader leaves two entries for a moment.
    let alone = queue.iter().filter(|entry| entry.order == first.order).count();
    let readers = queue.iter().take_while(reads).count();
    &queue[..alone.max(readers)]
}

/// How many permits an entry has.
pub(super) const fn weight(entry: &QueueEntry) -> u64 {
    match entry.mode {
        Mode::Permits { take, .. } => take as u64,
        Mode::Exclusive | Mode::Read | Mode::Write => 1,
    }
}

/// Whether all who have joined for permits can have them.
pub(super) fn fits(permits: &[QueueEntry], of: u32) -> bool {
    permits.iter().map(weight).sum::<u64>() <= u64::from(of)
}

/// Somebody who counts to another number of permits.
pub(super) fn other_count(permits: &[QueueEntry], of: u32) -> Option<Mode> {
    let differs = |entry: &&QueueEntry| match entry.mode {
        Mode::Permits { of: theirs, .. } => theirs != 0 && theirs != of,
        Mode::Exclusive | Mode::Read | Mode::Write => false,
    };
    permits.iter().find(differs).map(|entry| entry.mode)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::claim::LeaseId;

    fn entry(order: i64, mode: Mode) -> QueueEntry {
        let key = format!("{mode}-{order}").into();
        let id = Some(LeaseId::random());
        QueueEntry { key, order, id, mode, fence: None, metadata: None, behind: None }
    }

    fn line(modes: &[Mode]) -> Vec<QueueEntry> {
        (0..).zip(modes).map(|(order, mode)| entry(order, *mode)).collect()
    }

    #[test]
    fn a_reader_waits_for_the_nearest_writer_before_it_and_for_nobody_behind() {
        use Mode::{Read, Write};
        let queue = line(&[Write, Read, Write, Read, Write]);
        let behind = |at: usize| QueueStanding::Behind(behind(&queue[at]));
        assert_eq!(standing(&queue, &queue[0]), QueueStanding::Holds);
        assert_eq!(standing(&queue, &queue[1]), behind(0));
        assert_eq!(standing(&queue, &queue[2]), behind(1));
        assert_eq!(standing(&queue, &queue[3]), behind(2));
        assert_eq!(standing(&queue[1..], &queue[1]), QueueStanding::Holds);
        assert_eq!(standing(&queue[..1], &queue[1]), QueueStanding::Absent);
    }

    /// Marks may tell of the first as it once was.
    #[test]
    fn an_entry_that_was_made_anew_does_not_stand_where_the_first_one_stood() {
        let mut queue = line(&[Mode::Exclusive; 3]);
        queue[2].key = Arc::clone(&queue[0].key);
        (queue[0].fence, queue[2].fence) = (Some(4), Some(7));
        assert_eq!(standing(&queue, &queue[2]), QueueStanding::Behind(behind(&queue[1])));
        assert_eq!(standing(&queue[..2], &queue[2]), QueueStanding::Absent);
    }

    #[test]
    fn a_writer_that_becomes_a_reader_keeps_its_place() {
        use Mode::{Read, Write};
        let queue = [entry(5, Write), entry(5, Read), entry(6, Write), entry(7, Read)];
        assert_eq!(standing(&queue, &queue[1]), QueueStanding::Holds);
        assert_eq!(standing(&queue[1..], &queue[1]), QueueStanding::Holds);
        assert_eq!(standing(&queue[1..], &queue[2]), QueueStanding::Behind(behind(&queue[1])));
        assert_eq!(holders(&queue).len(), 2);
    }

    #[test]
    fn kinds_do_not_mix() {
        let queue = [entry(1, Mode::Exclusive), entry(2, Mode::Write)];
        assert_eq!(standing(&queue, &queue[1]), QueueStanding::OtherKind(Mode::Exclusive));
        let of = |of| entry(1, Mode::Permits { take: 1, of });
        assert!(other_count(&[of(3)], 5).is_some());
        assert!(other_count(&[of(5), of(0)], 5).is_none(), "an unknown count may be the same");
    }

    proptest! {
        /// The front of the line is what the pure core grants, step by step.
        #[test]
        fn the_front_of_the_line_is_who_the_core_lets_in(
            steps in proptest::collection::vec((any::<bool>(), 0_usize..8, any::<bool>()), 1..60),
            kinds in prop_oneof![Just(false), Just(true)],
        ) {
            let mut twins = Twins::default();
            for (join, at, write) in steps {
                let mode = match (kinds, write) {
                    (true, true) => Mode::Write,
                    (true, false) => Mode::Read,
                    (false, _) => Mode::Exclusive,
                };
                twins.step(join, at, mode);
                let (holding, granted) = twins.compare();
                prop_assert_eq!(holding, granted);
            }
        }
    }

    /// A line and the core's state, which hear the same.
    #[derive(Default)]
    struct Twins {
        line: Vec<QueueEntry>,
        state: crate::engine::state::State,
        next: i64,
        fence: u64,
    }

    impl Twins {
        fn step(&mut self, join: bool, at: usize, mode: Mode) {
            use crate::engine::state::Verb;
            let verb = if join {
                self.next += 1;
                let newcomer = entry(self.next, mode);
                let verb = Verb::Acquire { claim: Box::new(claim(&newcomer)), session: 0 };
                self.line.push(newcomer);
                verb
            } else if self.line.is_empty() {
                Verb::Tick
            } else {
                let leaver = self.line.remove(at % self.line.len());
                Verb::Release { id: leaver.id.unwrap(), ending: crate::claim::Ending::new() }
            };
            let now = crate::clock::Moment::from_nanos(1);
            crate::engine::state::step(&mut self.state, verb, now, &mut self.fence);
        }

        /// Who holds, by the line and by the core.
        fn compare(&self) -> (Vec<LeaseId>, Vec<LeaseId>) {
            let now = crate::clock::Moment::from_nanos(1);
            let holds = |entry: &&QueueEntry| standing(&self.line, entry) == QueueStanding::Holds;
            let ids = |entry: &QueueEntry| entry.id.unwrap();
            let by_line: Vec<_> = self.line.iter().filter(holds).map(ids).collect();
            assert_eq!(by_line, holders(&self.line).iter().map(ids).collect::<Vec<_>>());
            let held = |entry: &&QueueEntry| self.state.holds(entry.id.unwrap(), now);
            (by_line, self.line.iter().filter(held).map(ids).collect())
        }
    }

    fn claim(entry: &QueueEntry) -> crate::claim::Claim {
        let name = crate::name::Name::new(&crate::name::Namespace::default(), "n").unwrap();
        let mut ticket = crate::claim::Ticket::new(name, entry.mode);
        ticket.id = entry.id.unwrap();
        let owner = crate::claim::Owner::new("me");
        let hour = std::time::Duration::from_secs(3600);
        let mut claim = crate::claim::Claim::new(ticket, owner, hour);
        claim.stance = crate::claim::Stance::Wait { until: crate::clock::Moment::NEVER };
        claim
    }
}
