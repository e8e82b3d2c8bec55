//! Redis, and what speaks its protocol.
//!
//! A [`link`] reaches the deployment, whatever its shape; a layout decides which
//! keys a lease is made of.

mod address;
mod link;
mod native;
mod script;
mod settings;

use std::sync::Arc;

use self::link::Link;
use self::settings::{Layout, Settings};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::url::Url;

/// Opens the deployment that a URL names, in the layout that it asks for.
pub(crate) async fn open(url: &Url, clock: Clock) -> Result<Arc<dyn Engine>> {
    let settings = Settings::from_url(url)?;
    let link = Link::open(&settings, clock.clone()).await?;
    match settings.layout {
        Layout::Native => native::open(link, &settings, clock).await,
    }
}
