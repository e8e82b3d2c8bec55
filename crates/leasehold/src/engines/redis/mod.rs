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
use self::link::RedisLink;
use self::settings::{RedisLayout, RedisSettings};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::url::Url;

/// Opens the deployment that a URL names, in the layout that it asks for.
pub(crate) async fn open(url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    let settings = RedisSettings::from_url(url)?;
    let options = &url.options;
    layout::check(options, settings.layout)?;
    // What a layout says of its options comes before the first connection.
    let opening = match settings.layout {
        RedisLayout::Native => LayoutOptions::Native(layout::prefix(options)?),
        RedisLayout::String => LayoutOptions::String(StringOptions::from_options(options)?),
        RedisLayout::Redisson => {
            LayoutOptions::Redisson(RedissonOptions::from_options(options, settings.wake)?)
        }
    };
    let link = RedisLink::open(&settings, clock.clone()).await?;
    let checkup = Checkup::new(&link, &settings, &clock);
    match opening {
        LayoutOptions::Native(prefix) => {
            native::open(link, &settings, &prefix, checkup, clock).await
        }
        LayoutOptions::String(options) => {
            Ok(compat::string::open(link, options, checkup, clock).await)
        }
        LayoutOptions::Redisson(options) => {
            compat::redisson::open(link, options, checkup, clock).await
        }
    }
}

/// A layout with its options.
enum LayoutOptions {
    /// What its keys begin with.
    Native(String),
    String(StringOptions),
    Redisson(RedissonOptions),
}
