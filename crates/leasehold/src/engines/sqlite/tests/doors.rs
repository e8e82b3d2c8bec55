//! Opening and closing: clear errors that lose nothing.

use std::os::unix::fs::PermissionsExt;

use super::super::host::{FileSystem, judge, judge_fuse};
use super::*;
use crate::error::{Error, ErrorKind};

async fn refused(rig: &Rig) -> Error {
    let before = std::fs::read(rig.path()).ok();
    let error = Sqlite::open(rig.options(), rig.clock.clone().into()).await.unwrap_err();
    assert_eq!(std::fs::read(rig.path()).ok(), before, "a failed open must change nothing");
    assert!(error.to_string().contains("engine: sqlite, path: "), "{error}");
    error
}

async fn filled(rig: &Rig) {
    let engine = rig.open().await;
    for at in 0..200 {
        let one = ticket(&format!("name/{at}"));
        take(&engine, &one).await;
    }
    engine.close().await.unwrap();
}

fn edit(rig: &Rig, sql: &str) {
    rusqlite::Connection::open(rig.path()).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_alone() {
    let rig = Rig::new();
    std::fs::write(rig.path(), "my diary".repeat(100)).unwrap();
    let error = refused(&rig).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("not a lock store"), "{error}");
    assert_eq!(rig.files(), ["locks.db"]);
}

#[tokio::test]
async fn the_database_of_another_application_is_left_alone() {
    let rig = Rig::new();
    edit(&rig, "CREATE TABLE customers (id INTEGER); INSERT INTO customers VALUES (1);");
    let error = refused(&rig).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("another application"), "{error}");
    assert_eq!(rig.files(), ["locks.db"]);
}

#[tokio::test]
async fn another_layout_is_refused() {
    let rig = Rig::new();
    filled(&rig).await;
    for (layout, advice) in [(7, "update the program"), (2, "use the release that made it")] {
        edit(&rig, &format!("PRAGMA user_version = {layout}"));
        let error = refused(&rig).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&format!("layout {layout}, ")), "{error}");
        assert!(error.to_string().contains(advice), "{error}");
    }
}

#[tokio::test]
async fn a_damaged_store_is_named_as_such() {
    let rig = Rig::new();
    filled(&rig).await;
    let mut bytes = std::fs::read(rig.path()).unwrap();
    bytes[4096..].fill(0x5a);
    std::fs::write(rig.path(), bytes).unwrap();
    let error = refused(&rig).await;
    assert_eq!(error.kind(), ErrorKind::Unexpected);
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[tokio::test]
async fn a_truncated_store_is_named_as_such() {
    let rig = Rig::new();
    filled(&rig).await;
    let bytes = std::fs::read(rig.path()).unwrap();
    std::fs::write(rig.path(), &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(refused(&rig).await.kind(), ErrorKind::Unexpected);
}

#[tokio::test]
async fn a_read_only_file_or_folder_is_refused() {
    let rig = Rig::new();
    filled(&rig).await;
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&rig.path(), 0o400);
    assert_eq!(refused(&rig).await.kind(), ErrorKind::Denied);
    mode(&rig.path(), 0o600);
    mode(rig.dir.path(), 0o500);
    let error = refused(&rig).await;
    mode(rig.dir.path(), 0o700);
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("folder is read-only"), "{error}");
}

#[tokio::test]
async fn a_missing_folder_is_named_or_created() {
    let rig = Rig::new();
    let mut options = SqliteOptions::new(rig.dir.path().join("no/where/locks.db"));
    let clock = Clock::from(rig.clock.clone());
    let error = Sqlite::open(options.clone(), clock.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("no folder") && error.to_string().contains("no/where"));
    options.create_parent = true;
    let engine = Sqlite::open(options, clock).await.unwrap();
    let folder = rig.dir.path().join("no/where").metadata().unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn a_folder_is_no_store() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path()).unwrap();
    let error = Sqlite::open(rig.options(), rig.clock.clone().into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_store_is_for_its_owner_alone() {
    let rig = Rig::new();
    let engine = rig.open().await;
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(rig.path()), 0o600);
    assert_eq!(mode(rig.dir.path().join("locks.db-clients")), 0o700);
    let found = engine.examine().await.unwrap();
    assert!(found.iter().all(|finding| finding.severity == crate::engine::Severity::Note));
}

