//! MessagePack, as far as the scripts speak it: numbers, bytes, arrays, `false`.

use crate::engines::redis::link::OTHER_LAYOUT;
use crate::error::{Error, ErrorKind, Result};

/// An array on its way to a script.
#[derive(Debug, Default)]
pub(super) struct Packer(Vec<u8>);

impl Packer {
    /// Plain bytes, of a kind. What follows may be plain or packed.
    pub(super) fn plain(kind: u8) -> Self {
        let mut bytes = Vec::with_capacity(192);
        bytes.push(kind);
        Self(bytes)
    }

    /// A number in plain bytes.
    pub(super) fn eight(self, number: u64) -> Self {
        self.raw(&number.to_be_bytes())
    }

    /// Bytes as they are.
    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// An array of `items` items, which have to follow.
    pub(super) fn array(mut self, items: u16) -> Self {
        let [high, low] = items.to_be_bytes();
        self.0.extend([0xdc, high, low]);
        self
    }

    pub(super) fn number(mut self, number: u64) -> Self {
        self.0.push(0xcf);
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn bytes(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        // Old servers know no longer form than this; nothing here is longer.
        self.0.push(0xdb);
        self.0.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
        self.0.extend(bytes);
        self
    }

    pub(super) fn flag(mut self, flag: bool) -> Self {
        self.0.push(0xc2 | u8::from(flag));
        self
    }

    /// `false`.
    pub(super) fn nothing(mut self) -> Self {
        self.0.push(0xc2);
        self
    }

    /// Bytes, or `false`.
    pub(super) fn maybe(self, bytes: Option<impl AsRef<[u8]>>) -> Self {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.nothing(),
        }
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// What a script has packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// `false` or nothing.
    Nothing,
    Number(i64),
    Bytes(Vec<u8>),
    Array(Vec<Self>),
}

impl Item {
    pub(super) fn unpack(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        take_item(&mut rest, 8).filter(|_| rest.is_empty()).ok_or_else(garbled)
    }

    pub(super) fn array(self) -> Result<Items> {
        match self {
            Self::Array(items) => Ok(Items(items.into_iter())),
            // An empty table has no shape.
            Self::Nothing => Ok(Items(Vec::new().into_iter())),
            _ => Err(garbled()),
        }
    }

    pub(super) fn number(self) -> Result<u64> {
        match self {
            Self::Number(number) => Ok(u64::try_from(number).unwrap_or_default()),
            _ => Err(garbled()),
        }
    }

    pub(super) fn maybe_bytes(self) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Bytes(bytes) => Ok(Some(bytes)),
            Self::Nothing => Ok(None),
            _ => Err(garbled()),
        }
    }

    pub(super) fn maybe_text(self) -> Result<Option<String>> {
        let text = self.maybe_bytes()?.map(String::from_utf8).transpose();
        text.map_err(|_| garbled())
    }

    pub(super) fn text(self) -> Result<String> {
        self.maybe_text()?.ok_or_else(garbled)
    }
}

/// The items of an array, one by one.
#[derive(Debug)]
pub(super) struct Items(std::vec::IntoIter<Item>);

impl Items {
    pub(super) fn item(&mut self) -> Result<Item> {
        self.0.next().ok_or_else(garbled)
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        self.item()?.number()
    }

    pub(super) fn signed(&mut self) -> Result<i64> {
        match self.item()? {
            Item::Number(number) => Ok(number),
            _ => Err(garbled()),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>> {
        self.item()?.maybe_bytes()?.ok_or_else(garbled)
    }

    pub(super) fn text(&mut self) -> Result<String> {
        self.item()?.text()
    }

    pub(super) fn array(&mut self) -> Result<Self> {
        self.item()?.array()
    }
}

impl Iterator for Items {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        self.0.next()
    }
}

/// A key that holds something else, or a reply of another script.
pub(super) fn garbled() -> Error {
    let message = "the server answered something that no script of ours says; \
                   do other programs write keys that start with \"leasehold:\"?";
    Error::new(ErrorKind::Unexpected, message)
}

/// What another layout begins with, before its number: no packed value does, so
/// that releases that know of no layouts do not take it for theirs either.
const OTHER: u8 = 0xc1;

/// Refuses what another release has stored in its own way.
pub(super) fn check_layout(stored: &[u8]) -> Result<()> {
    if stored.first() != Some(&OTHER) {
        return Ok(());
    }
    let number = stored.get(1).copied().unwrap_or_default();
    Err(Error::new(ErrorKind::Unsupported, OTHER_LAYOUT).with("layout", number))
}

fn take_item(rest: &mut &[u8], depth: u8) -> Option<Item> {
    let [tag] = take(rest)?;
    Some(match tag {
        0x00..=0x7f => Item::Number(i64::from(tag)),
        0xe0..=0xff => Item::Number(i64::from(i8::from_be_bytes([tag]))),
        0x80 | 0xc0 | 0xc2 => Item::Nothing,
        0xc3 => Item::Number(1),
        0xca | 0xcb => return None,
        0xcc => Item::Number(i64::from(u8::from_be_bytes(take(rest)?))),
        0xcd => Item::Number(i64::from(u16::from_be_bytes(take(rest)?))),
        0xce => Item::Number(i64::from(u32::from_be_bytes(take(rest)?))),
        0xcf => Item::Number(i64::try_from(u64::from_be_bytes(take(rest)?)).ok()?),
        0xd0 => Item::Number(i64::from(i8::from_be_bytes(take(rest)?))),
        0xd1 => Item::Number(i64::from(i16::from_be_bytes(take(rest)?))),
        0xd2 => Item::Number(i64::from(i32::from_be_bytes(take(rest)?))),
        0xd3 => Item::Number(i64::from_be_bytes(take(rest)?)),
        0x90..=0x9f => items(rest, usize::from(tag & 0xf), depth)?,
        0xdc => {
            let count = usize::from(u16::from_be_bytes(take(rest)?));
            items(rest, count, depth)?
        }
        0xdd => {
            let count = usize::try_from(u32::from_be_bytes(take(rest)?)).ok()?;
            items(rest, count, depth)?
        }
        _ => Item::Bytes(take_bytes(rest, tag)?),
    })
}

fn items(rest: &mut &[u8], count: usize, depth: u8) -> Option<Item> {
    let deeper = depth.checked_sub(1)?;
    (0..count).map(|_| take_item(rest, deeper)).collect::<Option<_>>().map(Item::Array)
}

fn take_bytes(rest: &mut &[u8], tag: u8) -> Option<Vec<u8>> {
    let length = match tag {
        0xa0..=0xbf => usize::from(tag & 0x1f),
        0xc4 | 0xd9 => usize::from(u8::from_be_bytes(take(rest)?)),
        0xc5 | 0xda => usize::from(u16::from_be_bytes(take(rest)?)),
        0xc6 | 0xdb => usize::try_from(u32::from_be_bytes(take(rest)?)).ok()?,
        _ => return None,
    };
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes.to_vec())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let packed =
            Packer::default().array(4).number(7).bytes("a").maybe(None::<&str>).number(1 << 50);
        let mut items = Item::unpack(&packed.done()).unwrap().array().unwrap();
        assert_eq!(items.number().unwrap(), 7);
        assert_eq!(items.text().unwrap(), "a");
        assert_eq!(items.item().unwrap(), Item::Nothing);
        assert_eq!(items.number().unwrap(), 1 << 50);
        assert!(items.number().is_err());
    }

    proptest! {
        #[test]
        fn no_reply_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Item::unpack(&bytes);
        }
    }
}
