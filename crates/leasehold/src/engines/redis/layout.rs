//! The options of layouts.

use std::time::Duration;

use super::settings::{RedisLayout, WakeBy};
use crate::engines::kit::backoff::Backoff;
use crate::error::{Error, Result};
use crate::name::{Name, Namespace};
use crate::url::Options;

/// How often a waiter of the layout `string` asks at first.
const POLL: Duration = Duration::from_millis(10);
/// How seldom, after a while.
const POLL_MAX: Duration = Duration::from_millis(250);
/// How long Redisson keeps the place of a waiter that may have died.
const FAIR_WAIT: Duration = Duration::from_secs(300);

/// Refuses options of another layout.
pub(super) fn check(options: &Options, layout: RedisLayout) -> Result<()> {
    let own: [(RedisLayout, &[&str]); 3] = [
        (RedisLayout::Native, &["prefix"]),
        (RedisLayout::String, &["key", "poll", "poll_max"]),
        (RedisLayout::Redisson, &["kind", "pubsub", "fair_wait"]),
    ];
    for (other, keys) in own.into_iter().filter(|(other, _)| *other != layout) {
        for key in keys {
            if options.get(key)?.is_some() {
                return Err(Error::invalid(format!(
                    "option {key:?} belongs to layout={}; remove it or change the layout",
                    other.word()
                )));
            }
        }
    }
    Ok(())
}

/// What all keys of `layout=native` begin with.
pub(super) fn prefix(options: &Options) -> Result<String> {
    let prefix = options.get("prefix")?.unwrap_or("leasehold:");
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
    if (1..=64).contains(&prefix.len()) && prefix.bytes().all(plain) {
        return Ok(prefix.to_owned());
    }
    Err(Error::invalid("option \"prefix\" takes 1 to 64 of a-z A-Z 0-9 . _ : -"))
}

/// `layout=string`: one key with a token in it, as `SET key token NX PX ttl` makes it.
#[derive(Clone, Debug)]
pub(super) struct StringOptions {
    pub(super) template: Template,
    pub(super) poll: Backoff,
}

impl StringOptions {
    pub(super) fn from_options(options: &Options) -> Result<Self> {
        if options.get("wake")? == Some("push") {
            return Err(Error::invalid(
                "layout=string wakes nobody: whoever else holds the key does not tell; \
                 its waiters ask again after \"poll\" to \"poll_max\"",
            ));
        }
        let first = options.duration("poll")?.unwrap_or(POLL);
        let longest = options.duration("poll_max")?.unwrap_or(POLL_MAX.max(first));
        if first.is_zero() || longest < first {
            return Err(Error::invalid("option \"poll\" is above zero and at most \"poll_max\""));
        }
        let template = Template::new(options.get("key")?.unwrap_or("{name}"))?;
        Ok(Self { template, poll: Backoff::new(first, longest) })
    }
}

/// How a name becomes a key.
#[derive(Clone, Debug)]
pub(super) struct Template(String);

impl Template {
    fn new(text: &str) -> Result<Self> {
        if text.matches("{name}").count() == 1 {
            return Ok(Self(text.into()));
        }
        Err(Error::invalid(
            "option \"key\" contains {name} once, and {namespace} if you like, \
             for example key=lock:{name}",
        ))
    }

    /// A template without `{namespace}` has the names of the default namespace
    /// as they are, and `namespace:name` for those of others.
    pub(super) fn key(&self, name: &Name) -> String {
        if !self.0.contains("{namespace}") {
            return self.0.replacen("{name}", &plain(name), 1);
        }
        let (before, after) = self.0.split_once("{name}").unwrap_or((&self.0, ""));
        let filled = |text: &str| text.replace("{namespace}", name.namespace().as_str());
        format!("{}{}{}", filled(before), name.as_str(), filled(after))
    }
}

/// A name as others know it: bare in the default namespace, else
/// `namespace:name`.
pub(super) fn plain(name: &Name) -> String {
    if *name.namespace() == Namespace::default() {
        return name.as_str().into();
    }
    format!("{}:{}", name.namespace(), name)
}

