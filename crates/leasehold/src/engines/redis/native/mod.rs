//! The native layout: every mode, queue, direct hand-over, fence.

use std::sync::Arc;

use super::link::Link;
use super::settings::Settings;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};

pub(super) async fn open(link: Link, _: &Settings, _: Clock) -> Result<Arc<dyn Engine>> {
    link.close().await;
    Err(Error::new(ErrorKind::Unsupported, "not yet"))
}
