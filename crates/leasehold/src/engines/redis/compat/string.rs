//! The layout `string`: one key with a token, as `SET key token NX PX ttl` makes
//! it. Shared with every client that deletes and extends by comparing tokens.
//!
//! The token is the lease id. Others tell nobody when they let go, so waiters
//! ask again and again. Fences come from the server's clock and grow among our
//! own clients; holders of other software draw none, so they are not promised.

use std::sync::Arc;

use super::metadata::ours;
use super::{Foreign, ForeignLayout, ForeignOptions, Scripts};
use crate::claim::{Mode, Ticket};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::engine::profile::{Profile, Reach};
use crate::engines::redis::checkup::Checkup;
use crate::engines::redis::layout::{StringOptions, Template};
use crate::engines::redis::link::RedisLink;
use crate::engines::redis::script::Script;
use crate::name::Name;

static SCRIPTS: Scripts = Scripts {
    acquire: script!("string_acquire.lua"),
    renew: script!("string_renew.lua"),
    release: script!("string_release.lua"),
};
static LOOK: Script = script!("string_look.lua");

#[derive(Debug)]
struct Strings {
    template: Template,
    conduct: ForeignOptions,
}

pub(in crate::engines::redis) async fn open(
    link: RedisLink,
    options: StringOptions,
    checkup: Checkup,
    clock: Clock,
) -> Arc<dyn Engine> {
    let mut profile = Profile::new("redis", link.endpoint());
    profile.reach = Reach::Network;
    let conduct = ForeignOptions {
        queue_wait: std::time::Duration::ZERO,
        pauses: options.poll,
        // A token is a secret: whoever knows it can release the lock.
        stranger: |_| "another client".into(),
    };
    let strings = Strings { template: options.template, conduct };
    Foreign::open(link, clock, profile, checkup, strings).await
}

impl ForeignLayout for Strings {
    fn scripts(&self, _: Mode) -> &'static Scripts {
        &SCRIPTS
    }

    fn convert(&self) -> Option<&'static Script> {
        None
    }

    fn look(&self) -> &'static Script {
        &LOOK
    }

    fn keys(&self, name: &Name, _: Option<&Ticket>) -> Vec<Vec<u8>> {
        let key = self.template.key(name);
        let ours = [ours(&key, "leasehold"), ours(&key, "leasehold:waiting")];
        [vec![key.into_bytes()], ours.into()].concat()
    }

    fn channel(&self, _: &Ticket) -> Option<Vec<u8>> {
        None
    }

    fn say(&self, _: Option<Mode>) -> &'static str {
        ""
    }

    fn options(&self) -> &ForeignOptions {
        &self.conduct
    }
}