/// Which of Redisson's exclusive locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockKind {
    /// `RLock`.
    Lock,
    /// `RFairLock`.
    Fair,
    /// `RFencedLock`.
    Fenced,
    /// `RSpinLock`.
    Spin,
}

/// How waiters are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PubSub {
    /// As Redisson does: sharded in a cluster, plain elsewhere.
    Auto,
    Plain,
    Sharded,
    /// Both, for peers of either kind.
    Both,
}

impl PubSub {
    /// The command that publishes.
    pub(super) const fn command(self, cluster: bool) -> &'static str {
        match (self, cluster) {
            (Self::Both, _) => "BOTH",
            (Self::Sharded, _) | (Self::Auto, true) => "SPUBLISH",
            (Self::Plain, _) | (Self::Auto, false) => "PUBLISH",
        }
    }
}

/// `layout=redisson`: the keys, fields, channels and messages of Redisson.
#[derive(Clone, Copy, Debug)]
pub(super) struct RedissonOptions {
    pub(super) kind: LockKind,
    pub(super) pubsub: PubSub,
    pub(super) fair_wait: Duration,
    pub(super) wake: WakeBy,
}

impl RedissonOptions {
    pub(super) fn from_options(options: &Options, wake: WakeBy) -> Result<Self> {
        let kind = match options.get("kind")? {
            None | Some("lock") => LockKind::Lock,
            Some("fair") => LockKind::Fair,
            Some("fenced") => LockKind::Fenced,
            Some("spin") => LockKind::Spin,
            Some(_) => {
                return Err(Error::invalid("option \"kind\" takes lock, fair, fenced or spin"));
            }
        };
        let pubsub = match options.get("pubsub")? {
            None | Some("auto") => PubSub::Auto,
            Some("plain") => PubSub::Plain,
            Some("sharded") => PubSub::Sharded,
            Some("both") => PubSub::Both,
            Some(_) => {
                return Err(Error::invalid("option \"pubsub\" takes auto, plain, sharded or both"));
            }
        };
        let fair_wait = options.duration("fair_wait")?.unwrap_or(FAIR_WAIT);
        if fair_wait < Duration::from_secs(1) {
            return Err(Error::invalid("option \"fair_wait\" is 1s or more"));
        }
        let wake = if kind == LockKind::Spin { WakeBy::Spin } else { wake };
        Ok(Self { kind, pubsub, fair_wait, wake })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::Url;

    fn options(query: &str) -> Options {
        Url::parse(&format!("redis:?{query}")).unwrap().options
    }

    fn key(query: &str, space: &str, name: &str) -> String {
        let name = Name::new(&Namespace::new(space).unwrap(), name).unwrap();
        StringOptions::from_options(&options(query)).unwrap().template.key(&name)
    }

    #[test]
    fn a_template_makes_the_key() {
        assert_eq!(key("", "default", "a"), "a");
        assert_eq!(key("", "shop", "a"), "shop:a");
        assert_eq!(key("key=lock:{name}", "default", "a"), "lock:a");
        assert_eq!(key("key={namespace}/{{name}}", "shop", "{namespace}"), "shop/{{namespace}}");
    }

    #[test]
    fn options_that_cannot_be_meant_are_refused() {
        for bad in ["key=lock", "key={name}{name}", "poll=0ms", "poll=1s&poll_max=1ms", "wake=push"]
        {
            assert!(StringOptions::from_options(&options(bad)).is_err(), "{bad}");
        }
        for bad in ["kind=spinning", "pubsub=on", "fair_wait=1ms"] {
            let options = options(bad);
            assert!(RedissonOptions::from_options(&options, WakeBy::Push).is_err(), "{bad}");
        }
        let error = check(&options("kind=fair"), RedisLayout::String).unwrap_err().to_string();
        assert!(error.contains("layout=redisson"), "{error}");
    }
}
