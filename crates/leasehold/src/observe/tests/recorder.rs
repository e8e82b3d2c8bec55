//! A recorder that keeps a book.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

#[derive(Default)]
pub(super) struct Book {
    cells: Mutex<Vec<(Key, Arc<Cell>)>>,
    described: Mutex<BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct Cell(Mutex<Vec<f64>>);

impl Cell {
    fn add(&self, by: f64) {
        let mut values = self.0.lock().unwrap();
        let sum = values.pop().unwrap_or_default() + by;
        values.push(sum);
    }

    fn values(&self) -> Vec<f64> {
        self.0.lock().unwrap().clone()
    }
}

impl Book {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let cell = Arc::new(Cell::default());
        self.cells.lock().unwrap().push((key.clone(), Arc::clone(&cell)));
        cell
    }

    fn of(&self, name: &str, fits: impl Fn(&Key) -> bool) -> Vec<f64> {
        let cells = self.cells.lock().unwrap();
        let found = cells.iter().filter(|(key, _)| key.name() == name && fits(key));
        found.flat_map(|(_, cell)| cell.values()).collect()
    }

    pub(super) fn values(&self, name: &str) -> Vec<f64> {
        self.of(name, |_| true)
    }

    pub(super) fn gauge(&self, name: &str) -> f64 {
        self.values(name).iter().sum()
    }

    pub(super) fn gauge_where(&self, name: &str, label: &str, is: &str) -> f64 {
        let has = |key: &Key| key.labels().any(|at| at.key() == label && at.value() == is);
        self.of(name, has).iter().sum()
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        self.gauge(name) as u64
    }

    pub(super) fn count_where(&self, name: &str, label: &str, is: &str) -> u64 {
        self.gauge_where(name, label, is) as u64
    }

    /// The labels of each series of this name.
    pub(super) fn labels(&self, name: &str) -> Vec<Vec<(String, String)>> {
        let cells = self.cells.lock().unwrap();
        let of = |key: &Key| {
            key.labels().map(|at| (at.key().to_owned(), at.value().to_owned())).collect()
        };
        cells.iter().filter(|(key, _)| key.name() == name).map(|(key, _)| of(key)).collect()
    }

    pub(super) fn label_keys(&self) -> BTreeSet<String> {
        let cells = self.cells.lock().unwrap();
        cells.iter().flat_map(|(key, _)| key.labels()).map(|at| at.key().to_owned()).collect()
    }

    pub(super) fn registered(&self) -> BTreeSet<String> {
        self.cells.lock().unwrap().iter().map(|(key, _)| key.name().to_owned()).collect()
    }

    pub(super) fn described(&self) -> BTreeSet<String> {
        self.described.lock().unwrap().clone()
    }

    fn describe(&self, key: &KeyName) {
        self.described.lock().unwrap().insert(key.as_str().to_owned());
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.cells.lock().unwrap();
        let rows: BTreeMap<_, _> = cells.iter().map(|(key, cell)| (key, cell.values())).collect();
        rows.fmt(f)
    }
}

impl Recorder for Book {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("counters are only ever incremented");
    }
}

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _: f64) {
        unreachable!("several clients share a gauge");
    }
}

impl HistogramFn for Cell {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}
