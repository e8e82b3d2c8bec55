//! Scripts, in the interpreter that Redis uses. One for each thread: to make
//! one costs more than a hundred calls.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use super::db::Db;
use super::{Bytes, Reply, commands, msgpack, number, structs};

/// Raises refusals, and hands what a script has left unhandled to the server.
const PRELUDE: &str = r"
local ask = ...
local redis = { pcall = ask }
function redis.call(...)
  local answer = ask(...)
  if type(answer) == 'table' and answer.err then error(answer, 0) end
  return answer
end
function redis.error_reply(text) return { err = text } end
function redis.status_reply(text) return { ok = text } end
local function run(script)
  local fine, answer = pcall(script)
  if fine or type(answer) == 'table' then return answer end
  return { err = 'ERR ' .. tostring(answer) }
end
return redis, run
";

/// A change to the text of scripts: a fault that they once had.
#[derive(Clone, Debug)]
pub struct Patch {
    /// What stands there.
    pub from: String,
    /// What shall stand there.
    pub to: String,
}

thread_local! {
    static HERE: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
    static PATCHES: RefCell<Vec<Patch>> = const { RefCell::new(Vec::new()) };
    static PATCHED: Cell<usize> = const { Cell::new(0) };
}

/// Changes all scripts that are sent to servers of this thread from now on.
pub fn patch(patches: Vec<Patch>) {
    PATCHES.set(patches);
    PATCHED.set(0);
    HERE.set(None);
}

/// How often the present patches have changed a script: 0 if none was sent that
/// has such a text.
#[must_use]
pub fn patched() -> usize {
    PATCHED.get()
}

/// Runs a script on the keys of a server.
pub(super) fn eval(db: &mut Db, script: &Script<'_>, keys: &[Bytes], args: &[Bytes]) -> Reply {
    HERE.with_borrow_mut(|here| {
        let interpreter = here.get_or_insert_with(|| Interpreter::new().expect("an interpreter"));
        interpreter.on(db, |it| it.eval(script, keys, args)).unwrap_or_else(|cause| {
            Reply::Error(format!("ERR Error compiling script (new function): {cause}"))
        })
    })
}

pub(super) struct Script<'a> {
    pub(super) digest: &'a str,
    pub(super) text: &'a [u8],
}

struct Interpreter {
    lua: Lua,
    db: Rc<RefCell<Db>>,
    run: Function,
    known: HashMap<String, Function>,
}

impl Interpreter {
    fn new() -> Result<Self> {
        let (lua, db) = (Lua::new(), Rc::new(RefCell::new(Db::default())));
        let keys = Rc::clone(&db);
        let ask = lua.create_function(move |lua, words: MultiValue| {
            let words = words.into_iter().map(word).collect::<Option<Vec<_>>>();
            let answer = match words {
                Some(words) => commands::run(&mut keys.borrow_mut(), &words, true),
                None => {
                    Reply::error("ERR Lua redis lib command arguments must be strings or integers")
                }
            };
            to_lua(lua, answer)
        })?;
        let (redis, run): (Table, Function) = lua.load(PRELUDE).call(ask)?;
        let globals = lua.globals();
        globals.set("redis", redis)?;
        globals.set("cmsgpack", msgpack::library(&lua)?)?;
        globals.set("struct", structs::library(&lua)?)?;
        Ok(Self { lua, db, run, known: HashMap::new() })
    }

    /// Lends it the keys of a server.
    fn on<T>(&mut self, db: &mut Db, work: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(&mut *self.db.borrow_mut(), db);
        let done = work(self);
        std::mem::swap(&mut *self.db.borrow_mut(), db);
        done
    }

    fn eval(&mut self, script: &Script<'_>, keys: &[Bytes], args: &[Bytes]) -> Result<Reply> {
        let function = self.function(script)?;
        let globals = self.lua.globals();
        globals.raw_set("KEYS", self.list(keys)?)?;
        globals.raw_set("ARGV", self.list(args)?)?;
        self.db.borrow_mut().is_dirty = false;
        from_lua(&self.run.call(function)?)
    }

    fn function(&mut self, script: &Script<'_>) -> Result<Function> {
        if let Some(known) = self.known.get(script.digest) {
            return Ok(known.clone());
        }
        let text = changed(&String::from_utf8_lossy(script.text));
        let function = self.lua.load(text).set_name("@user_script").into_function()?;
        self.known.insert(script.digest.to_owned(), function.clone());
        Ok(function)
    }

    fn list(&self, words: &[Bytes]) -> Result<Table> {
        let words = words.iter().map(|word| self.lua.create_string(word));
        self.lua.create_sequence_from(words.collect::<Result<Vec<_>>>()?)
    }
}

/// The text with the present patches.
fn changed(text: &str) -> String {
    let mut text = text.to_owned();
    PATCHES.with_borrow(|patches| {
        for Patch { from, to } in patches {
            if text.contains(from) {
                PATCHED.set(PATCHED.get() + 1);
                text = text.replace(from, to);
            }
        }
    });
    text
}

/// An argument of a command.
fn word(value: Value) -> Option<Bytes> {
    #[expect(clippy::cast_precision_loss, reason = "numbers of Lua are floats")]
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Number(it) => Some(number::shown(it).into_bytes()),
        Value::Integer(it) => Some(number::shown(it as f64).into_bytes()),
        _ => None,
    }
}

fn to_lua(lua: &Lua, reply: Reply) -> Result<Value> {
    #[expect(clippy::cast_precision_loss, reason = "numbers of Lua are floats")]
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Int(number) => Value::Number(number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Status(word) => Value::Table(lua.create_table_from([("ok", word)])?),
        Reply::Error(text) => Value::Table(lua.create_table_from([("err", text)])?),
        Reply::Array(all) | Reply::Push(all) => {
            let all = all.into_iter().map(|each| to_lua(lua, each)).collect::<Result<Vec<_>>>()?;
            Value::Table(lua.create_sequence_from(all)?)
        }
        Reply::Map(_) => Value::Boolean(false),
    })
}

fn from_lua(value: &Value) -> Result<Reply> {
    #[expect(clippy::cast_possible_truncation, reason = "as Redis does")]
    Ok(match value {
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Table(table) => from_table(table)?,
        _ => Reply::Nil,
    })
}

fn from_table(table: &Table) -> Result<Reply> {
    if let Some(text) = table.raw_get::<Option<String>>("err")? {
        return Ok(Reply::Error(text));
    }
    if table.raw_get::<Option<String>>("ok")?.is_some() {
        return Ok(Reply::OK);
    }
    let mut all = Vec::new();
    for at in 1.. {
        match table.raw_get::<Value>(at)? {
            Value::Nil => break,
            value => all.push(from_lua(&value)?),
        }
    }
    Ok(Reply::Array(all))
}
