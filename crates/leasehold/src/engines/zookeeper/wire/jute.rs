//! Numbers and texts as ZooKeeper writes them: big-endian, each text and list
//! after its length.

use crate::error::{Error, ErrorKind, Result};

/// Writes. Starts with the four bytes that say how long the rest is.
#[derive(Debug)]
pub(in super::super) struct JuteWriter(Vec<u8>);

impl JuteWriter {
    pub(in super::super) fn new() -> Self {
        Self(vec![0; 4])
    }

    pub(super) fn int(&mut self, number: i32) -> &mut Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn long(&mut self, number: i64) -> &mut Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.0.push(flag.into());
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        // Whoever sends has made sure that a frame is not that long.
        self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.0.extend(bytes);
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    /// The whole frame.
    pub(in super::super) fn done(mut self) -> Vec<u8> {
        let size = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&size.to_be_bytes());
        self.0
    }
}

/// Reads. Nothing it is given makes it panic.
#[derive(Debug)]
pub(in super::super) struct JuteReader<'a>(&'a [u8]);

impl<'a> JuteReader<'a> {
    pub(in super::super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count).ok_or_else(garbled)?;
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn int(&mut self) -> Result<i32> {
        let bytes = self.take(4)?.try_into().map_err(|_| garbled())?;
        Ok(i32::from_be_bytes(bytes))
    }

    pub(super) fn long(&mut self) -> Result<i64> {
        let bytes = self.take(8)?.try_into().map_err(|_| garbled())?;
        Ok(i64::from_be_bytes(bytes))
    }

    pub(super) fn flag(&mut self) -> Result<bool> {
        Ok(self.take(1)?[0] != 0)
    }

    /// A length of -1 stands for nothing at all.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        let size = self.int()?.max(0);
        self.take(usize::try_from(size).unwrap_or_default()).map(<[u8]>::to_vec)
    }

    pub(super) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?).map_err(|_| garbled())
    }

    pub(super) fn texts(&mut self) -> Result<Vec<String>> {
        let count = self.int()?.max(0);
        (0..count).map(|_| self.text()).collect()
    }
}

/// The server has sent something that is not its protocol.
pub(super) fn garbled() -> Error {
    Error::new(ErrorKind::Unexpected, "the answer is not in the protocol of ZooKeeper")
}
