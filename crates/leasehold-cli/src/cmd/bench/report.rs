//! The result: a table for people, JSON for programs.

use leasehold::Profile;
use serde::{Serialize, Serializer};

use super::measure::Measure;
use super::work::Work;
use crate::table::table;
use crate::text::{self, brief, message, micros};

const COLUMNS: [&str; 10] =
    ["WORK", "ENGINE", "TIMES", "P50", "P90", "P99", "P99.9", "MAX", "PER SECOND", "RATIO"];
const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// What `--json` shows. Field names are a promise: add, never change.
#[derive(Serialize)]
pub(crate) struct Report {
    tasks: u32,
    #[serde(serialize_with = "compared")]
    engines: Vec<Measured>,
}

struct Measured {
    engine: &'static str,
    endpoint: String,
    results: Vec<Measure>,
}

#[derive(Serialize)]
struct EngineJson<'a> {
    engine: &'static str,
    endpoint: &'a str,
    results: Vec<ResultJson>,
}

#[derive(Serialize)]
struct ResultJson {
    work: &'static str,
    pairs: u64,
    seconds: f64,
    per_second: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    ratio: Option<f64>,
}

fn compared<'a, S: Serializer>(engines: &'a [Measured], to: S) -> Result<S::Ok, S::Error> {
    let result = |measure: &Measure| result(measure, ratio(engines, measure));
    let engine = |it: &'a Measured| {
        let results = it.results.iter().map(result).collect();
        EngineJson { engine: it.engine, endpoint: &it.endpoint, results }
    };
    to.collect_seq(engines.iter().map(engine))
}

fn result(measure: &Measure, ratio: Option<f64>) -> ResultJson {
    let [p50_us, p90_us, p99_us, p999_us] = SHARES.map(|it| micros(measure.times.quantile(it)));
    ResultJson {
        work: measure.work.key(),
        pairs: measure.times.count(),
        seconds: micros(measure.elapsed) / 1e6,
        per_second: thousandths(measure.per_second()),
        p50_us,
        p90_us,
        p99_us,
        p999_us,
        max_us: micros(measure.times.max()),
        ratio: ratio.map(thousandths),
    }
}

fn thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Compared with the first engine, if that did this work too.
fn ratio(engines: &[Measured], measure: &Measure) -> Option<f64> {
    let mut first = engines.first()?.results.iter();
    first.find(|first| first.work == measure.work).map(|first| measure.ratio(first))
}

impl Report {
    pub(crate) const fn new(tasks: u32) -> Self {
        Self { tasks, engines: Vec::new() }
    }

    pub(crate) fn add(&mut self, profile: &Profile, results: Vec<Measure>) {
        let (engine, endpoint) = (profile.scheme, profile.endpoint.clone());
        self.engines.push(Measured { engine, endpoint, results });
    }

    pub(crate) fn page(&self) -> String {
        let legend = |(it, at): (&Measured, u32)| {
            format!("{at} is {}\n", message(&text::place(it.engine, &it.endpoint)))
        };
        let legend: String = self.engines.iter().zip(1..).map(legend).collect();
        let rows = Work::ALL.into_iter().flat_map(|work| self.rows(work));
        format!("{legend}\n{}", table(COLUMNS, rows, &[2, 3, 4, 5, 6, 7, 8, 9]))
    }

    fn rows(&self, work: Work) -> impl Iterator<Item = [String; COLUMNS.len()]> {
        let engines = self.engines.iter().zip(1..);
        engines.filter_map(move |(it, at)| {
            let measure = it.results.iter().find(|measure| measure.work == work)?;
            Some(self.row(measure, format!("{at} {}", it.engine)))
        })
    }

    fn row(&self, measure: &Measure, engine: String) -> [String; COLUMNS.len()] {
        let title = match measure.work {
            Work::Throughput => format!("{}, {} tasks", measure.work.title(), self.tasks),
            work => work.title().to_owned(),
        };
        let [p50, p90, p99, p999] = SHARES.map(|share| brief(measure.times.quantile(share)));
        let ratio = ratio(&self.engines, measure);
        let ratio = ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"));
        let (count, max) = (measure.times.count().to_string(), brief(measure.times.max()));
        let rate = format!("{:.0}", measure.per_second());
        [title, engine, count, p50, p90, p99, p999, max, rate, ratio]
    }
}
