//! Redis, and what speaks its protocol.
//!
//! A [`link`] reaches the deployment, whatever its shape; a layout decides which
//! keys a lease is made of.

mod address;
pub(in crate::engines) mod checkup;
mod compat;
mod layout;
pub(in crate::engines) mod link;
mod native;
mod renewals;
pub(in crate::engines) mod script;
#[cfg(test)]
mod server;
pub(in crate::engines) mod settings;
mod values;
mod waits;

use std::sync::Arc;

use self::checkup::Checkup;
use self::layout::{RedissonOptions, StringOptions};
use self::link::Link;
use self::settings::{Layout, Settings};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::url::Url;

/// Opens the deployment that a URL names, in the layout that it asks for.
pub(crate) async fn open(url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    let settings = Settings::from_url(url)?;
    let options = &url.options;
    layout::check(options, settings.layout)?;
    // What a layout says of its options comes before the first connection.
    let opening = match settings.layout {
        Layout::Native => Opening::Native(layout::prefix(options)?),
        Layout::String => Opening::String(StringOptions::from_options(options)?),
        Layout::Redisson => {
            Opening::Redisson(RedissonOptions::from_options(options, settings.wake)?)
        }
    };
    let link = Link::open(&settings, clock.clone()).await?;
    let checkup = Checkup::new(&link, &settings, &clock);
    match opening {
        Opening::Native(prefix) => native::open(link, &settings, &prefix, checkup, clock).await,
        Opening::String(options) => Ok(compat::string::open(link, options, checkup, clock).await),
        Opening::Redisson(options) => compat::redisson::open(link, options, checkup, clock).await,
    }
}

/// A layout with its options.
enum Opening {
    /// What its keys begin with.
    Native(String),
    String(StringOptions),
    Redisson(RedissonOptions),
}
