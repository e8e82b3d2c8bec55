//! What clients send: arrays of words.

use super::Bytes;

/// The first request in `bytes`, and how long it is; `None` if it is not
/// complete yet.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<(Vec<Bytes>, usize)> {
    let (count, mut at) = head(bytes, 0)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (size, start) = head(bytes, at)?;
        words.push(bytes.get(start..start + size)?.to_vec());
        at = start + size + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

/// The number of a line such as `*3`, and where the next one begins.
fn head(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let number = std::str::from_utf8(rest.get(1..end)?).ok()?.parse().ok()?;
    Some((number, at + end + 2))
}
