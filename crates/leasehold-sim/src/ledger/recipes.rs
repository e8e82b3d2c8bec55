//! What recipes promise: a counter counts every update that was confirmed, and
//! work is done once.

use std::collections::BTreeMap;

use super::entry::Entry;

/// What has been counted, and what was run.
#[derive(Debug, Default)]
pub struct Tallies {
    counters: BTreeMap<String, Counted>,
    runs: BTreeMap<String, Runs>,
    /// Guards of the dead: dropping them would release them.
    graves: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    sure: u64,
    /// With an unknown outcome.
    doubtful: u64,
}

#[derive(Clone, Debug, Default)]
struct Runs {
    begun: u32,
    outcome: Option<Vec<u8>>,
}

/// One call of `once`.
#[derive(Clone, Debug)]
pub struct Run {
    /// The key.
    pub key: String,
    /// Whether a crash is never followed by another run.
    pub at_most_once: bool,
}

impl Tallies {
    pub(super) fn keep(&mut self, entry: Entry) {
        self.graves.push(entry);
    }

    /// An update may happen from now on.
    pub fn begin_count(&mut self, name: &str) {
        self.counters.entry(name.to_owned()).or_default().doubtful += 1;
    }

    /// It has happened, or certainly not.
    pub fn end_count(&mut self, name: &str, happened: bool) {
        let counted = self.counters.entry(name.to_owned()).or_default();
        counted.doubtful -= 1;
        counted.sure += u64::from(happened);
    }

    /// What has been counted.
    #[must_use]
    pub fn counters(&self) -> Vec<String> {
        self.counters.keys().cloned().collect()
    }

    /// How the number that is there differs from what was counted.
    #[must_use]
    pub fn miscounted(&self, name: &str, shows: u64) -> Option<String> {
        let Counted { sure, doubtful } = *self.counters.get(name)?;
        let right = (sure..=sure + doubtful).contains(&shows);
        let how = format!("{name}: {sure} updates and {doubtful} in doubt, it shows {shows}");
        (!right).then_some(how)
    }

    /// The work of a key begins; what is wrong with that.
    pub fn begin(&mut self, run: &Run) -> Option<String> {
        let runs = self.runs.entry(run.key.clone()).or_default();
        runs.begun += 1;
        if run.at_most_once && runs.begun > 1 {
            return Some(format!("{} is run for the {}. time", run.key, runs.begun));
        }
        let done = runs.outcome.is_some();
        done.then(|| format!("{} is run again after its outcome was recorded", run.key))
    }

    /// Nobody knows what became of a key, as somebody was told.
    #[must_use]
    pub fn forgotten(&self, key: &str) -> Option<String> {
        let told = self.runs.get(key)?.outcome.as_ref()?;
        let told = String::from_utf8_lossy(told).into_owned();
        Some(format!("{key} came to {told:?}, and then nobody knows what became of it"))
    }

    /// The outcome of a key; what is wrong with it.
    pub fn outcome(&mut self, key: &str, outcome: &[u8]) -> Option<String> {
        let runs = self.runs.entry(key.to_owned()).or_default();
        let first = runs.outcome.get_or_insert_with(|| outcome.to_vec());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let differs = first != outcome;
        differs.then(|| format!("{key} came to {:?}, then to {:?}", text(first), text(outcome)))
    }
}
