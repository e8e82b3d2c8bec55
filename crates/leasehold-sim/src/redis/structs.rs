//! `struct`, as far as our scripts use it: big-endian whole numbers.

use mlua::{Lua, MultiValue, Result, Table, Value};

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    library.set("pack", lua.create_function(pack)?)?;
    library.set("unpack", lua.create_function(unpack)?)?;
    Ok(library)
}

/// The sizes in a format such as `>I8I4`.
fn sizes(format: &str) -> Result<Vec<usize>> {
    let unknown = || mlua::Error::runtime(format!("the model knows no struct format {format}"));
    let fields = format.strip_prefix('>').ok_or_else(unknown)?.split('I').skip(1);
    fields.map(|digits| digits.parse().map_err(|_| unknown())).collect()
}

fn pack(lua: &Lua, (format, values): (String, MultiValue)) -> Result<mlua::LuaString> {
    let mut out = Vec::new();
    for (size, value) in sizes(&format)?.into_iter().zip(values) {
        let number = lua.coerce_number(value)?.unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as C casts")]
        let bytes = (number as u64).to_be_bytes();
        out.extend(&bytes[8 - size..]);
    }
    lua.create_string(out)
}

fn unpack(_: &Lua, args: (String, mlua::LuaString, Option<usize>)) -> Result<MultiValue> {
    let (format, packed, start) = args;
    let bytes = packed.as_bytes();
    let mut at = start.unwrap_or(1) - 1;
    let mut values = MultiValue::new();
    for size in sizes(&format)? {
        let short = || mlua::Error::runtime("data string too short");
        let field = bytes.get(at..at + size).ok_or_else(short)?;
        let number = field.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        #[expect(clippy::cast_precision_loss, reason = "numbers of Lua are floats")]
        values.push_back(Value::Number(number as f64));
        at += size;
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers of Lua are floats")]
    values.push_back(Value::Number((at + 1) as f64));
    Ok(values)
}
