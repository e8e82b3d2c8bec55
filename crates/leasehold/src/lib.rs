//! The crate docs follow.
