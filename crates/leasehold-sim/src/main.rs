//! `leasehold-sim`: run by `cargo xtask sim`; `docs/simulator.md` says how to
//! read what it prints.

#[cfg(leasehold_sim)]
mod command;

#[cfg(leasehold_sim)]
fn main() -> std::process::ExitCode {
    command::main()
}

#[cfg(not(leasehold_sim))]
fn main() {}
