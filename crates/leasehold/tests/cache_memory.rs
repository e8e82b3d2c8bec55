//! How much a cache takes beside its values. Alone in its process: it looks at all that
//! the process has.

#![cfg(all(feature = "records", feature = "sqlite", target_os = "linux"))]
#![allow(clippy::print_stdout, reason = "the figure, for whoever asks")]

const RECORDS: u64 = 20_000;
/// What it may take for each record.
const MOST: u64 = 300;

/// Anonymous memory of this process, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    kilobytes * 1024
}

#[tokio::test]
async fn a_record_takes_less_than_three_hundred_bytes_beside_its_value() {
    // Not in memory, where the engine and the cache would share the names.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("locks.db");
    let locks = leasehold::open(format!("sqlite:{}", file.display())).await.expect("a file");
    for at in 0..RECORDS {
        locks.record(format!("setting/{at:08}")).set(&at).await.expect("a write");
    }
    let made = || locks.cache::<u64>("setting").max_bytes(usize::MAX).start();
    // What a list leaves behind is there before.
    let first = made().await.expect("a cache");
    let before = memory();
    let caches = [made().await.expect("a cache"), made().await.expect("a cache")];
    let each = (memory() - before) / (2 * RECORDS);
    println!("{each} bytes for each record, of which 8 are its value and 16 its name");
    assert!(caches.iter().chain([&first]).all(|cache| cache.len() as u64 == RECORDS));
    assert!(each < MOST, "{each} bytes for each record");
}
