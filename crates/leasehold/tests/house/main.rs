//! The house: which room may know which, what is called how, and that every engine
//! is complete.

mod arrows;
mod cancel_safety;
mod circles;
mod complete;
mod floors;
mod foreign;
mod lock_path;
mod source;
mod words;
