//! A model of a Redis server: the commands that our link and scripts use, and
//! the scripts themselves in an interpreter.

mod commands;
mod db;
mod lua;
mod msgpack;
mod node;
pub(crate) mod number;
mod reply;
mod request;
mod session;
mod slots;
mod structs;

pub use self::lua::{Patch, patch, patched};
pub use self::node::Node;
pub use self::reply::{Bytes, Reply};
pub use self::request::parse;
pub(crate) use self::slots::View;
pub use self::slots::slot;
