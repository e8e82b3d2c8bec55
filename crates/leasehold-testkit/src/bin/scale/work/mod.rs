//! What is measured: a table for each work, a column for each figure.

mod clients;
mod held;
mod list;
mod loss;
mod names;
mod storm;
mod waiters;

use std::time::Duration;

use leasehold_testkit::contest::Checked;
use serde::{Deserialize, Serialize};

use crate::inside::{Inside, LOOK};

/// One kind of crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Work {
    Waiters,
    Held,
    Loss,
    List,
    Clients,
    Names,
}

/// Names last: what they leave behind is in nobody's way.
pub(crate) const WORKS: [Work; 6] =
    [Work::Waiters, Work::Held, Work::Loss, Work::List, Work::Clients, Work::Names];

/// One number of a cell. Less is better, always.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// Whether it has a chart.
    pub(crate) drawn: bool,
    rounds: Rounds,
}

/// Which round counts, where there were several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounds {
    Best,
    Worst,
    /// Later ones find what the first one has left in the server.
    First,
}

const fn figure(key: &'static str, title: &'static str, unit: &'static str) -> Figure {
    Figure { key, title, unit, drawn: false, rounds: Rounds::Best }
}

const fn drawn(key: &'static str, title: &'static str, unit: &'static str) -> Figure {
    Figure { key, title, unit, drawn: true, rounds: Rounds::Best }
}

impl Figure {
    const fn of_worst(self) -> Self {
        Self { rounds: Rounds::Worst, ..self }
    }

    const fn of_first(self) -> Self {
        Self { rounds: Rounds::First, ..self }
    }
}

impl Work {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Waiters => "waiters",
            Self::Held => "held",
            Self::Loss => "loss",
            Self::List => "list",
            Self::Clients => "clients",
            Self::Names => "names",
        }
    }

    /// What there are many of.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Waiters => "waiters in the engine's line for one name (`fair()`)",
            Self::Held => "leases held at once, ttl 30 s",
            Self::Loss => "leases lost, one after the other and all at once",
            Self::List => "names and records listed by pages of 100",
            Self::Clients => "clients of one store, all in one process",
            Self::Names => "distinct names, each locked once",
        }
    }

    pub(crate) const fn figures(self) -> &'static [Figure] {
        match self {
            Self::Waiters => waiters::FIGURES,
            Self::Held => held::FIGURES,
            Self::Loss => loss::FIGURES,
            Self::List => list::FIGURES,
            Self::Clients => clients::FIGURES,
            Self::Names => names::FIGURES,
        }
    }

    /// How its figures come about, for whoever reads them.
    pub(crate) const fn note(self) -> &'static str {
        match self {
            Self::Waiters => waiters::NOTE,
            Self::Held => held::NOTE,
            Self::Loss => loss::NOTE,
            Self::List => list::NOTE,
            Self::Clients => clients::NOTE,
            Self::Names => names::NOTE,
        }
    }

    /// Which round counts for this figure; what is in no table is a cost.
    pub(crate) fn rounds(self, key: &str) -> Rounds {
        let figure = self.figures().iter().find(|figure| figure.key == key);
        figure.map_or(Rounds::Best, |figure| figure.rounds)
    }

    /// What a first round takes at least, whatever there is to do.
    pub(crate) fn looks(self) -> Duration {
        match self {
            Self::Waiters => waiters::looks(),
            Self::Held => held::looks(),
            Self::Clients => clients::IDLE,
            Self::Names => LOOK,
            Self::Loss | Self::List => Duration::ZERO,
        }
    }

    pub(crate) const fn sizes(self, quick: bool) -> &'static [usize] {
        match self {
            _ if quick => &[10, 100],
            Self::Held | Self::Names => &[1_000, 10_000, 100_000],
            Self::Clients => &[10, 100, 500],
            Self::Waiters | Self::Loss | Self::List => &[100, 1_000, 10_000],
        }
    }

    pub(crate) async fn run(self, cell: &Inside) -> Checked {
        match self {
            Self::Waiters => waiters::run(cell).await,
            Self::Held => held::run(cell).await,
            Self::Loss => loss::run(cell).await,
            Self::List => list::run(cell).await,
            Self::Clients => clients::run(cell).await,
            Self::Names => names::run(cell).await,
        }
    }
}
