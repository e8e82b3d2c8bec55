//! The commands, one file each.

mod barrier;
pub(crate) mod bench;
mod cache;
mod counter;
mod doctor;
mod evict;
mod follow;
mod group;
mod id;
mod latch;
mod ls;
mod observe;
mod once;
mod pages;
pub(crate) mod run;
mod schema;
mod show;
mod token;
mod watch;

use crate::args::{Command, Global};
use crate::engine;
use crate::failure::Failure;

/// Carries out a command and says with which code to exit.
pub(crate) async fn obey(mut global: Global, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(args) => run::run(&global, &args).await,
        Command::Once(args) => once::once(&global, &args).await,
        Command::Elect(args) => run::elect(&global, &args).await,
        Command::Observe(args) => observe::observe(&global, &args).await,
        Command::Group(args) => group::group(&global, &args).await,
        Command::Cache(args) => cache::cache(&global, &args).await,
        Command::Token(args) => token::token(&global, &args).await,
        Command::Watch(args) => {
            let prefix = args.aim.prefix(&mut global)?;
            watch::watch(&global, &args, &prefix).await
        }
        Command::Doctor(_) => doctor::doctor(&global).await,
        Command::Bench(args) => bench::bench(&global, &args).await,
        Command::Id(args) => id::id(&global, &args).await.map(|()| 0),
        Command::Schema(args) => schema::schema(&args).map(|()| 0),
        Command::Completions(args) => pages::completions(&args).map(|()| 0),
        Command::Man(args) => pages::man(&args).map(|()| 0),
        look => inspect(global, look).await.map(|()| 0),
    }
}

/// Commands that ask the engine something.
async fn inspect(mut global: Global, command: Command) -> Result<(), Failure> {
    let json = global.json;
    match command {
        Command::Ls(args) => {
            let prefix = args.aim.prefix(&mut global)?;
            let locks = engine::open(&global).await?;
            engine::answer(ls::ls(&locks, &args, &prefix, json)).await
        }
        Command::Show(args) => {
            let name = args.name(&mut global)?;
            let locks = engine::open(&global).await?;
            engine::answer(show::show(&locks, &name, json)).await
        }
        Command::Evict(args) => {
            args.check()?;
            let locks = engine::open(&global).await?;
            engine::answer(evict::evict(&locks, &args, json)).await
        }
        Command::Barrier(args) => barrier::barrier(&global, &args).await,
        Command::Latch(args) => latch::latch(&global, &args).await,
        Command::Counter(args) => counter::counter(&global, &args).await,
        _ => Ok(()),
    }
}
