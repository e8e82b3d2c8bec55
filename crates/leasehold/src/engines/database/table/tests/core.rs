//! Lives of a line, in the tables of real servers and on the pure core: equal answers.

use std::collections::BTreeMap;

use super::*;
use crate::engine::state::{Answer, SessionId, State, step};
use crate::engine::{Status, Target};

/// How many lives each server sees, and how long they are.
const LIVES: u64 = 16;
const STEPS: usize = 50;
const TICKETS: usize = 9;

/// One name of nine claims, as the core and as the tables have it.
struct Twin {
    /// Two clients. What is the guest's may end at any time.
    tables: [Table; 2],
    claims: Vec<Claim>,
    core: State,
    fence: u64,
    now: Moment,
    /// The guest's present session; those before it have ended.
    guest: SessionId,
    /// The fences of the core, and those of the tables for them.
    fences: BTreeMap<u64, u64>,
}

/// The session of the other client, which never ends.
const HOST: SessionId = 1;

impl Twin {
    async fn new(url: &str, kind: usize) -> Self {
        let name = name(&format!("life/{}", fastrand::u64(..)));
        let permits = |take| Mode::Permits { take, of: 3 };
        let modes = [
            [Mode::Exclusive, Mode::Exclusive, Mode::Exclusive],
            [Mode::Read, Mode::Write, Mode::Read],
            [permits(1), permits(2), permits(3)],
        ];
        let claim = |at: usize| {
            let ticket = Ticket::new(name.clone(), modes[kind][at % 3]);
            Claim::new(ticket, Owner::new(format!("owner {at}")), HOUR)
        };
        Self {
            tables: [alone(url).await, alone(url).await],
            claims: (0..TICKETS).map(claim).collect(),
            core: State::default(),
            fence: 0,
            now: Moment::default().after(HOUR),
            guest: HOST + 1,
            fences: BTreeMap::new(),
        }
    }

    const fn is_guest(at: usize) -> bool {
        at % 4 == 3
    }

    fn table(&self, at: usize) -> &Table {
        &self.tables[usize::from(Self::is_guest(at))]
    }

    fn ask_core(&mut self, verb: Verb) -> Answer {
        self.follow();
        step(&mut self.core, verb, self.now, &mut self.fence).answer
    }

    fn follow(&mut self) {
        let (guest, ends) = (self.guest, self.now.after(HOUR));
        let lives = |id| id == HOST || id == guest;
        self.core.follow(|id| if lives(id) { ends } else { Moment::default() });
    }

    /// Somebody does something.
    async fn wander(&mut self, random: &mut fastrand::Rng) {
        self.now = self.now.after(Duration::from_secs(1));
        let at = random.usize(..TICKETS);
        match random.u8(0..20) {
            0..9 => self.acquire(at, random.u8(0..5) > 0).await,
            9..12 => self.release(at).await,
            12..15 => self.release(self.first_holder().unwrap_or(at)).await,
            15..17 => self.renew(at).await,
            17 => self.convert(at).await,
            18 if random.bool() => self.evict().await,
            18 => self.end_guest().await,
            _ => self.leave_a_dead_holder().await,
        }
        self.same_status().await;
    }

    fn first_holder(&self) -> Option<usize> {
        let first = *self.core.targets(Target::All).first()?;
        self.claims.iter().position(|claim| claim.ticket.id == first)
    }

    async fn acquire(&mut self, at: usize, waits: bool) {
        let stance = if waits { Stance::Wait { until: Moment::NEVER } } else { Stance::Try };
        let claim = Claim { stance, ..self.claims[at].clone() };
        let session = if Self::is_guest(at) { self.guest } else { HOST };
        let expected = self.ask_core(Verb::Acquire { claim: Box::new(claim.clone()), session });
        match (expected, self.table(at).acquire(claim).await.unwrap()) {
            (Answer::Granted { fence, predecessor, .. }, Verdict::Granted(grant)) => {
                self.same_fence(fence, grant.fence);
                // Tables forget a clean end at once.
                let clean = [Predecessor::None, Predecessor::Released];
                let both_clean = clean.contains(&predecessor) && clean.contains(&grant.predecessor);
                assert!(both_clean || predecessor == grant.predecessor, "{predecessor:?}");
            }
            (Answer::Busy { placed, .. }, Verdict::Busy(busy)) => {
                assert_eq!(busy.place.is_some(), placed.is_some());
            }
            (expected, found) => panic!("{found:?} is not {expected:?}"),
        }
    }

    fn same_fence(&mut self, core: u64, table: u64) {
        let before = self.fences.insert(core, table);
        assert!(before.is_none_or(|before| before == table), "a grant has two fences");
        assert!(self.fences.values().is_sorted_by(|a, b| a < b), "{:?}", self.fences);
    }

