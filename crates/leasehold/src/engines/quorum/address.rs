//! What a quorum URL asks for.
//!
//! `redlock://user:password@host1,host2:6380,host3/database` names Redis
//! servers; `quorum:URL,URL,URL` names any engines that keep records. A comma, a
//! question mark or a percent sign inside one of the URLs is percent-encoded.

use std::sync::Arc;
use std::time::Duration;

use super::member;
use super::node_slot::{NodeSlot, Opener};
use super::redis_node::{self, NodeTerms};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::url::{Options, Url, decode};

/// The longest pause of a waiter.
const POLL: Duration = Duration::from_millis(100);
/// How long a node that has restarted does not vote.
const QUARANTINE: Duration = Duration::from_secs(60);
/// As many as a round has bits for.
const MOST: usize = 63;

pub(super) struct QuorumSettings {
    pub(super) slots: Vec<Arc<NodeSlot>>,
    pub(super) node_timeout: Option<Duration>,
    pub(super) poll: Duration,
    pub(super) quarantine: Duration,
}

impl QuorumSettings {
    pub(super) fn from_url(url: &Url, clock: &Clock) -> Result<Self> {
        let options = &url.options;
        let quarantine = options.duration("quarantine")?.unwrap_or(QUARANTINE);
        check_quarantine(quarantine)?;
        let slots = match url.scheme.as_str() {
            "redlock" => servers(url, quarantine, clock)?,
            _ => members(url, clock)?,
        };
        check_count(slots.len())?;
        Ok(Self {
            slots,
            node_timeout: options.duration("node_timeout")?,
            poll: options.duration("poll")?.unwrap_or(POLL),
            quarantine,
        })
    }
}

/// Numbers follow the clock in steps of a second: a node that has lost some is
/// above them again only if it has been silent for longer.
fn check_quarantine(span: Duration) -> Result<()> {
    if span.is_zero() || span >= Duration::from_secs(2) {
        return Ok(());
    }
    Err(Error::invalid(
        "option \"quarantine\" takes 2s or more, or 0s for nodes that never restart",
    ))
}

fn check_count(count: usize) -> Result<()> {
    let why = match count {
        0..3 => "with fewer than 3 nodes the loss of one stops everything",
        _ if count.is_multiple_of(2) => {
            "an even number survives no more losses than one node less, and splits votes more often"
        }
        _ if count > MOST => "so many nodes are slower and no safer",
        _ => return Ok(()),
    };
    Err(Error::invalid(format!(
        "a quorum has an odd number of nodes from 3 to {MOST}, not {count}: {why}"
    )))
}

/// The Redis servers of a `redlock:` URL.
fn servers(url: &Url, quarantine: Duration, clock: &Clock) -> Result<Vec<Arc<NodeSlot>>> {
    let rest = url.raw.strip_prefix("//").unwrap_or(&url.raw);
    let (login, place) = rest.rsplit_once('@').map_or(("", rest), |(login, place)| (login, place));
    let places = place.split(',').map(|host| host.split_once('/').unwrap_or((host, "")));
    let places: Vec<(&str, &str)> = places.collect();
    let database = one_of(places.iter().map(|(_, database)| *database))?;
    let terms = NodeTerms::new(url.options.get("key")?, quarantine)?;
    let hosts = places.iter().map(|(host, _)| *host).filter(|host| !host.is_empty());
    let slot = |host: &str| {
        let at = if login.is_empty() { "" } else { "@" };
        let query = passed_on(&url.options)?;
        let text = format!("redis://{login}{at}{host}/{database}{query}");
        // A mistake in it is told at once, not when the node is looked for.
        redis_node::check(&Url::parse(&text)?)?;
        let (terms, clock) = (terms.clone(), clock.clone());
        let open: Opener = Box::new(move || {
            let (text, terms, clock) = (text.clone(), terms.clone(), clock.clone());
            Box::pin(async move { redis_node::open(&Url::parse(&text)?, terms, clock).await })
        });
        Ok(NodeSlot::new(format!("redis://{host}/{database}"), open))
    };
    hosts.map(slot).collect()
}

/// The database of all servers: said once, at the last of them, or at each.
fn one_of<'a>(databases: impl Iterator<Item = &'a str>) -> Result<&'a str> {
    let mut named = databases.filter(|database| !database.is_empty());
    let first = named.next().unwrap_or_default();
    match named.find(|other| *other != first) {
        None => Ok(first),
        Some(other) => Err(Error::invalid(format!(
            "the nodes of a quorum share one database; here are {first:?} and {other:?}"
        ))),
    }
}

/// The options that each server gets.
fn passed_on(options: &Options) -> Result<String> {
    let connect = options.get("connect")?.unwrap_or("2s");
    let timeout = options.get("timeout")?.unwrap_or("2s");
    Ok(format!("?connect={connect}&timeout={timeout}"))
}

/// The engines of a `quorum:` URL.
fn members(url: &Url, clock: &Clock) -> Result<Vec<Arc<NodeSlot>>> {
    let texts = url.raw.split(',').filter(|text| !text.is_empty());
    let slot = |text: &str| {
        let text = decode(text)?;
        let endpoint = member::check(&text)?;
        let clock = clock.clone();
        let open: Opener = Box::new(move || Box::pin(member::open(text.clone(), clock.clone())));
        Ok(NodeSlot::new(endpoint, open))
    };
    texts.map(slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(url: &str) -> Result<Vec<String>> {
        let settings = QuorumSettings::from_url(&Url::parse(url)?, &Clock::System)?;
        Ok(settings.slots.iter().map(|slot| slot.endpoint.clone()).collect())
    }

    #[test]
    fn hosts_share_login_and_database_and_show_no_secret() {
        let shown = endpoints("redlock://me:secret@a,b:6380,c/2").unwrap();
        assert_eq!(shown, ["redis://a/2", "redis://b:6380/2", "redis://c/2"]);
    }

    #[test]
    fn a_slash_may_end_each_host_and_the_database_is_said_once_or_at_each() {
        for url in ["redlock://a:1/,b:2/,c:3/", "redlock://a:1,b:2,c:3/"] {
            let shown = endpoints(url).unwrap();
            assert_eq!(shown, ["redis://a:1/", "redis://b:2/", "redis://c:3/"], "{url}");
        }
        let shown = endpoints("redlock://a/2,b/2,c").unwrap();
        assert_eq!(shown, ["redis://a/2", "redis://b/2", "redis://c/2"]);
        let two = endpoints("redlock://a/1,b,c/2").unwrap_err().to_string();
        assert!(two.contains("share one database"), "{two}");
    }

    #[test]
    fn even_and_small_numbers_are_refused_with_the_reason() {
        for (url, why) in [
            ("redlock://a", "fewer than 3"),
            ("redlock://", "fewer than 3"),
            ("redlock://a,b,c,d", "even number"),
            ("redlock://a,b,c?quarantine=1s", "2s or more"),
        ] {
            let error = endpoints(url).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn members_are_urls_with_their_commas_encoded() {
        let shown = endpoints("quorum:sqlite:/a.db,sqlite:/b%2Cc.db,sqlite:/d.db").unwrap();
        assert_eq!(shown.len(), 3);
        assert!(endpoints("quorum:sqlite:/a,nowhere:/b,sqlite:/c").is_err());
        assert!(endpoints("quorum:sqlite:/a%3Ffoo=1,sqlite:/b,sqlite:/c").is_err());
    }
}
