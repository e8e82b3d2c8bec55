//! Deployments of several servers: sentinels, clusters, and who takes over.

use crate::redis::View;
use crate::world::World;

impl World {
    /// These nodes are the primaries of a cluster; the others stand by.
    pub fn form_cluster(&self, primaries: &[usize]) {
        let view = View::of(primaries);
        self.with(|inner, _| {
            for (number, node) in inner.nodes.iter_mut().enumerate() {
                node.join(view.clone());
                node.set_replica(!primaries.contains(&number));
            }
        });
    }

    /// This node is a sentinel, and sees the primary there.
    pub fn make_sentinel(&self, sentinel: usize, primary: usize) {
        self.with(|inner, _| inner.nodes[sentinel].see_primary(primary));
    }

    /// This node follows a primary.
    pub fn make_replica(&self, node: usize) {
        self.with(|inner, _| inner.nodes[node].set_replica(true));
    }

    /// A replica that has everything takes over; the old primary follows it.
    /// Sentinels and the nodes of a cluster know at once.
    pub fn fail_over(&self, from: usize, to: usize) {
        self.with(|inner, now| {
            let keys = inner.nodes[from].step_down();
            inner.nodes[to].take_over(keys);
            for node in &mut inner.nodes {
                node.hear_of_failover(from, to);
                node.see_new_primary(from, to);
            }
            let told = inner.nodes[from].dismiss(|_| true);
            inner.tell(told, now);
            inner.net.bite("failover");
        });
    }

    /// The keys of a slot begin to go to another node: those that are not there
    /// yet are asked for at the other.
    pub fn begin_move(&self, slot: u16, to: usize) {
        self.with(|inner, _| {
            inner.nodes.iter_mut().for_each(|node| node.hear_of_move(slot, to));
            inner.net.bite("slot begins to move");
        });
    }

    /// All keys of a slot are at the other node.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        self.with(|inner, now| {
            let keys = inner.nodes[from].part_with(slot);
            inner.nodes[to].receive(keys);
            inner.nodes.iter_mut().for_each(|node| node.hear_of_arrival(slot, to));
            let told = inner.nodes[from].dismiss(|lost| lost == slot);
            inner.tell(told, now);
            inner.net.bite("slot moved");
        });
    }
}
