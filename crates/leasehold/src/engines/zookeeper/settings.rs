//! What a ZooKeeper URL asks for.

use std::time::Duration;

use super::paths::is_path;
use super::wire::Acl;
use crate::engines::consensus::RecordFormat;
use crate::engines::kit::hosts::{ServerAddress, joined, servers};
use crate::engines::kit::tls::Files;
use crate::error::{Error, Result};
use crate::url::{Options, Url, decode};

const PORT: u16 = 2181;
/// How long a session outlives its client, unless a ttl asks for less.
const SESSION: Duration = Duration::from_secs(60);
/// How long it may take to find a server.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a request may take to be answered.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Where our own nodes are.
const ROOT: &str = "/leasehold";
/// What stands before the number in the node of a mutex.
const WORD: &str = "lock-";

/// How a name becomes a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathNames {
    /// One segment below our root, whatever the name is.
    Escaped,
    /// It is the path: for locks that other software has placed.
    Raw,
}

/// Whose nodes a candidacy has where names are raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElectionLayout {
    /// Those of Curator's `LeaderLatch`.
    Latch,
    /// Those of its `LeaderSelector`.
    Selector,
}

/// Everything that a URL says.
#[derive(Clone)]
pub(super) struct ZkSettings {
    pub(super) servers: Vec<ServerAddress>,
    /// What all paths begin with: empty, or `/` and more.
    pub(super) chroot: String,
    pub(super) root: String,
    pub(super) names: PathNames,
    pub(super) records: RecordFormat,
    pub(super) word: String,
    /// How other software elects where names are raw.
    pub(super) election: ElectionLayout,
    /// Exclusive claims take the one permit of a semaphore.
    pub(super) mutex_is_semaphore: bool,
    pub(super) session: Duration,
    /// The servers' `tickTime`, if it is not half of their shortest session.
    pub(super) tick: Option<Duration>,
    pub(super) connect: Duration,
    pub(super) timeout: Duration,
    /// `user:password`. Never shown.
    pub(super) digest: Option<String>,
    pub(super) acl: Acl,
    pub(super) tls: Option<Files>,
}

impl ZkSettings {
    pub(super) fn from_url(url: &Url) -> Result<Self> {
        let options = &url.options;
        let rest = url.raw.strip_prefix("//").ok_or_else(wrong_form)?;
        let (hosts, chroot) = rest.split_once('/').unwrap_or((rest, ""));
        let digest = digest(options)?;
        Ok(Self {
            servers: servers(hosts, PORT).ok_or_else(wrong_form)?,
            chroot: chroot_of(chroot)?,
            root: root(options)?,
            names: names(options)?,
            records: RecordFormat::of(options)?,
            word: word(options)?,
            election: election(options)?,
            mutex_is_semaphore: mutex_is_semaphore(options)?,
            session: options.duration("session")?.unwrap_or(SESSION),
            tick: options.duration("tick")?,
            connect: options.duration("connect")?.unwrap_or(CONNECT),
            timeout: options.duration("timeout")?.unwrap_or(TIMEOUT),
            acl: acl(options, digest.is_some())?,
            digest,
            tls: files(url)?,
        })
    }

    /// Where it is, without secrets.
    pub(super) fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "zookeepers" } else { "zookeeper" };
        format!("{scheme}://{}{}", joined(&self.servers), self.chroot)
    }
}

fn wrong_form() -> Error {
    Error::invalid("a ZooKeeper URL looks like zookeeper://host:2181,host2,host3/chroot")
}

fn chroot_of(text: &str) -> Result<String> {
    match decode(text.trim_end_matches('/'))? {
        none if none.is_empty() => Ok(String::new()),
        some => path("the chroot", &format!("/{some}")),
    }
}

fn root(options: &Options) -> Result<String> {
    path("option \"root\"", options.get("root")?.unwrap_or(ROOT))
}

/// A path as ZooKeeper takes it: no empty segment, no dots alone.
fn path(what: &str, text: &str) -> Result<String> {
    if is_path(text) {
        return Ok(text.to_owned());
    }
    Err(Error::invalid(format!("{what} takes a path such as /apps/locks")))
}

fn names(options: &Options) -> Result<PathNames> {
    match options.get("names")? {
        None | Some("escaped") => Ok(PathNames::Escaped),
        Some("raw") => Ok(PathNames::Raw),
        Some(_) => Err(Error::invalid("option \"names\" takes escaped or raw")),
    }
}

