//! `completions` and `man`: pages made from the definition of the commands.

use std::path::Path;

use clap::CommandFactory;

use crate::args::{Cli, Completions, Man};
use crate::failure::{Failure, OUTPUT};
use crate::output;

pub(crate) fn completions(args: &Completions) -> Result<(), Failure> {
    let mut page = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "leasehold", &mut page);
    output::print(&String::from_utf8_lossy(&page))
}

pub(crate) fn man(args: &Man) -> Result<(), Failure> {
    let mut whole = Cli::command();
    whole.build();
    match (&args.dir, &args.command) {
        (Some(dir), _) => write_all(&whole, dir),
        (None, Some(name)) => {
            let command = whole.find_subcommand(name).cloned();
            let command = command.ok_or_else(|| unknown(&whole, name))?;
            output::print(&page(&clap_mangen::Man::new(command))?)
        }
        (None, None) => output::print(&page(&clap_mangen::Man::new(whole))?),
    }
}

fn unknown(whole: &clap::Command, name: &str) -> Failure {
    let names: Vec<_> = whole.get_subcommands().map(clap::Command::get_name).collect();
    Failure::usage(format!("there is no command {name:?}; one of {}", names.join(", ")))
}

fn write_all(whole: &clap::Command, dir: &Path) -> Result<(), Failure> {
    let no_dir = |cause| Failure::new(OUTPUT, format!("cannot create {dir:?}: {cause}"));
    std::fs::create_dir_all(dir).map_err(no_dir)?;
    for command in whole.get_subcommands().chain([whole]) {
        let man = clap_mangen::Man::new(command.clone());
        let path = dir.join(man.get_filename());
        let cannot = |cause| Failure::new(OUTPUT, format!("cannot write {path:?}: {cause}"));
        std::fs::write(&path, page(&man)?).map_err(cannot)?;
    }
    Ok(())
}

/// A page whose examples and tables keep their lines.
fn page(man: &clap_mangen::Man) -> Result<String, Failure> {
    let mut page = Vec::new();
    let cannot = |cause| Failure::internal(format!("cannot make the page: {cause}"));
    man.render(&mut page).map_err(cannot)?;
    let page = String::from_utf8_lossy(&page);
    let Some((before, after)) = page.split_once(".SH EXTRA\n") else { return Ok(page.into()) };
    let (notes, rest) = after.split_once("\n.SH ").unwrap_or((after, ""));
    let rest = if rest.is_empty() { String::new() } else { format!("\n.SH {rest}") };
    Ok(format!("{before}.SH NOTES\n.nf\n{}\n.fi{rest}\n", notes.trim_end()))
}
