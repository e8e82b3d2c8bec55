//! A canary for a password: it is in every URL that cannot be opened, and must
//! not come out again.

use std::error::Error as _;

use leasehold::{Error, Locks, open};

const CANARY: &str = "c4n4ry-s3cret";

/// All that an error tells, to people and to logs.
fn told(error: &Error) -> String {
    let mut told = format!("{error}\n{error:?}\n{error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        told += &format!("\n{cause}\n{cause:?}");
        source = cause.source();
    }
    told
}

fn silent(told: &str, url: &str) {
    let loud = told.contains(CANARY);
    assert!(!loud, "the password of {url} is in:\n{told}");
}

async fn fails_in_silence(url: &str) {
    silent(&format!("{:?} {:#?}", open(url), open(url)), url);
    let Err(error) = open(url).await else { panic!("{url} can be opened") };
    silent(&told(&error), url);
}

/// Every way to be wrong, with `{}` where the password stands. Names of options
/// and namespaces are no secrets: an error repeats those that are wrong.
const WRONG: [&str; 23] = [
    // Schemes that do not exist, or not yet; no scheme at all.
    "nosuch://user:{}@host/db",
    "redis://user:{}@127.0.0.1:1/",
    "postgres://user:{}@127.0.0.1:1/db?sslmode=never",
    "{}",
    "{}:",
    "://user:{}@host",
    "user:{}@host/db",
    "",
    // Options.
    "memory:?password={}",
    "memory:?namespace=a&namespace={}",
    "memory:?retry={}",
    "memory:?retry=times:{},1s",
    "memory:?retry=once:{}",
    "sqlite:/tmp/x.db?busy={}",
    "sqlite:/tmp/x.db?poll={}",
    "sqlite:/tmp/x.db?create_parent={}",
    "sqlite:/tmp/x.db?token={}&busy=5s",
    // Paths and escapes.
    "memory://user:{}@host",
    "memory:{}",
    "memory:%zz{}",
    "memory:?a=%ff{}",
    "sqlite:?password={}",
    "sqlite:%ff{}",
];

#[tokio::test]
async fn no_url_that_is_wrong_gives_its_password_away() {
    for url in WRONG {
        fails_in_silence(&url.replace("{}", CANARY)).await;
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_gives_no_userinfo_away() {
    for url in [
        "sqlite://user:{}@host/no/such/folder/x.db",
        "sqlite://user:{}@host",
        "sqlite://{}@/no/such/folder/x.db?create_parent=true",
        "sqlite:///no/such/folder/x.db?namespace={}",
        "sqlite:/no/such/folder/x.db?retry=none&password={}",
        "sqlite:/?namespace={}",
        "sqlite:/dev/null/x.db?namespace={}",
    ] {
        fails_in_silence(&url.replace("{}", CANARY)).await;
    }
}

/// What opens does not repeat its options either, but for the namespace, which
/// is no secret.
#[tokio::test]
async fn what_is_open_does_not_repeat_its_url() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let url = format!("sqlite:{}?retry=once:1234567ms&busy=7654321ms", path.display());
    let locks: Locks = open(&url).await.unwrap();
    let told = format!("{locks:?} {:?} {:?}", locks.mutex("n"), locks.profile());
    assert!(!told.contains(&url), "{told}");
}

/// A lease id is a secret too.
#[tokio::test]
async fn no_lease_id_is_shown() {
    use leasehold::Mode;
    use leasehold::claim::Ticket;
    let locks = Locks::memory();
    let ticket = Ticket::new(locks.name("n").unwrap(), Mode::Exclusive);
    let (told, bits) = (format!("{ticket:?} {ticket:#?}"), ticket.id.to_bits());
    assert!(!told.contains(&bits.to_string()) && !told.contains(&format!("{bits:x}")), "{told}");
}