    async fn release(&mut self, at: usize) {
        let ticket = self.claims[at].ticket.clone();
        let expected = self.ask_core(Verb::Release { id: ticket.id, ending: Ending::new() });
        let released = self.table(at).release(ticket, Ending::new()).await.unwrap();
        assert_eq!(released, expected.into_released().unwrap());
    }

    async fn renew(&mut self, at: usize) {
        let id = self.claims[at].ticket.id;
        let expected = self.ask_core(Verb::Renew { id, ttl: HOUR });
        same_renewal(&expected, &renewed(self.table(at), &self.claims[at]).await);
    }

    async fn convert(&mut self, at: usize) {
        let ticket = self.claims[at].ticket.clone();
        let expected = self.ask_core(Verb::Convert { id: ticket.id, to: Mode::Read });
        match self.table(at).convert(ticket, Mode::Read).await {
            Ok(found) => same_renewal(&expected, &found),
            Err(error) => assert!(matches!(expected, Answer::OtherKind(_)), "{error}"),
        }
    }

    async fn evict(&mut self) {
        let verb = Verb::Evict { target: Target::All, remark: "ann: stuck".into() };
        let Answer::Evicted(expected) = self.ask_core(verb) else { panic!("an odd answer") };
        let name = self.claims[0].ticket.name.clone();
        let eviction = Eviction::new(name, Target::All, "ann", "stuck").unwrap();
        let found = self.tables[0].evict(eviction).await.unwrap();
        assert_eq!(found.leases.len(), expected.len());
    }

    /// Whoever is next leaves before anybody has seen that the holder is dead; the one
    /// after it has to hear of that.
    async fn leave_a_dead_holder(&mut self) {
        let status = self.core.status(self.claims[0].ticket.name.clone(), self.now);
        let label = status.waiters.first().map(|waiter| &*waiter.label);
        let first = self.claims.iter().position(|claim| Some(claim.owner.label()) == label);
        self.end_guest().await;
        if let Some(first) = first {
            self.release(first).await;
        }
        if let Some(next) = self.first_holder() {
            self.acquire(next, true).await;
        }
    }

    /// The guest's sessions end, and it does not know.
    async fn end_guest(&mut self) {
        self.guest += 1;
        let guest = &self.tables[1];
        guest.0.pool.batch(&new_end(guest, false)).await.unwrap();
    }

    /// What the last step has left, and not what the next one would make of it.
    async fn same_status(&mut self) {
        let name = self.claims[0].ticket.name.clone();
        let client = &self.tables[0].0;
        let mut page = client.load(Errand::to(&name)).await.unwrap();
        while let Some(from) = page.unread() {
            client.read_on(&mut page, from, 7).await.unwrap();
        }
        let found = page.state.status(name.clone(), page.now);
        self.follow();
        let expected = self.core.status(name, self.now);
        assert_eq!(holding(&found), holding(&expected));
        assert_eq!(waiting(&found), waiting(&expected));
        for (expected, found) in expected.holders.iter().zip(&found.holders) {
            self.same_fence(expected.fence.unwrap(), found.fence.unwrap());
        }
    }
}

fn holding(status: &Status) -> Vec<(&str, Mode)> {
    status.holders.iter().map(|it| (&*it.label, it.mode)).collect()
}

fn waiting(status: &Status) -> Vec<(&str, Mode)> {
    status.waiters.iter().map(|it| (&*it.label, it.mode)).collect()
}

/// A client that does nothing but what it is asked.
async fn alone(url: &str) -> Table {
    let table = table(url).await;
    table.0.tasks.lock().unwrap().drain(..).for_each(|task| task.abort());
    table
}

fn same_renewal(expected: &Answer, found: &Renewal) {
    let same = match expected {
        Answer::Held { .. } => matches!(found, Renewal::Held { .. }),
        Answer::Queued { .. } => matches!(found, Renewal::Queued(_)),
        Answer::Gone => matches!(found, Renewal::Gone),
        _ => false,
    };
    assert!(same, "{found:?} is not {expected:?}");
}

fn live(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for seed in 0..LIVES {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut twin = Twin::new(url, random.usize(..3)).await;
            for _ in 0..STEPS {
                twin.wander(&mut random).await;
            }
        }
    });
}

#[test]
fn a_line_in_tables_answers_as_the_pure_core_does() {
    for server in DatabaseServer::each() {
        live(&server.url());
    }
}

#[test]
fn a_line_in_tables_that_is_read_or_written_wrong_is_found() {
    let mutants = [
        Mutant::EndsAtTheWindow,
        Mutant::ForgetsWhoAsks,
        Mutant::StopsAtTheWindow,
        Mutant::ServesOnTheWayOut,
        Mutant::KeepsRows,
        Mutant::SavesNoRows,
    ];
    for server in DatabaseServer::each() {
        each_is_found(&mutants, || live(&server.url()));
    }
}
