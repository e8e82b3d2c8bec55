//! `group`: who is here; to be a member while a command runs.

mod join;
mod ls;
mod stay;
mod watch;

use leasehold::Member;
use serde::Serialize;

use self::join::join;
use super::follow;
use crate::args::{self, Global, GroupAction};
use crate::engine;
use crate::failure::Failure;

pub(crate) async fn group(global: &Global, args: &args::Group) -> Result<u8, Failure> {
    args.check()?;
    match &args.action {
        GroupAction::Join(args) => join(global, args).await,
        GroupAction::Watch { name } => follow::follow(watch::watch(global, name)).await,
        GroupAction::Ls { name } => {
            let locks = engine::open(global).await?;
            engine::answer(ls::ls(&locks.group(name), global.json)).await.map(|()| 0)
        }
    }
}

/// A member. Field names are a promise.
#[derive(Serialize)]
struct MemberJson<'a> {
    id: &'a str,
    payload: &'a str,
    label: &'a str,
}

impl<'a> From<&'a Member> for MemberJson<'a> {
    fn from(member: &'a Member) -> Self {
        Self { id: &member.id, payload: &member.payload, label: &member.label }
    }
}
