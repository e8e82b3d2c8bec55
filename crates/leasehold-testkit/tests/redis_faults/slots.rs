//! Slots on the move.

use leasehold_testkit::check;
use leasehold_testkit::contest::{Contest, NAMES};
use leasehold_testkit::server::{Fleet, Server, ask};

use super::{Checked, until};

/// R10: a slot moves to another server while clients contend for a name in it.
/// Those who come between are told to ask there or to try again; nobody else
/// hears of it, and no name is granted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_amid_a_contest() -> Checked {
    let mut fleet = Fleet::cluster()?;
    let contest = Contest::start(&format!("{}?retry=forever:20ms", fleet.url())).await?;
    contest.proceeds(3).await?;
    let (from, slot) = home_of(fleet.servers(), NAMES[0]).await?;
    let to = (from + 1) % 3;
    let servers = fleet.servers();
    let (source, target) = (&servers[from], &servers[to]);
    let ids = (ask(source, &["CLUSTER", "MYID"])?, ask(target, &["CLUSTER", "MYID"])?);
    ask(target, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids.0])?;
    ask(source, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids.1])?;
    // One key of several has moved: nobody can do anything until all have.
    let keys = keys_in(source, &slot)?;
    move_key(source, &keys[0], target)?;
    until("somebody shall try again", || async { was_refused(source, "TRYAGAIN") }).await?;
    for key in keys_in(source, &slot)? {
        move_key(source, &key, target)?;
    }
    until("somebody shall ask elsewhere", || async { was_refused(source, "ASK") }).await?;
    for server in [target, source] {
        ask(server, &["CLUSTER", "SETSLOT", &slot, "NODE", &ids.1])?;
    }
    contest.proceeds(5).await?;
    Ok(check::all(&contest.end().await?)?)
}

/// Which of the primaries has the name, and the slot that it is in.
async fn home_of(servers: &[Server], name: &str) -> Checked<(usize, String)> {
    let first = "return redis.call('KEYS', ARGV[1])[1] or ''";
    let pattern = format!("*:name:{name}");
    let mut found = None;
    until("somebody holds it", || {
        let keys = servers[..3].iter().map(|server| ask(server, &["EVAL", first, "0", &pattern]));
        let at = keys.enumerate().find(|(_, key)| key.as_ref().is_ok_and(|key| !key.is_empty()));
        found = at.and_then(|(at, key)| Some((at, key.ok()?)));
        let is_there = found.is_some();
        async move { Ok(is_there) }
    })
    .await?;
    let (at, key) = found.ok_or("nobody has it")?;
    Ok((at, slot_of(&servers[at], &key)?))
}

fn slot_of(server: &Server, key: &str) -> Checked<String> {
    let slot = ask(server, &["CLUSTER", "KEYSLOT", key])?;
    Ok(slot.trim_matches(|c: char| !c.is_ascii_digit()).to_owned())
}

fn was_refused(server: &Server, code: &str) -> Checked<bool> {
    Ok(ask(server, &["INFO", "errorstats"])?.contains(&format!("errorstat_{code}:")))
}

fn keys_in(server: &Server, slot: &str) -> Checked<Vec<String>> {
    let list = "return table.concat(redis.call('KEYS', '*'), '\\n')";
    let mut found = Vec::new();
    for key in ask(server, &["EVAL", list, "0"])?.lines() {
        if slot_of(server, key)? == slot {
            found.push(key.to_owned());
        }
    }
    Ok(found)
}

fn move_key(from: &Server, key: &str, to: &Server) -> Checked {
    ask(from, &["MIGRATE", "127.0.0.1", &to.port().to_string(), key, "0", "5000"])?;
    Ok(())
}