fn word(options: &Options) -> Result<String> {
    let word = options.get("lock")?.unwrap_or(WORD);
    let ends_in_digit = word.ends_with(|last: char| last.is_ascii_digit());
    if word.is_empty() || word.contains('/') || ends_in_digit || word.chars().any(char::is_control)
    {
        let message = "option \"lock\" takes the text before the number of a lock's node, \
                       such as lock-";
        return Err(Error::invalid(message));
    }
    Ok(word.to_owned())
}

fn election(options: &Options) -> Result<ElectionLayout> {
    let layout = match options.get("election")? {
        None => return Ok(ElectionLayout::Latch),
        Some("latch") => ElectionLayout::Latch,
        Some("selector") => ElectionLayout::Selector,
        Some(_) => return Err(Error::invalid("option \"election\" takes latch or selector")),
    };
    match names(options)? {
        PathNames::Raw => Ok(layout),
        PathNames::Escaped => Err(Error::invalid("option \"election\" is for names=raw")),
    }
}

fn mutex_is_semaphore(options: &Options) -> Result<bool> {
    match options.get("mutex")? {
        None | Some("mutex") => Ok(false),
        Some("semaphore") => Ok(true),
        Some(_) => Err(Error::invalid("option \"mutex\" takes mutex or semaphore")),
    }
}

fn digest(options: &Options) -> Result<Option<String>> {
    let Some(auth) = options.get("auth")? else { return Ok(None) };
    let login = auth.strip_prefix("digest:").filter(|login| login.contains(':'));
    let wrong = || Error::invalid("option \"auth\" takes digest:user:password");
    login.map(|login| Some(login.to_owned())).ok_or_else(wrong)
}

fn acl(options: &Options, known: bool) -> Result<Acl> {
    match options.get("acl")? {
        None | Some("open") => Ok(Acl::Open),
        Some("creator") if known => Ok(Acl::Creator),
        Some("creator") => {
            Err(Error::invalid("option \"acl\" is creator, but nobody is: add auth=digest:.."))
        }
        Some(_) => Err(Error::invalid("option \"acl\" takes open or creator")),
    }
}

fn files(url: &Url) -> Result<Option<Files>> {
    if url.scheme == "zookeepers" {
        return Files::from_options(&url.options).map(Some);
    }
    for key in Files::OPTIONS {
        if url.options.get(key)?.is_some() {
            return Err(Error::invalid(format!("option {key:?} is for zookeepers:// addresses")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Result<ZkSettings> {
        ZkSettings::from_url(&Url::parse(url).unwrap())
    }

    #[test]
    fn hosts_chroot_and_options_are_read() {
        let url = "zookeeper://a,[::1]:5,c:7/x/y?session=6s&auth=digest:u:p%26w&acl=creator";
        let it = settings(url).unwrap();
        assert_eq!(it.endpoint(), "zookeeper://a:2181,[::1]:5,c:7/x/y");
        assert_eq!((it.chroot.as_str(), it.root.as_str()), ("/x/y", "/leasehold"));
        assert_eq!((it.session, it.digest.as_deref()), (Duration::from_secs(6), Some("u:p&w")));
        assert_eq!(settings("zookeepers://a/").unwrap().chroot, "");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can() {
        for (url, said) in [
            ("zookeeper:a", "looks like"),
            ("zookeeper://", "looks like"),
            ("zookeeper://a/b//c", "the chroot"),
            ("zookeeper://a?root=x", "a path such as"),
            ("zookeeper://a?names=no", "escaped or raw"),
            ("zookeeper://a?records=no", "own or raw"),
            ("zookeeper://a?lock=a/b", "before the number"),
            ("zookeeper://a?mutex=x", "mutex or semaphore"),
            ("zookeeper://a?names=raw&election=x", "latch or selector"),
            ("zookeeper://a?election=latch", "names=raw"),
            ("zookeeper://a?auth=x", "digest:user:password"),
            ("zookeeper://a?acl=x", "open or creator"),
            ("zookeeper://a?acl=creator", "auth=digest"),
            ("zookeeper://a?ca=/x", "zookeepers://"),
            ("zookeeper://a?session=5", "500ms"),
        ] {
            let error = settings(url).err().unwrap_or_else(|| panic!("{url}"));
            assert!(error.to_string().contains(said), "{url}: {error}");
        }
    }
}
