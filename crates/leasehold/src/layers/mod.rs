//! What is wrapped around every opened engine, one file each.

pub(crate) mod guardrail;
pub(crate) mod retry;