#[tokio::test]
async fn closing_leaves_no_files_and_ends_all_waits() {
    let rig = Rig::new();
    let (a, b) = (rig.open().await, rig.open().await);
    let (first, second) = (ticket("job"), ticket("job"));
    take(&a, &first).await;
    queue(&b, &second).await;
    let wait = Handle::current().spawn(b.wait(second.clone(), Moment::NEVER));
    tokio::task::yield_now().await;
    b.close().await.unwrap();
    assert!(matches!(wait.await.unwrap().unwrap(), Wake::Look));
    assert!(b.acquire(claim(&second)).await.is_err());
    give_back(&a, &first).await;
    a.close().await.unwrap();
    assert_eq!(rig.files(), ["locks.db", "locks.db-gate"]);
}

#[tokio::test]
async fn a_full_disk_is_an_error_before_the_grant() {
    let rig = Rig::new();
    let engine = rig.open().await;
    let one = ticket("before");
    take(&engine, &one).await;
    count(&engine, "PRAGMA max_page_count = 1").await;
    let mut error = None;
    for at in 0..1000 {
        let more = ticket(&format!("{at}/{}", "x".repeat(200)));
        error = engine.acquire(claim(&more)).await.err();
        if error.is_some() {
            break;
        }
    }
    let error = error.unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.effect(), crate::error::Effect::NotApplied);
    assert!(error.to_string().contains("disk is full"), "{error}");
    let answers = engine.renew(vec![Refresh::new(one.clone(), TTL)]).await;
    assert!(matches!(answers[..], [Renewal::Held { .. }]), "what was granted still stands");
    assert_eq!(give_back(&engine, &one).await, Released::Released);
}

#[tokio::test]
async fn a_long_path_is_no_obstacle() {
    let rig = Rig::new();
    let deep = rig.dir.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let options = SqliteOptions::new(deep.join("locks.db"));
    let clock = Clock::from(rig.clock.clone());
    let a = Sqlite::open(options.clone(), clock.clone()).await.unwrap();
    let b = Sqlite::open(options, clock).await.unwrap();
    let (first, second) = (ticket("job"), ticket("job"));
    take(&a, &first).await;
    queue(&b, &second).await;
    give_back(&a, &first).await;
    let wake = b.wait(second, Moment::NEVER).await.unwrap();
    assert!(matches!(wake, Wake::Granted { .. }));
}

#[test]
fn network_file_systems_are_known() {
    assert_eq!(judge(0x6969), FileSystem::Network("NFS"));
    assert_eq!(judge(0xef53), FileSystem::Local);
    assert_eq!(judge(0x794c_7630), FileSystem::Local, "overlay");
    assert_eq!(judge_fuse("fuse.sshfs"), FileSystem::Network("sshfs"));
    assert_eq!(judge_fuse("fuseblk"), FileSystem::Fuse);
}

/// The locks of the system on a store, as it lists them.
#[cfg(target_os = "linux")]
fn locks_on(rig: &Rig) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let ours = format!(":{} ", rig.path().metadata().unwrap().ino());
    let all = std::fs::read_to_string("/proc/locks").unwrap();
    all.lines().filter(|line| line.contains(&ours)).map(str::to_owned).collect()
}

/// The system takes all locks of a process on a file away when the process closes
/// the file once; SQLite knows that, and nobody else may close it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_store_that_is_opened_twice_keeps_its_locks() {
    let rig = Rig::new();
    let first = rig.open().await;
    take(&first, &ticket("x")).await;
    let before = locks_on(&rig);
    assert_eq!(before.len(), 1, "nothing is locked: {before:?}");
    let second = rig.open().await;
    assert_eq!(locks_on(&rig).len(), 1, "the second open took the lock away");
    take(&second, &ticket("y")).await;
    second.close().await.unwrap();
    assert_eq!(locks_on(&rig).len(), 1, "the second close did");
    take(&first, &ticket("z")).await;
    first.close().await.unwrap();
}

#[test]
fn a_library_that_loses_locks_is_refused_with_advice() {
    let path = std::path::Path::new("locks.db");
    open::check_library(rusqlite::version_number(), rusqlite::version(), path).unwrap();
    let error = open::check_library(3_051_002, "3.51.2", path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("SQLite 3.51.2"), "{error}");
    assert!(error.to_string().contains("link 3.51.3 or later"), "{error}");
}

#[tokio::test]
async fn a_path_may_have_any_letters() {
    let rig = Rig::new();
    for odd in ["a b", "50%", "what?x=1", "no#1", "\u{e4}"] {
        let dir = rig.dir.path().join(odd);
        std::fs::create_dir(&dir).unwrap();
        let options = SqliteOptions::new(dir.join("locks.db"));
        for _ in 0..2 {
            let clock = Clock::from(rig.clock.clone());
            let engine = Sqlite::open(options.clone(), clock).await.unwrap();
            let one = ticket("x");
            take(&engine, &one).await;
            give_back(&engine, &one).await;
            engine.close().await.unwrap();
        }
    }
}
