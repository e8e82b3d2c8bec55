//! What a lock on Redis costs beside other clients, on one server in one run.
//! `cargo xtask bench --peers` builds them, runs this and prints the tables.
//!
//! Every client is a process that speaks the line protocol of
//! interop/README.md. Rounds of all clients take turns, so that a slow minute
//! of the machine hits all of them; the best round counts.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "that is what it is for")]

mod contest;
mod hand_over;
mod server;

use std::error::Error;

use leasehold_testkit::peer::Tongue;

use self::contest::Contestant;
use self::server::Target;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Who takes part: a label, the program, and the kind of lock it is asked for.
const CONTESTANTS: [(&str, Tongue, &str); 9] = [
    ("bare driver: `SET NX PX`, `DEL`", Tongue::Rust, "bare"),
    ("bare driver: `SET NX PX`, compare and delete", Tongue::Rust, "careful"),
    ("rslock", Tongue::Rust, "rslock"),
    ("Leasehold, native", Tongue::Rust, "native"),
    ("Leasehold, string", Tongue::Rust, "string"),
    ("Leasehold, redisson", Tongue::Rust, "lock"),
    ("Redisson, lock", Tongue::Redisson, "lock"),
    ("Redisson, fenced lock", Tongue::Redisson, "fenced"),
    ("redsync", Tongue::Redsync, "string"),
];

fn main() -> Outcome<()> {
    let target = Target::start()?;
    let start = |(label, tongue, kind)| Contestant::start(&target, label, tongue, kind);
    let mut contestants = CONTESTANTS.into_iter().map(start).collect::<Outcome<Vec<_>>>()?;
    contest::report(&target, &mut contestants)?;
    hand_over::report(&target, &mut contestants)
}
