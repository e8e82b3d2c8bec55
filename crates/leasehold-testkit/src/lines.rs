//! Append-only files of JSON lines that many processes write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).read(true).open(path)
}

/// Appends one line with one write, which the kernel keeps whole among others.
///
/// The line break comes first as well: should a killed writer leave half a
/// line behind, the next line still stands alone.
pub(crate) fn append(mut file: &File, value: &impl Serialize) -> io::Result<()> {
    let line = format!("\n{}\n", serde_json::to_string(value)?);
    file.write_all(line.as_bytes())
}

/// All whole lines, and how many were torn by the death of their writer.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<(Vec<T>, usize)> {
    parse(&fs::read(path)?)
}

/// The whole lines from `offset` on, which then moves to the end of the file.
pub(crate) fn read_on<T: DeserializeOwned>(file: &File, offset: &mut u64) -> io::Result<Vec<T>> {
    let length = file.metadata()?.len().saturating_sub(*offset);
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, *offset)?;
    *offset += length;
    Ok(parse(&bytes)?.0)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<(Vec<T>, usize)> {
    let (mut values, mut torn) = (Vec::new(), 0);
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(value) => values.push(value),
            // The beginning of a good line is a torn one; anything else is a bug.
            Err(error) if error.is_eof() => torn += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((values, torn))
}
