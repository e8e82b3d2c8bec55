//! Spans that no server can count with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::claim::{Claim, Refresh, Renewal, SPAN_MAX, Ticket, Verdict};
use leasehold::once::Fingerprint;
use leasehold::{ErrorKind, Mode, Owner};
use leasehold_testkit::server::Server;

use super::{BOUND, Checked, LONG, calls};

/// R20: no lease is longer than the longest, however it is extended.
#[tokio::test]
async fn an_extension_beyond_the_longest_ttl_is_cut_or_refused() -> Checked {
    let server = Server::redis()?;
    for layout in ["native", "string", "redisson"] {
        let locks = leasehold::open(format!("{}?layout={layout}", server.url())).await?;
        let (engine, longest) = (locks.engine(), locks.profile().limits.ttl_max);
        let ticket = Ticket::new(locks.name(layout)?, Mode::Exclusive);
        let claim = Claim::new(ticket.clone(), Owner::new("me"), LONG);
        assert!(matches!(engine.acquire(claim).await?, Verdict::Granted(_)));
        for span in [2 * longest, Duration::MAX] {
            match &engine.renew(vec![Refresh::new(ticket.clone(), span)]).await[..] {
                [Renewal::Held { ttl, .. }] => assert!(*ttl <= longest, "{layout}: {ttl:?}"),
                [Renewal::Unknown(error)] => assert_eq!(error.kind(), ErrorKind::Invalid),
                other => panic!("{layout}: {other:?}"),
            }
        }
    }
    Ok(())
}

/// R20: what is kept for ever is kept, and what closes a name for ever is no
/// reason for the server to refuse.
#[tokio::test]
async fn for_ever_is_a_time_like_any_other() -> Checked {
    let server = Server::redis()?;
    let locks = leasehold::open(server.url()).await?;
    let (once, ran) = (locks.once("pay").keep(Duration::MAX), Arc::new(AtomicU32::new(0)));
    let before = calls(&server).unwrap_or(0);
    for _ in 0..3 {
        let ran = Arc::clone(&ran);
        let work = move |_| async move {
            ran.fetch_add(1, Ordering::SeqCst);
            Ok::<_, String>("paid")
        };
        once.run("key", Fingerprint::none(), work).await?;
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert!(calls(&server)? - before <= 10, "something is asked for again and again");
    let endless = locks.mutex("n").lock_delay(Duration::MAX).try_lock().await;
    assert_eq!(endless.err().map(|error| error.kind()), Some(ErrorKind::Invalid));
    let closing = locks.mutex("n").lock_delay(SPAN_MAX).lock().within(BOUND).await?;
    closing.release().await?;
    locks.mutex("n").hold_at_least(SPAN_MAX).lock().within(BOUND).await?.release().await?;
    assert!(locks.mutex("n").try_lock().await?.is_none(), "it is closed for ever");
    Ok(())
}
