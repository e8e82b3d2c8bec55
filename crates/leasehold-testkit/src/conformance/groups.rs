//! Groups: who is here, and who has gone.

use std::collections::BTreeSet;

use leasehold::engine::{Eviction, Page, Target};
use leasehold::{ErrorKind, Group, GroupEvent, GroupWatch, Locks, Member, MembershipState};
use tokio::time::timeout;

use super::check::{Check, Outcome, check, ensure};
use super::patience::{HOUR, PATIENCE, eventually};
use super::recipe::Client;
use super::store::Store;
use crate::faulty_records::BadLuck;
use crate::sweep::Sweep;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(an_engine_has_groups_or_says_why_not),
        check!(who_joins_is_seen_until_it_leaves),
        check!(an_id_is_given_to_one_at_a_time),
        check!(members_go_with_their_client),
        check!(a_watch_tells_who_is_here_and_then_who_comes_and_goes),
        check!(what_a_member_says_can_change),
        check!(memberships_of_one_client_share_one_lease).of_known_leases(),
        check!(who_was_away_joins_again).of_known_leases(),
        check!(a_join_whose_reply_is_lost_is_one_membership),
        check!(a_join_dropped_at_any_point_leaves_nothing),
    ]
}

/// A client of an engine with records, or there is nothing to check.
macro_rules! client {
    ($store:expr) => {{
        let client = $store.open().await?;
        if client.engine().records().is_none() {
            return Ok(());
        }
        client
    }};
}

async fn an_engine_has_groups_or_says_why_not(store: Store) -> Outcome {
    let locks = store.open().await?;
    let has = locks.engine().records().is_some();
    match locks.group("g").ttl(HOUR).join("a", "").await {
        Ok(_) => ensure!(has, "a member that nobody sees"),
        Err(error) => ensure!(!has && error.kind() == ErrorKind::Unsupported, "{error:?}"),
    }
    if has {
        for id in ["", "a/b"] {
            let error = locks.group("g").join(id, "").await.err().ok_or("a bad id")?;
            ensure!(error.kind() == ErrorKind::Invalid, "{error:?}");
        }
    }
    Ok(())
}

async fn ids(group: &Group) -> Outcome<Vec<String>> {
    Ok(group.members().await?.iter().map(|member| member.id.to_string()).collect())
}

async fn becomes(group: &Group, wanted: &[&str]) -> Outcome {
    eventually(&format!("members {wanted:?}"), || async { Ok(ids(group).await? == wanted) }).await
}

async fn who_joins_is_seen_until_it_leaves(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let (near, far) = (ours.group("g").ttl(HOUR).label("a host"), theirs.group("g"));
    let one = near.join("one", "10.0.0.1").await?;
    let two = near.join("two", "10.0.0.2").await?;
    // Neither a child of a member nor another group is in it.
    let _other = ours.group("gg").ttl(HOUR).join("three", "").await?;
    let members = far.members().await?;
    let seen = |it: &Member| format!("{} {} {}", it.id, it.payload, it.label);
    let seen: Vec<String> = members.iter().map(seen).collect();
    ensure!(seen == ["one 10.0.0.1 a host", "two 10.0.0.2 a host"], "{seen:?}");
    ensure!(one.leave().await?, "others saw it leave");
    ensure!(ids(&far).await? == ["two"], "it is still seen");
    drop(two);
    becomes(&far, &[]).await
}

async fn an_id_is_given_to_one_at_a_time(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let first = ours.group("g").ttl(HOUR).label("the first").join("one", "").await?;
    for group in [ours.group("g").ttl(HOUR), theirs.group("g").ttl(HOUR)] {
        let error = group.join("one", "").await.err().ok_or("an id was given twice")?;
        let text = error.to_string();
        ensure!(error.kind() == ErrorKind::Invalid && text.contains("the first"), "{error:?}");
    }
    first.leave().await?;
    let second = theirs.group("g").ttl(HOUR).join("one", "").await?;
    ensure!(ids(&ours.group("g")).await? == ["one"], "it is not seen");
    ensure!(second.leave().await?, "others saw it leave");
    Ok(())
}

async fn members_go_with_their_client(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let one = ours.group("g").ttl(HOUR).join("one", "").await?;
    let _two = theirs.group("g").ttl(HOUR).join("two", "").await?;
    becomes(&theirs.group("g"), &["one", "two"]).await?;
    tokio::task::spawn_blocking(move || drop((one, ours))).await?;
    becomes(&theirs.group("g"), &["two"]).await
}

async fn next(watch: &mut GroupWatch) -> Outcome<GroupEvent> {
    let event = timeout(PATIENCE, watch.next()).await.map_err(|_| "nothing is told")?;
    Ok(event.ok_or("the locks are open")?)
}

