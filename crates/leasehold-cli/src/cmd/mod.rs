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
        Command::Start(args) => return Err(run::start(&args)),
        Command::Ls(args) => {
            let locks = engine::open(global).await?;
            engine::answer(ls::ls(&locks, &args, global.json)).await?;
        }
        Command::Show(args) => {
            let locks = engine::open(global).await?;
            engine::answer(show::show(&locks, &args, global.json)).await?;
        }
        Command::Evict(args) => {
            let locks = engine::open(global).await?;
            engine::answer(evict::evict(&locks, &args, global.json)).await?;
        }
    }
    Ok(0)
}
