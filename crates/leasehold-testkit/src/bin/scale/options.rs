//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::engines::{ENGINES, EngineRow};
use crate::page;
use crate::work::{WORKS, Work};

pub(crate) const HELP: &str = "\
usage: cargo xtask scale [OPTION..]

Starts real servers on loopback, measures how every step grows, prints tables.
Everything takes about an hour, a row (`--engine redis`) five to ten minutes.

  --engine A,B     these rows alone (default: all)
  --work A,B       these tables alone (default: all)
  --sizes N,N      these sizes, for every table (default: each table has its own,
                   and a row where it can do more or less)
  --limit SECONDS  how long one cell may take (default: 60); then it says `>60 s`
  --quick          small sizes and short looks: a few minutes for everything
  --json FILE      write every cell there, too
  --update         measure, and write docs/scale/scale.json, docs/scale.md and its
                   charts; cells that are not measured stay as they are, each with
                   its day, machine and commit
  --page           write docs/scale.md and its charts anew from scale.json
  --check          whether they are as --page would write them; writes nothing
  --svg DIR        draw the charts there from scale.json, or --json FILE
  --docs DIR       where scale.md and scale/ are (default: docs of this checkout)
  --help           this text

examples:
  cargo xtask scale --quick
  cargo xtask scale --engine redis,etcd --work waiters --sizes 100,1000,10000
  cargo xtask scale --work held --engine redis --sizes 100000 --limit 300
  cargo xtask scale --update --engine zookeeper --work names   # one slice of the page
  cargo xtask scale --update                                   # all of it";

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Measure,
    Update,
    Page,
    Check,
    Draw,
    Help,
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) task: Task,
    pub(crate) engines: Vec<&'static EngineRow>,
    pub(crate) works: Vec<Work>,
    /// From the smallest on.
    pub(crate) sizes: Option<Vec<usize>>,
    pub(crate) limit: Duration,
    pub(crate) quick: bool,
    pub(crate) docs: PathBuf,
    json: Option<PathBuf>,
    svg: Option<PathBuf>,
}

impl Options {
    pub(crate) fn read(words: Vec<String>) -> Result<Self, String> {
        let mut options = Self {
            task: Task::Measure,
            engines: ENGINES.iter().collect(),
            works: WORKS.to_vec(),
            sizes: None,
            limit: Duration::from_secs(60),
            quick: false,
            docs: page::docs(),
            json: None,
            svg: None,
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            options.take(&word, &mut words)?;
        }
        options.fit()
    }

    fn take(&mut self, word: &str, rest: &mut impl Iterator<Item = String>) -> Result<(), String> {
        let mut value = || rest.next().ok_or(format!("{word} takes a value; see --help"));
        match word {
            "--engine" => self.engines = listed(&value()?, "engine", engine, &engine_names())?,
            "--work" => self.works = listed(&value()?, "work", work, &work_names())?,
            "--sizes" => self.sizes = Some(sizes(&value()?)?),
            "--limit" => self.limit = seconds(&value()?)?,
            "--json" => self.json = Some(value()?.into()),
            "--docs" => self.docs = value()?.into(),
            "--svg" => (self.svg, self.task) = (Some(value()?.into()), Task::Draw),
            "--quick" => self.quick = true,
            "--page" => self.task = Task::Page,
            "--check" => self.task = Task::Check,
            "--update" => self.task = Task::Update,
            "--help" | "-h" => self.task = Task::Help,
            other => return Err(unknown(other)),
        }
        Ok(())
    }

    /// What would put something else on the page than it says.
    fn fit(self) -> Result<Self, String> {
        let wrong = match self.task {
            Task::Update if self.quick => {
                "--quick has sizes and looks that are too small for the page; \
                 leave out --quick, or --update"
            }
            Task::Update if self.json.is_some() => {
                "--update writes the scale.json of the page; leave out --json, or say --docs DIR"
            }
            _ => return Ok(self),
        };
        Err(wrong.to_owned())
    }

    /// Where the cells are kept.
    pub(crate) fn sheet(&self) -> PathBuf {
        self.json.clone().unwrap_or_else(|| page::sheet(&self.docs))
    }

    /// Where cells are written to while they are measured, if anywhere.
    pub(crate) fn written(&self) -> Option<PathBuf> {
        (self.task == Task::Update || self.json.is_some()).then(|| self.sheet())
    }

    /// Where charts go.
    pub(crate) fn folder(&self) -> PathBuf {
        self.svg.clone().unwrap_or_else(|| page::folder(&self.docs))
    }
}

fn listed<T>(
    text: &str,
    what: &str,
    parse: fn(&str) -> Option<T>,
    valid: &str,
) -> Result<Vec<T>, String> {
    let unknown = |word: &str| format!("there is no {what} {word:?}; there are {valid}");
    text.split(',').map(|word| parse(word).ok_or_else(|| unknown(word))).collect()
}

fn engine(word: &str) -> Option<&'static EngineRow> {
    ENGINES.iter().find(|row| row.name == word)
}

fn engine_names() -> String {
    ENGINES.map(|row| row.name).join(", ")
}

fn work(word: &str) -> Option<Work> {
    WORKS.into_iter().find(|work| work.name() == word)
}

fn work_names() -> String {
    WORKS.map(Work::name).join(", ")
}

fn sizes(text: &str) -> Result<Vec<usize>, String> {
    let mut sizes = listed(text, "size", size, "numbers above 0")?;
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

fn size(word: &str) -> Option<usize> {
    word.parse().ok().filter(|size| *size > 0)
}

fn seconds(word: &str) -> Result<Duration, String> {
    let number = word.parse().ok().filter(|it| *it > 0);
    number.map(Duration::from_secs).ok_or(format!("--limit takes whole seconds, not {word:?}"))
}

fn unknown(word: &str) -> String {
    let lines = HELP.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let names: Vec<String> = lines
        .filter_map(|line| line.split_whitespace().next())
        .map(|name| format!("--{name}"))
        .collect();
    format!("there is no option {word:?}; there are {}", names.join(", "))
}
