//! What is measured: a table for each work, a column for each figure.

mod clients;
mod farewell;
mod held;
mod list;
mod loss;
mod names;
mod processes;
mod restart;
mod storm;
mod waiters;

use std::time::Duration;

use leasehold_testkit::contest::Checked;
use serde::{Deserialize, Serialize};

use crate::inside::Inside;

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
    Farewell,
    Processes,
    Restart,
}

/// In the order of the page.
pub(crate) const WORKS: [Work; 9] = [
    Work::Waiters,
    Work::Held,
    Work::Loss,
    Work::List,
    Work::Clients,
    Work::Names,
    Work::Farewell,
    Work::Processes,
    Work::Restart,
];

/// What there is to say of a work.
#[derive(Debug)]
struct Table {
    name: &'static str,
    /// What there are many of.
    title: &'static str,
    figures: &'static [Figure],
    note: &'static str,
    /// A row of the engines may have others.
    sizes: &'static [usize],
    quick: &'static [usize],
    /// What a first round takes at least, whatever there is to do.
    looks: fn() -> Duration,
}

/// Small sizes, for whoever cannot wait.
const QUICK: &[usize] = &[10, 100];

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
    const fn table(self) -> &'static Table {
        match self {
            Self::Waiters => &waiters::TABLE,
            Self::Held => &held::TABLE,
            Self::Loss => &loss::TABLE,
            Self::List => &list::TABLE,
            Self::Clients => &clients::TABLE,
            Self::Names => &names::TABLE,
            Self::Farewell => &farewell::TABLE,
            Self::Processes => &processes::TABLE,
            Self::Restart => &restart::TABLE,
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
            Self::Farewell => farewell::run(cell).await,
            Self::Processes => processes::run(cell).await,
            Self::Restart => restart::run(cell).await,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        self.table().name
    }

    /// What there are many of.
    pub(crate) const fn title(self) -> &'static str {
        self.table().title
    }

    pub(crate) const fn figures(self) -> &'static [Figure] {
        self.table().figures
    }

    /// How its figures come about, for whoever reads them.
    pub(crate) const fn note(self) -> &'static str {
        self.table().note
    }

    /// Which round counts for this figure; what is in no table is a cost.
    pub(crate) fn rounds(self, key: &str) -> Rounds {
        let figure = self.figures().iter().find(|figure| figure.key == key);
        figure.map_or(Rounds::Best, |figure| figure.rounds)
    }

    /// What a first round takes at least, whatever there is to do.
    pub(crate) fn looks(self) -> Duration {
        (self.table().looks)()
    }

    pub(crate) const fn sizes(self) -> &'static [usize] {
        self.table().sizes
    }

    pub(crate) const fn quick_sizes(self) -> &'static [usize] {
        self.table().quick
    }
}
