//! Measures cells, each in a process of its own: memory that one leaves is not
//! the next one's, and one that does not end is ended.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use leasehold_testkit::contest::Checked;

use crate::cell::{Cell, Ending};
use crate::engines::{EngineRow, Running};
use crate::facts::Facts;
use crate::options::Options;
use crate::order::{self, Order};
use crate::sheet::Sheet;
use crate::work::Work;

/// What is over sooner than this, without the long looks of the first round, is done
/// again, up to so many times.
const CHEAP: f64 = 4.0;
const ROUNDS: u32 = 3;

#[derive(Debug)]
pub(crate) struct Runner<'a> {
    options: &'a Options,
    facts: Facts,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(options: &'a Options) -> Self {
        Self { options, facts: Facts::now() }
    }

    pub(crate) fn run(&self, sheet: &mut Sheet) -> Checked {
        self.options.engines.iter().try_for_each(|row| self.run_row(row, sheet))
    }

    fn run_row(&self, row: &EngineRow, sheet: &mut Sheet) -> Checked {
        let wanted: Vec<Work> =
            self.options.works.iter().copied().filter(|work| row.works.contains(work)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut running = row.start()?;
        for (at, work) in wanted.into_iter().enumerate() {
            // What one table has left in the store is not in the next one.
            if at > 0 && !self.options.quick {
                running = row.start()?;
            }
            self.run_work(row, work, &mut running, sheet)?;
        }
        Ok(())
    }

    /// From the smallest size on, as long as it goes well.
    fn run_work(
        &self,
        row: &EngineRow,
        work: Work,
        running: &mut Running,
        sheet: &mut Sheet,
    ) -> Checked {
        let usual = if self.options.quick { work.quick_sizes() } else { row.sizes(work) };
        let mut well = true;
        for size in self.options.sizes.clone().unwrap_or(usual.to_vec()) {
            let mut cell = self.blank(row, work, size, running);
            if well {
                self.fill(&mut cell, running)?;
            }
            well = cell.ending == Ending::Done;
            tell(&cell);
            if matches!(cell.ending, Ending::Cut | Ending::Failed(_)) {
                // What it has left is not for others to clear away.
                *running = row.start()?;
            }
            sheet.add(cell)?;
        }
        Ok(())
    }

    fn blank(&self, row: &EngineRow, work: Work, size: usize, running: &Running) -> Cell {
        Cell {
            engine: row.name.to_owned(),
            work,
            size,
            ending: Ending::Untried,
            figures: BTreeMap::new(),
            rounds: 0,
            seconds: 0.0,
            limit: self.options.limit.as_secs(),
            server: running.about.clone(),
            facts: self.facts.clone(),
        }
    }

    fn fill(&self, cell: &mut Cell, running: &mut Running) -> Checked {
        let mut order = self.order(cell, running);
        *cell = self.round(cell.clone(), &order, running)?;
        let most = if self.options.quick { 1 } else { ROUNDS };
        while cell.ending == Ending::Done && worked(cell) < CHEAP && cell.rounds < most {
            order.again = true;
            let blank = Cell { figures: BTreeMap::new(), ..cell.clone() };
            let again = self.round(blank, &order, running)?;
            cell.merge(again);
        }
        Ok(())
    }

    fn order(&self, cell: &Cell, running: &Running) -> Order {
        Order {
            engine: cell.engine.clone(),
            work: cell.work,
            size: cell.size,
            url: running.url.clone(),
            servers: running.pids(),
            quick: self.options.quick,
            again: false,
            seconds: cell.limit,
        }
    }

    /// One process, from its start to its end.
    fn round(&self, mut cell: Cell, order: &Order, running: &mut Running) -> Checked<Cell> {
        let start = Instant::now();
        let mut process = spawn(order)?;
        let said = lines(process.stdout.take().ok_or("no output")?);
        let errors = lines_of_errors(&mut process)?;
        let mut restart = Restart { running, told: process.stdin.take().ok_or("no input")? };
        let in_time = read(&said, &mut cell, start + self.options.limit, &mut restart)?;
        if !in_time {
            process.kill()?;
        }
        let status = process.wait()?;
        cell.ending = match (in_time, status.success()) {
            (false, _) => Ending::Cut,
            (true, true) => Ending::Done,
            (true, false) => Ending::Failed(errors.iter().last().unwrap_or_default()),
        };
        cell.seconds = start.elapsed().as_secs_f64();
        cell.rounds = cell.rounds.max(1);
        Ok(cell)
    }
}

/// What the last round took, but for the looks of a first one.
fn worked(cell: &Cell) -> f64 {
    let looks = if cell.rounds == 1 { cell.work.looks().as_secs_f64() } else { 0.0 };
    cell.seconds - looks
}

fn spawn(order: &Order) -> Checked<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(order::WORD).arg(serde_json::to_string(order)?);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command.spawn()?)
}

fn lines(output: ChildStdout) -> Receiver<String> {
    pass_on(BufReader::new(output))
}

fn lines_of_errors(process: &mut Child) -> Checked<Receiver<String>> {
    Ok(pass_on(BufReader::new(process.stderr.take().ok_or("no errors")?)))
}

fn pass_on(reader: impl BufRead + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || reader.lines().map_while(Result::ok).try_for_each(|it| sender.send(it)));
    receiver
}

/// Servers that a cell may have restarted, and the way to tell it.
struct Restart<'a> {
    running: &'a mut Running,
    told: ChildStdin,
}

impl Restart<'_> {
    fn carry_out(&mut self) -> Checked {
        self.running.kill()?;
        writeln!(self.told, "{}", order::DOWN)?;
        self.running.start_again()?;
        Ok(writeln!(self.told, "{}", order::UP)?)
    }
}

/// Figures as they come; whether the end came before the limit.
fn read(
    said: &Receiver<String>,
    cell: &mut Cell,
    until: Instant,
    restart: &mut Restart<'_>,
) -> Checked<bool> {
    loop {
        match said.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) if line == order::RESTART => restart.carry_out()?,
            Ok(line) => note(&line, cell),
            Err(RecvTimeoutError::Disconnected) => return Ok(true),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
        }
    }
}

fn note(line: &str, cell: &mut Cell) {
    let said = line.split_once(' ').and_then(|(key, value)| Some((key, value.parse().ok()?)));
    if let Some((key, value)) = said {
        cell.figures.insert(key.to_owned(), value);
    }
}

fn tell(cell: &Cell) {
    let Cell { engine, size, seconds, ending, .. } = cell;
    eprintln!("{engine} {} {size}: {ending:?}, {seconds:.1} s", cell.work.name());
}
