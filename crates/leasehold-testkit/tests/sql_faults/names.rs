//! Y6: what a collation takes for one name is many.

use super::{Checked, Database, LONG};

#[tokio::test]
async fn names_that_a_collation_folds_are_different_locks() -> Checked {
    for db in Database::both()? {
        let folded = db.pick("0", "SELECT 'a' = 'A' AND 'a' = 'a ' AND 'a' = 'á'");
        assert!(folded == "0" || db.number(folded)? == 1, "the server folds nothing");
        let (one, two) =
            (leasehold::open(db.server.url()).await?, leasehold::open(db.server.url()).await?);
        let names = ["a", "A", "a ", "á", "a\u{301}", "ａ"];
        let mut held = Vec::new();
        for name in names {
            let guard = one.mutex(name).ttl(LONG).try_lock().await?;
            held.push(guard.ok_or_else(|| format!("{name:?} is taken for another"))?);
        }
        for name in names {
            assert!(two.mutex(name).try_lock().await?.is_none(), "{name:?}");
        }
    }
    Ok(())
}
