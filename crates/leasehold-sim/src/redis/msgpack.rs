//! `cmsgpack`, as Redis has it.

use mlua::{Lua, MultiValue, Result, Table, Value};

use super::Bytes;

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    library.set("pack", lua.create_function(pack_all)?)?;
    library.set("unpack", lua.create_function(unpack_all)?)?;
    Ok(library)
}

fn pack_all(lua: &Lua, values: MultiValue) -> Result<mlua::LuaString> {
    let mut out = Vec::new();
    values.iter().try_for_each(|value| pack(&mut out, value))?;
    lua.create_string(out)
}

fn unpack_all(lua: &Lua, packed: mlua::LuaString) -> Result<MultiValue> {
    let bytes = packed.as_bytes();
    let mut from = Reader { lua, rest: &bytes };
    let mut all = MultiValue::new();
    while !from.rest.is_empty() {
        all.push_back(from.value()?);
    }
    Ok(all)
}

fn pack(out: &mut Bytes, value: &Value) -> Result<()> {
    match value {
        Value::Boolean(yes) => out.push(if *yes { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => integer(out, *number),
        Value::Number(number) => float(out, *number),
        Value::String(text) => {
            let bytes = text.as_bytes();
            sized(out, bytes.len(), (0xa0, 32), &[(0xd9, 1), (0xda, 2), (0xdb, 4)]);
            out.extend_from_slice(&bytes);
        }
        Value::Table(table) => pack_table(out, table)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn pack_table(out: &mut Bytes, table: &Table) -> Result<()> {
    let pairs = table.pairs::<Value, Value>().collect::<Result<Vec<_>>>()?;
    let length = table.raw_len();
    if length == pairs.len() {
        sized(out, length, (0x90, 16), &[(0xdc, 2), (0xdd, 4)]);
        return (1..=length).try_for_each(|at| pack(out, &table.raw_get::<Value>(at)?));
    }
    sized(out, pairs.len(), (0x80, 16), &[(0xde, 2), (0xdf, 4)]);
    pairs.iter().try_for_each(|(key, value)| pack(out, key).and_then(|()| pack(out, value)))
}

/// A number that is whole is written as such.
fn float(out: &mut Bytes, number: f64) {
    #[expect(clippy::cast_possible_truncation, reason = "as C casts; compared below")]
    let (whole, short) = (number as i64, number as f32);
    #[expect(clippy::cast_precision_loss, reason = "a whole number came from a float")]
    let is_whole = whole as f64 == number && whole != i64::MAX;
    if is_whole {
        integer(out, whole);
    } else if f64::from(short) == number {
        out.push(0xca);
        out.extend(short.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend(number.to_be_bytes());
    }
}

fn integer(out: &mut Bytes, number: i64) {
    let bytes = number.to_be_bytes();
    let (kind, size) = match number {
        -32..=0x7f => return out.push(bytes[7]),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-33 => (0xd0, 1),
        -0x8000..=-0x81 => (0xd1, 2),
        -0x8000_0000..=-0x8001 => (0xd2, 4),
        ..=-0x8000_0001 => (0xd3, 8),
    };
    out.push(kind);
    out.extend(&bytes[8 - size..]);
}

/// How many follow: in the first byte if they are few.
fn sized(out: &mut Bytes, count: usize, (few, limit): (u8, usize), kinds: &[(u8, usize)]) {
    if let Some(small) = u8::try_from(count).ok().filter(|_| count < limit) {
        return out.push(few | small);
    }
    let bytes = (count as u64).to_be_bytes();
    let fits = |size: usize| size == 4 || count < 1 << (8 * size);
    if let Some((kind, size)) = kinds.iter().find(|(_, size)| fits(*size)) {
        out.push(*kind);
        out.extend(&bytes[8 - size..]);
    }
}

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value> {
        let first = self.take(1)?[0];
        match first {
            0..=0x7f => number(i64::from(first)),
            0xe0..=0xff => number(i64::from(first.cast_signed())),
            0xc0 => Ok(Value::Nil),
            0xc2 | 0xc3 => Ok(Value::Boolean(first == 0xc3)),
            0xcc..=0xcf => Ok(Value::Number(self.unsigned(1 << (first - 0xcc))?)),
            0xd0..=0xd3 => number(self.signed(1 << (first - 0xd0))?),
            0xca => Ok(Value::Number(f32::from_be_bytes(self.bytes()?).into())),
            0xcb => Ok(Value::Number(f64::from_be_bytes(self.bytes()?))),
            0xa0..=0xbf => self.text(usize::from(first & 0x1f)),
            0xd9..=0xdb => {
                let size = self.size(1 << (first - 0xd9))?;
                self.text(size)
            }
            0x90..=0x9f => self.array(usize::from(first & 0xf)),
            0xdc | 0xdd => {
                let size = self.size(2 << (first - 0xdc))?;
                self.array(size)
            }
            0x80..=0x8f => self.map(usize::from(first & 0xf)),
            0xde | 0xdf => {
                let size = self.size(2 << (first - 0xde))?;
                self.map(size)
            }
            _ => Err(mlua::Error::runtime("Bad data format in input.")),
        }
    }

    fn take(&mut self, size: usize) -> Result<&[u8]> {
        let missing = || mlua::Error::runtime("Missing bytes in input.");
        let (taken, rest) = self.rest.split_at_checked(size).ok_or_else(missing)?;
        self.rest = rest;
        Ok(taken)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many as were asked for"))
    }

    fn raw(&mut self, size: usize) -> Result<u64> {
        Ok(self.take(size)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of Lua are floats")]
    fn unsigned(&mut self, size: usize) -> Result<f64> {
        Ok(self.raw(size)? as f64)
    }

    fn signed(&mut self, size: usize) -> Result<i64> {
        let unused = 64 - 8 * u32::try_from(size).unwrap_or(8);
        Ok((self.raw(size)? << unused).cast_signed() >> unused)
    }

    fn size(&mut self, size: usize) -> Result<usize> {
        Ok(usize::try_from(self.raw(size)?).unwrap_or(usize::MAX))
    }

    fn text(&mut self, size: usize) -> Result<Value> {
        let lua = self.lua;
        Ok(Value::String(lua.create_string(self.take(size)?)?))
    }

    fn array(&mut self, size: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        for at in 1..=size {
            table.raw_set(at, self.value()?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, size: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..size {
            let key = self.value()?;
            table.raw_set(key, self.value()?)?;
        }
        Ok(Value::Table(table))
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of Lua are floats")]
#[expect(clippy::unnecessary_wraps, reason = "as its neighbours")]
const fn number(number: i64) -> Result<Value> {
    Ok(Value::Number(number as f64))
}
