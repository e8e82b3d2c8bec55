//! What is passed over when a line moves on, on real servers.

use super::*;
use crate::engines::database::pool::Dedicated;

/// A sweep changes names of the dead, which these tests do by hand.
async fn without_sweeps(table: &Table) {
    let never = format!("UPDATE leasehold_meta SET value = {} WHERE word = 'swept'", i64::MAX);
    table.0.pool.batch(&never).await.unwrap();
}

/// Begins to remove somebody from a line, and has not decided yet.
async fn begin_to_remove(table: &Table, waiter: &Claim) -> Dedicated {
    let mut other = table.0.pool.dedicate().await.unwrap();
    other.run("BEGIN", Vec::new()).await.unwrap();
    assert_eq!(other.run(&removal(waiter), Vec::new()).await.unwrap().affected, 1);
    other
}

fn removal(waiter: &Claim) -> String {
    let (name, lease) = (waiter.ticket.name.as_str(), columns::key(waiter.ticket.id));
    format!(
        "DELETE FROM leasehold_seats \
         WHERE namespace = 'default' AND name = '{name}' AND place = 0 AND lease = '{lease}'"
    )
}

/// It is still open, so what it has removed is not there for it.
async fn give_up(mut other: Dedicated, waiter: &Claim) {
    assert_eq!(other.run(&removal(waiter), Vec::new()).await.unwrap().affected, 0);
    other.run("ROLLBACK", Vec::new()).await.unwrap();
}

/// Behind the last row of a range InnoDB locks another one.
#[tokio::test]
async fn an_emptied_line_waits_for_nobody_who_changes_the_line_of_another_name() {
    for server in DatabaseServer::each() {
        let table = table(&format!("{}?timeout=2s", server.url())).await;
        granted(&table, claim("n2", "holder")).await;
        let theirs = queued(&table, claim("n2", "waiter")).await;
        let held = claim("n1", "holder");
        granted(&table, held.clone()).await;
        let only = queued(&table, claim("n1", "waiter")).await;
        let other = begin_to_remove(&table, &theirs).await;
        // The only one gets its turn; and another comes when it is the last one's.
        release(&table, held.ticket).await;
        assert!(is_handed(&table, &only));
        queued(&table, claim("n1", "next")).await;
        release(&table, only.ticket).await;
        give_up(other, &theirs).await;
        assert_eq!(seats(&table.0.pool).await, 1, "that of the other name");
    }
}

/// The holder has died as the last one who waits gets its turn, and another comes.
#[tokio::test]
async fn a_newcomer_behind_an_emptied_line_waits_for_no_other_name() {
    for server in DatabaseServer::each() {
        let url = format!("{}?timeout=2s&wake=poll", server.url());
        let (table, dead) = (self::table(&url).await, self::table(&url).await);
        without_sweeps(&table).await;
        granted(&table, claim("n2", "holder")).await;
        let theirs = queued(&table, claim("n2", "waiter")).await;
        granted(&dead, claim("n1", "holder")).await;
        let only = queued(&table, claim("n1", "waiter")).await;
        let late = claim("n1", "late");
        let session = table.0.session_for(&late).await.unwrap().id;
        set_end(&dead, false).await;
        let errand = Errand::to(&late.ticket.name).about(late.ticket.id).with(session);
        let mut page = table.0.load(errand).await.unwrap();
        let claim = Claim { stance: Stance::Wait { until: Moment::NEVER }, ..late };
        page.step(Verb::Acquire { claim: Box::new(claim), session });
        let other = begin_to_remove(&table, &theirs).await;
        assert!(table.0.write(&mut page, session).await.unwrap());
        give_up(other, &theirs).await;
        assert!(matches!(renewed(&table, &only).await, Renewal::Held { .. }));
        assert_eq!(seats(&table.0.pool).await, 2, "one of each name");
    }
}

/// It was dead when the line was read, so its row was not; its extension was under way.
#[tokio::test]
async fn a_waiter_that_was_extended_after_the_look_is_not_passed_over() {
    for server in DatabaseServer::each() {
        let url = format!("{}?wake=poll", server.url());
        let table = table(&url).await;
        without_sweeps(&table).await;
        for behind in [true, false] {
            let late = self::table(&url).await;
            let text = format!("n/{behind}");
            let held = claim(&text, "holder");
            granted(&table, held.clone()).await;
            // Two of those who live are served at once, and one dead stands between.
            let first = queued(&table, claim(&text, "first")).await;
            queued(&late, claim(&text, "late")).await;
            if behind {
                queued(&table, claim(&text, "last")).await;
            }
            set_end(&late, false).await;
            let errand = Errand::to(&held.ticket.name).about(held.ticket.id).to_leave();
            let mut pages = Vec::new();
            for _ in 0..2 {
                let mut page = table.0.load(errand).await.unwrap();
                for ticket in [&held.ticket, &first.ticket] {
                    page.step(Verb::Release { id: ticket.id, ending: Ending::new() });
                }
                pages.push(page);
            }
            set_end(&late, true).await;
            assert!(!table.0.write(&mut pages[0], 0).await.unwrap(), "{text}: its place was taken");
            set_end(&late, false).await;
            assert!(table.0.write(&mut pages[1], 0).await.unwrap(), "{text}: it is dead");
        }
        assert_eq!(seats(&table.0.pool).await, 0);
    }
}
