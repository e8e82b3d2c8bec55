//! Which engine: the URL that was given, or SQLite in the user's state folder.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::{Effect, Error, ErrorKind, Locks};
use tokio::time::timeout;

use crate::args::Global;
use crate::failure::{Failure, UNAVAILABLE, UNSURE, USAGE};
use crate::text;

/// Longer than any engine that works takes for one answer, its retries
/// included.
const PATIENCE: Duration = Duration::from_secs(15);

/// Opens the engine that the command line or the environment names.
pub(crate) async fn open(global: &Global) -> Result<Locks, Failure> {
    let locks = open_url(&url(global)?).await?;
    match &global.namespace {
        Some(namespace) => Ok(locks.namespace(namespace.as_str())?),
        None => Ok(locks),
    }
}

/// The URL that was given, or the default.
pub(crate) fn url(global: &Global) -> Result<String, Failure> {
    let given = global.engine.as_deref().filter(|url| !url.is_empty());
    given.map_or_else(default_url, |url| Ok(url.to_owned()))
}

/// How the library says that an engine was left out when it was built.
const LEFT_OUT: &str = "is not compiled in";

/// Opens the engine that a URL names.
pub(crate) async fn open_url(url: &str) -> Result<Locks, Failure> {
    answer(async { leasehold::open(url).await.map_err(advised) }).await
}

/// An engine that this command was built without is one flag away.
fn advised(error: Error) -> Failure {
    let failure = Failure::from(error.clone());
    if error.kind() != ErrorKind::Unsupported || !error.to_string().contains(LEFT_OUT) {
        return failure;
    }
    let advice = "build the command with it, or with all engines: \
                  cargo run --features full -- .., cargo install .. --features full";
    Failure::new(failure.code, format!("{error}; {advice}"))
}

/// What the engine has to say, if it says it in time.
pub(crate) async fn answer<T>(
    asked: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
        let limit = text::span(PATIENCE);
        let advice = "check --engine, or look for a stopped process that blocks it";
        Err(Failure::new(UNAVAILABLE, format!("no answer from the engine in {limit}; {advice}")))
    })
}

/// The same, of what must not be done twice: who is not told how it ended has to
/// look before it is repeated.
pub(crate) async fn change<T>(
    asked: impl Future<Output = leasehold::Result<T>>,
) -> Result<T, Failure> {
    let done = timeout(PATIENCE, asked).await;
    let unsure = |why: String| {
        Failure::new(UNSURE, format!("{why}; it may have been done: look before you repeat it"))
    };
    match done {
        Ok(Err(error)) if error.effect() == Effect::Unknown => Err(unsure(error.to_string())),
        Ok(done) => Ok(done?),
        Err(_) => Err(unsure(format!("no answer from the engine in {}", text::span(PATIENCE)))),
    }
}

fn default_url() -> Result<String, Failure> {
    let chosen = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let folder = state_folder(chosen, std::env::home_dir())?;
    make_private(&folder)?;
    let file = folder.join("locks.db");
    let file = file.to_str().ok_or_else(|| homeless("its path is not UTF-8"))?;
    Ok(format!("sqlite:{}", percent_encoded(file)))
}

/// The XDG rules say to pass over a path that is not absolute.
fn state_folder(chosen: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let chosen = chosen.filter(|path| path.is_absolute());
    let home = home.filter(|path| path.is_absolute()).map(|home| home.join(".local/state"));
    let state = chosen.or(home).ok_or_else(|| homeless("no home folder is known"))?;
    Ok(state.join("leasehold"))
}

fn homeless(why: &str) -> Failure {
    Failure::usage(format!(
        "cannot choose a place for locks: {why}; set HOME or XDG_STATE_HOME, \
         or name an engine: --engine sqlite:/path/to/locks.db"
    ))
}

fn make_private(folder: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let owner = made.and_then(|()| folder.metadata()).map(|found| found.uid());
    let cannot = |why: String| {
        let advice = "name another place: --engine sqlite:/path/to/locks.db";
        Failure::new(USAGE, format!("cannot keep locks in {folder:?}: {why}; {advice}"))
    };
    match owner {
        Ok(uid) if uid == rustix::process::geteuid().as_raw() => Ok(()),
        // Files of ours there would lock its owner out of their own locks.
        Ok(uid) => Err(cannot(format!("it belongs to another user (uid {uid})"))),
        Err(cause) => Err(cannot(cause.to_string())),
    }
}

fn percent_encoded(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-~".contains(&b);
    let encode = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    path.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_kept_in_the_state_folder() {
        let some = |path: &str| Some(PathBuf::from(path));
        let folder = |chosen, home| state_folder(chosen, home).unwrap();
        assert_eq!(folder(some("/state"), some("/home/a")), PathBuf::from("/state/leasehold"));
        let usual = PathBuf::from("/home/a/.local/state/leasehold");
        assert_eq!(folder(None, some("/home/a")), usual);
        assert_eq!(folder(some("relative"), some("/home/a")), usual);
        assert!(state_folder(None, some("")).is_err() && state_folder(None, None).is_err());
    }

    #[test]
    fn an_engine_that_was_left_out_is_a_flag_away() {
        let told =
            |why: &str| advised(Error::new(ErrorKind::Unsupported, why)).message().to_owned();
        assert!(told("the etcd engine is not compiled in; ..").contains("--features full"));
        assert!(!told("the server is too old").contains("--features"));
    }

    #[tokio::test]
    async fn a_change_that_may_have_been_made_is_no_plain_failure() {
        let error = Error::new(ErrorKind::Unavailable, "no answer");
        let told = async |error: Error| change(async { Err::<(), _>(error) }).await.unwrap_err();
        let unsure = told(error.clone().unknown()).await;
        assert_eq!(unsure.code, UNSURE);
        assert!(unsure.message().contains("look before you repeat it"));
        assert_eq!(told(error).await.code, UNAVAILABLE);
    }

    #[test]
    fn odd_paths_survive_in_a_url() {
        assert_eq!(percent_encoded("/home/a b?/ü%.db"), "/home/a%20b%3F/%C3%BC%25.db");
    }
}
