//! Lock and unlock, when nobody else wants the name.

use std::io;
use std::time::Duration;

use leasehold_testkit::peer::{Measured, Peer, Tongue};

use crate::Outcome;
use crate::server::Target;

const ROUNDS: usize = 5;
/// How long one client is measured in one round.
const SPAN: Duration = Duration::from_millis(1000);
const CROWD: usize = 64;

/// A client, in two processes.
pub(crate) struct Contestant {
    pub(crate) label: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) peers: [Peer; 2],
}

/// The best of all rounds.
#[derive(Default)]
struct Best {
    alone: Option<Measured>,
    crowd: Option<Measured>,
    /// The commands of one pair, alone and among many.
    commands: [String; 2],
    /// Why it could not be measured.
    trouble: Option<io::Error>,
}

impl Contestant {
    pub(crate) fn start(
        target: &Target,
        label: &'static str,
        tongue: Tongue,
        kind: &'static str,
    ) -> Outcome<Self> {
        let start = || Peer::start(tongue, &[target.address()]);
        Ok(Self { label, kind, peers: [start()?, start()?] })
    }
}

pub(crate) fn report(target: &Target, contestants: &mut [Contestant]) -> Outcome<()> {
    let mut bests: Vec<Best> = contestants.iter().map(|_| Best::default()).collect();
    let mut served = [0.0_f64; 2];
    for _ in 0..ROUNDS {
        served[0] = served[0].max(target.redis_benchmark(1, 10_000)?);
        served[1] = served[1].max(target.redis_benchmark(CROWD, 100_000)?);
        for (contestant, best) in contestants.iter_mut().zip(&mut bests) {
            round(target, contestant, best)?;
        }
    }
    print(contestants, &bests, served);
    Ok(())
}

fn round(target: &Target, contestant: &mut Contestant, best: &mut Best) -> Outcome<()> {
    for (at, tasks) in [1, CROWD].into_iter().enumerate() {
        target.reset_counts()?;
        match contestant.peers[0].bench(contestant.kind, tasks, SPAN) {
            Ok(measured) => {
                best.commands[at] = target.commands()?.per(measured.ops as f64).to_string();
                let slot = if at == 0 { &mut best.alone } else { &mut best.crowd };
                *slot = Some(slot.map_or(measured, |before| better(before, measured)));
            }
            Err(error) => best.trouble = Some(error),
        }
    }
    Ok(())
}

fn better(a: Measured, b: Measured) -> Measured {
    if rate(&a) >= rate(&b) { a } else { b }
}

fn rate(measured: &Measured) -> f64 {
    measured.ops as f64 / measured.seconds
}

fn print(contestants: &[Contestant], bests: &[Best], served: [f64; 2]) {
    println!(
        "\n| client | 1 task: p50 | p99 | pairs/s | of bare | 64 tasks: p50 | p99 | pairs/s \
         | of bare | commands of a pair, 1 task | of 64 tasks |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
    println!("| redis-benchmark | | | {:.0} | | | | {:.0} | | | |", served[0], served[1]);
    let bare = [bests[0].alone, bests[0].crowd].map(|it| it.map_or(1.0, |it| rate(&it)));
    for (contestant, best) in contestants.iter().zip(bests) {
        let alone = columns(best.alone.as_ref(), bare[0]);
        let crowd = columns(best.crowd.as_ref(), bare[1]);
        let [one, many] = &best.commands;
        println!("| {} | {alone} | {crowd} | {one} | {many} |", contestant.label);
        if let Some(error) = &best.trouble {
            println!("| | {error} |");
        }
    }
}

fn columns(measured: Option<&Measured>, bare: f64) -> String {
    let Some(it) = measured else { return "not measured | | |".into() };
    let micros = |ns: u64| format!("{:.0} µs", ns as f64 / 1e3);
    let (p50, p99) = (micros(it.p50_ns), micros(it.p99_ns));
    format!("{p50} | {p99} | {:.0} | {:.2}", rate(it), rate(it) / bare)
}
