//! All cells: what is in `scale.json`.

use std::fs;
use std::path::{Path, PathBuf};

use leasehold_testkit::contest::Checked;
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Ending};
use crate::options::{Options, Task};
use crate::work::Work;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sheet {
    pub(crate) cells: Vec<Cell>,
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl Sheet {
    /// An empty one; an update begins with what there is.
    pub(crate) fn begun(options: &Options) -> Checked<Self> {
        let file = options.written();
        let old = file.as_deref().filter(|file| options.task == Task::Update && file.exists());
        let sheet = old.map(Self::load).transpose()?.unwrap_or_default();
        Ok(Self { file, ..sheet })
    }

    pub(crate) fn load(file: &Path) -> Checked<Self> {
        let place = file.display();
        let text = fs::read(file)
            .map_err(|why| format!("{place}: {why}; `cargo xtask scale --update` writes it"))?;
        let old = "if it is that of an older `cargo xtask scale`, remove it and measure anew";
        Ok(serde_json::from_slice(&text).map_err(|why| format!("{place}: {why}; {old}"))?)
    }

    /// One more cell, in the place of an older one.
    pub(crate) fn add(&mut self, cell: Cell) -> Checked {
        self.cells.retain(|old| !old.is(&cell.engine, cell.work, cell.size));
        self.cells.push(cell);
        let Some(file) = &self.file else { return Ok(()) };
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        Ok(fs::write(file, serde_json::to_string_pretty(self)? + "\n")?)
    }

    pub(crate) fn cell(&self, engine: &str, work: Work, size: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.is(engine, work, size))
    }

    /// The sizes of a work, smallest first.
    pub(crate) fn sizes(&self, work: Work) -> Vec<usize> {
        let of = self.cells.iter().filter(|cell| cell.work == work);
        let mut sizes: Vec<usize> = of.map(|cell| cell.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Sizes and values of one figure.
    pub(crate) fn line(&self, engine: &str, work: Work, key: &str) -> Vec<(f64, f64)> {
        let value = |size: usize| {
            let cell = self.cell(engine, work, size)?;
            Some((size as f64, *cell.figures.get(key)?))
        };
        self.sizes(work).into_iter().filter_map(value).collect()
    }

    /// The largest size that was gone through to its end.
    pub(crate) fn largest(&self, engine: &str, work: Work) -> Option<usize> {
        let done = |cell: &&Cell| {
            cell.engine == engine && cell.work == work && cell.ending == Ending::Done
        };
        self.cells.iter().filter(done).map(|cell| cell.size).max()
    }
}