/// What is told of members, without what is told of the watch itself.
async fn news(watch: &mut GroupWatch) -> Outcome<(char, String, String)> {
    loop {
        let told = |sign, it: Member| (sign, it.id.to_string(), it.payload.to_string());
        match next(watch).await? {
            GroupEvent::Joined(member) => return Ok(told('+', member)),
            GroupEvent::Left(member) => return Ok(told('-', member)),
            GroupEvent::Changed(member) => return Ok(told('=', member)),
            _ => {}
        }
    }
}

async fn expects(watch: &mut GroupWatch, wanted: (char, &str, &str)) -> Outcome {
    let (sign, id, payload) = news(watch).await?;
    ensure!((sign, &*id, &*payload) == wanted, "{sign} {id} {payload}, not {wanted:?}");
    Ok(())
}

async fn a_watch_tells_who_is_here_and_then_who_comes_and_goes(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let group = ours.group("g").ttl(HOUR);
    let _first = group.join("first", "x").await?;
    let mut watch = theirs.group("g").watch().await?;
    ensure!(watch.members().len() == 1, "{:?}", watch.members());
    expects(&mut watch, ('+', "first", "x")).await?;
    for round in 0..5 {
        let payload = round.to_string();
        let second = group.join("second", &payload).await?;
        expects(&mut watch, ('+', "second", &payload)).await?;
        second.leave().await?;
        expects(&mut watch, ('-', "second", &payload)).await?;
    }
    let known: BTreeSet<_> = watch.members().into_iter().map(|it| it.id.to_string()).collect();
    ensure!(known == BTreeSet::from(["first".to_owned()]), "{known:?}");
    Ok(())
}

async fn what_a_member_says_can_change(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let mut watch = theirs.group("g").watch().await?;
    let member = ours.group("g").ttl(HOUR).join("one", "starting").await?;
    expects(&mut watch, ('+', "one", "starting")).await?;
    member.set("ready").await?;
    expects(&mut watch, ('=', "one", "ready")).await?;
    member.leave().await?;
    expects(&mut watch, ('-', "one", "ready")).await
}

/// The leases that stand for clients.
async fn presences(locks: &Locks) -> Outcome<Vec<String>> {
    let found = locks.list("!presence/", Page::default()).await?;
    let busy = found.names.iter().filter(|status| status.is_busy());
    Ok(busy.map(|status| status.name.as_str().to_owned()).collect())
}

async fn memberships_of_one_client_share_one_lease(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let mut members = Vec::new();
    for number in 0..20 {
        members.push(ours.group(format!("g{number}")).ttl(HOUR).join("me", "").await?);
    }
    ensure!(presences(&theirs).await?.len() == 1, "{:?}", presences(&theirs).await?);
    for member in members {
        member.leave().await?;
    }
    eventually("no lease", || async { Ok(presences(&theirs).await?.is_empty()) }).await
}

async fn evict_presences(locks: &Client) -> Outcome {
    for name in presences(locks).await? {
        let all = Eviction::new(locks.name(&name)?, Target::All, "ann", "a test")?;
        locks.evict(all).await?;
    }
    Ok(())
}

async fn who_was_away_joins_again(store: Store) -> Outcome {
    let (ours, theirs) = (client!(store), store.open().await?);
    let mut watch = theirs.group("g").watch().await?;
    let mut member = ours.group("g").ttl(HOUR).join("one", "x").await?;
    expects(&mut watch, ('+', "one", "x")).await?;
    evict_presences(&theirs).await?;
    expects(&mut watch, ('-', "one", "x")).await?;
    expects(&mut watch, ('+', "one", "x")).await?;
    while !matches!(member.state(), MembershipState::Here) {
        timeout(PATIENCE, member.changed()).await?;
    }
    ensure!(member.leave().await?, "it was not here");
    becomes(&theirs.group("g"), &[]).await
}

async fn a_join_whose_reply_is_lost_is_one_membership(store: Store) -> Outcome {
    client!(store);
    let luck = BadLuck::default();
    let (ours, theirs) = store.open_twisted(luck.clone()).await?;
    luck.lose(2);
    let member = ours.group("g").ttl(HOUR).join("one", "x").await?;
    ensure!(luck.losses() == 2, "only {} were lost", luck.losses());
    becomes(&theirs.group("g"), &["one"]).await?;
    luck.lose(2);
    member.set("y").await?;
    luck.lose(1);
    member.leave().await?;
    ensure!(luck.losses() == 5, "only {} were lost", luck.losses());
    becomes(&theirs.group("g"), &[]).await
}

async fn a_join_dropped_at_any_point_leaves_nothing(store: Store) -> Outcome {
    let (ours, other) = (client!(store), store.open().await?);
    let swept = tokio::task::spawn_blocking(move || {
        let make = || {
            let group = ours.group("g").ttl(HOUR);
            async move { group.join("one", "").await.map(drop) }
        };
        let verify = async |_| becomes(&other.group("g"), &[]).await.map_err(|why| why.to_string());
        Sweep::default().run(make, verify)
    });
    match swept.await? {
        // An engine without I/O answers at once.
        Ok(_) | Err(crate::sweep::Failure::NothingToCancel) => Ok(()),
        Err(failure) => Err(failure.into()),
    }
}
