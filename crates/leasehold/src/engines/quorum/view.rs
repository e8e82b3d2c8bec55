//! The view of operators: what most nodes agree on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::bid::family;
use super::client::QuorumClient;
use super::node::NodeMark;
use crate::claim::{LeaseId, Ticket};
use crate::engine::{
    Event, Evicted, Eviction, Finding, Held, Listing, Selector, Severity, Status, Target,
};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;

/// How long an operator waits for a node.
const PATIENCE: Duration = Duration::from_secs(2);

/// One lease, as the nodes that have it show it: a bid, so that rounds of one
/// ticket are not taken for a majority together.
struct Sighting {
    mark: NodeMark,
    numbers: Vec<u64>,
}

impl Sighting {
    /// The number that a majority has.
    fn fence(&self, majority: usize) -> Option<u64> {
        let sharing = |number: u64| self.numbers.iter().filter(|it| **it == number).count();
        self.numbers.iter().copied().find(|number| sharing(*number) >= majority)
    }
}

pub(super) async fn inspect(client: Arc<QuorumClient>, selector: Selector) -> Result<Listing> {
    let Selector::Name(name) = selector else {
        let text = "the nodes have no index of their names; ask for one name";
        return Err(Error::new(ErrorKind::Unsupported, text));
    };
    let majority = client.table.majority();
    let seen = sightings(&client, &name).await?;
    let mut status = Status::new(name);
    let holders = seen.values().filter(|it| it.numbers.len() >= majority);
    status.holders = holders.map(|it| it.mark.held(it.fence(majority))).collect();
    status.holders.sort_by_key(|held| std::cmp::Reverse(held.held_for));
    let names = if status.is_busy() { vec![status] } else { Vec::new() };
    Ok(Listing::new(names, false))
}

/// Every lease that some node has.
async fn sightings(client: &Arc<QuorumClient>, name: &Name) -> Result<BTreeMap<LeaseId, Sighting>> {
    let until = client.table.clock.now().after(PATIENCE);
    let mut answers = client.table.ask(|node| node.look(name.clone()), until);
    let (mut seen, mut errors, mut answered) = (BTreeMap::new(), Vec::new(), 0);
    let mut heard = 0;
    while let Some((node, answer)) = answers.next().await {
        heard |= 1 << node;
        match answer {
            Ok(marks) => {
                answered += 1;
                marks.into_iter().for_each(|mark| note(&mut seen, mark));
            }
            Err(error) => errors.push(error),
        }
    }
    if answered < client.table.majority() {
        return Err(client.table.too_few(answered, heard, &errors));
    }
    Ok(seen)
}

fn note(seen: &mut BTreeMap<LeaseId, Sighting>, mark: NodeMark) {
    let number = mark.number;
    let new = || Sighting { mark: mark.clone(), numbers: Vec::new() };
    seen.entry(mark.id).or_insert_with(new).numbers.push(number);
}

/// Takes leases away from all nodes.
pub(super) async fn evict(client: Arc<QuorumClient>, eviction: Eviction) -> Result<Evicted> {
    let majority = client.table.majority();
    let mut leases: Vec<Held> = Vec::new();
    for (id, seen) in sightings(&client, &eviction.name).await? {
        let fence = seen.fence(majority);
        let hit = match eviction.target {
            Target::Fence(wanted) => fence == Some(wanted),
            Target::Lease(wanted) => family(id) == family(wanted),
            Target::All => true,
        };
        if hit {
            remove(&client, &eviction, id, &seen.mark).await?;
            // What only a few nodes had was nobody's lease.
            leases.extend((seen.numbers.len() >= majority).then(|| seen.mark.held(fence)));
        }
    }
    Ok(Evicted::new(leases))
}

/// The id is that of a bid; who holds it here knows it by its ticket.
async fn remove(
    client: &Arc<QuorumClient>,
    eviction: &Eviction,
    id: LeaseId,
    mark: &NodeMark,
) -> Result<()> {
    let bid = Ticket { id, name: eviction.name.clone(), mode: mark.mode };
    let ours = client.leases.ticket_of(id);
    ours.and_then(|ticket| client.leases.end(ticket));
    super::upkeep::remove(client, bid, Duration::MAX).await?;
    if let Some(ticket) = ours {
        client.table.bus.publish(&Event::TicketLost(ticket, eviction.loss()));
    }
    Ok(())
}

pub(super) async fn examine(client: Arc<QuorumClient>) -> Result<Vec<Finding>> {
    let until = client.table.clock.now().after(PATIENCE);
    let mut answers = client.table.ask(|node| node.examine(), until);
    let mut findings = Vec::new();
    let mut silent: Vec<usize> = (0..client.table.size()).collect();
    while let Some((node, answer)) = answers.next().await {
        let endpoint = &client.table.slots[node].endpoint;
        if let Ok(found) = answer {
            silent.retain(|other| *other != node);
            findings.extend(found.into_iter().map(|it| at(endpoint, it)));
        }
    }
    let left = client.table.size() - silent.len();
    findings.extend(silent.into_iter().map(|node| away(&client, node, left)));
    Ok(findings)
}

fn at(endpoint: &str, finding: Finding) -> Finding {
    Finding::new(finding.severity, format!("{endpoint}: {}", finding.message), finding.advice)
}

fn away(client: &QuorumClient, node: usize, left: usize) -> Finding {
    let (size, majority) = (client.table.size(), client.table.majority());
    let severity = if left < majority { Severity::Danger } else { Severity::Warning };
    Finding::new(
        severity,
        format!("{} does not answer; {left} of {size} nodes do", client.table.slots[node].endpoint),
        format!("bring it back: without {majority} nodes nothing is granted or renewed"),
    )
}
