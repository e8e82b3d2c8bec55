//! `leasehold-scale`: what every step costs with ten, a thousand and ten thousand
//! of something, on real servers that it starts itself. `cargo xtask scale` runs it.
//!
//! | file | what it is |
//! |---|---|
//! | `options` | the command line |
//! | `engines` | the rows: which servers to start, and their URL |
//! | `work` | the tables: what is measured, a folder with one file for each |
//! | `order`, `cell` | one cell before it is measured, and after |
//! | `runner` | measures a cell in a process of its own, which it may end |
//! | `inside` | what such a process knows |
//! | `share` | a process with a part of a crowd |
//! | `crowd`, `probe`, `meter`, `procfs` | many tasks, a bystander, processor time, `/proc` |
//! | `left` | how many leases were left to expire |
//! | `renewals` | how far renewals are apart, and how many were seen |
//! | `by_hand` | the requests that the layouts of others need, and no more |
//! | `sheet`, `facts` | all cells, and when and where each was measured |
//! | `table`, `origin`, `chart`, `page` | text, pictures, `docs/scale.md` |

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "that is what it is for")]

mod by_hand;
mod cell;
mod chart;
mod crowd;
mod engines;
mod facts;
mod inside;
mod left;
mod meter;
mod number;
mod options;
mod order;
mod origin;
mod page;
mod probe;
mod procfs;
mod renewals;
mod runner;
mod share;
mod sheet;
mod table;
mod work;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use leasehold_testkit::contest::Checked;

use self::options::{HELP, Options, Task};
use self::runner::Runner;
use self::sheet::Sheet;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.as_slice() {
        [word, order] if word == order::WORD => inside::measure(order),
        [word, order] if word == share::WORD => share::contend(order),
        _ => Options::read(words).map_err(Into::into).and_then(|options| carry_out(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(options: &Options) -> Checked {
    let sheet = || Sheet::load(&options.sheet());
    match options.task {
        Task::Help => println!("{HELP}"),
        Task::Measure => measure(options)?,
        Task::Page => page::write(&options.docs, &sheet()?)?,
        Task::Check => page::check(&options.docs, &sheet()?)?,
        Task::Draw => draw(&sheet()?, &options.folder())?,
        Task::Update => {
            let measured = measure(options);
            // The cells up to an error have been written down.
            page::write(&options.docs, &sheet()?)?;
            measured?;
        }
    }
    Ok(())
}

fn draw(sheet: &Sheet, folder: &Path) -> Checked {
    fs::create_dir_all(folder)?;
    let mut charts = chart::all(sheet).into_iter();
    Ok(charts.try_for_each(|(name, svg)| fs::write(folder.join(name), svg))?)
}

/// Every cell that was asked for, written down as soon as it is there.
fn measure(options: &Options) -> Checked {
    let mut sheet = Sheet::begun(options)?;
    Runner::new(options).run(&mut sheet)?;
    println!("{}", table::all(&sheet));
    Ok(())
}
