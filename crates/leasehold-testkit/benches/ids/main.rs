//! What an id costs, beside the Rust peers, as ratios within one run.
//! `cargo bench -p leasehold-testkit --bench ids` prints the tables of
//! docs/guide/ids.md; a word after `--` runs the parts whose name has it.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "that is what it is for")]

mod burst;
mod cap;
mod measure;
mod refill;
mod segment;
mod text;

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let parts: [(&str, fn()); 6] = [
        // First: a clock of ferroid ticks for ever.
        ("idle", cap::idle),
        ("segment", segment::report),
        ("burst", burst::report),
        ("cap", cap::report),
        ("text", text::report),
        ("refill", refill::report),
    ];
    for (name, report) in parts {
        if chosen.is_empty() || chosen.iter().any(|word| name.contains(word.as_str())) {
            println!("\n## {name}\n");
            report();
        }
    }
}
