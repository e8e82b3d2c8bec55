//! The commands, one file each.

mod evict;
mod ls;
pub(crate) mod run;
mod show;

use crate::args::{Command, Global};
use crate::engine;
use crate::failure::Failure;

/// Carries out a command and says with which code to exit.
pub(crate) async fn obey(global: &Global, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(args) => return run::run(global, &args).await,
        Command::Ls(args) => ls::ls(&engine::open(global).await?, &args, global.json).await?,
        Command::Show(args) => show::show(&engine::open(global).await?, &args, global.json).await?,
        Command::Evict(args) => {
            evict::evict(&engine::open(global).await?, &args, global.json).await?;
        }
        Command::Start(args) => return Err(run::start(&args)),
    }
    Ok(0)
}
