//! Stores that another release has made.

use leasehold::ErrorKind;
use leasehold_testkit::contest::Checked;
use leasehold_testkit::server::Server;
use leasehold_testkit::znodes::Znodes;

use super::store::Store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_layout_is_refused_with_what_to_do() -> Checked {
    for store in Store::BOTH {
        let server = store.start()?;
        let url = server.url();
        leasehold::open(&url).await?.mutex("n").lock().await?.release().await?;
        leasehold::open(&url).await?.mutex("n").lock().await?.release().await?;
        let advice = match store {
            Store::Zookeeper => {
                assert!(Znodes::connect(server.addr())?.set("/leasehold/layout", b"99")?);
                "deleteall /leasehold"
            }
            Store::Etcd => {
                server.tell(&["put", "leasehold/layout", "99"])?;
                "etcdctl del --prefix leasehold/"
            }
        };
        let error = leasehold::open(&url).await.expect_err("it is of another release");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(advice), "{error}");
        assert!(error.to_string().contains("99"), "{error}");
        let elsewhere = match store {
            Store::Zookeeper => "root=/elsewhere",
            Store::Etcd => "root=elsewhere",
        };
        let locks = leasehold::open(format!("{url}?{elsewhere}")).await?;
        locks.mutex("n").lock().await?.release().await?;
    }
    Ok(())
}

/// Releases without a version have left keys: their lines have no marks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_release_without_a_version_are_refused() -> Checked {
    let server = Server::etcd()?;
    server.tell(&["put", "leasehold/tombstones/1", ""])?;
    let fresh = "fresh/default/records/n";
    server.tell(&["put", "leasehold/default/records/n", "v"])?;
    let error = leasehold::open(server.url()).await.expect_err("it is of an earlier release");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("earlier release"), "{error}");
    server.tell(&["del", "--prefix", "leasehold/default/"])?;
    leasehold::open(server.url()).await?.mutex("n").lock().await?.release().await?;
    assert_eq!(server.tell(&["get", fresh])?, "");
    Ok(())
}
