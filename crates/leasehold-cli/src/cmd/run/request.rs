//! What a command needs before it may run.

use crate::args::{Elect, Job, Permits, Run};
use crate::who;

/// A lease that is asked for, and the command that is to run under it.
pub(crate) struct Request<'a> {
    pub(crate) names: &'a [String],
    pub(crate) wanted: Wanted<'a>,
    pub(crate) job: &'a Job,
    /// What others see as the holder.
    pub(crate) label: String,
}

/// What the lease is to be.
pub(crate) enum Wanted<'a> {
    /// A mutex, or many.
    Mutex,
    Shared,
    Exclusive,
    Permits(Permits),
    /// The lead, and what observers are told then.
    Lead(&'a str),
}

impl<'a> Request<'a> {
    pub(crate) fn of_run(run: &'a Run) -> Self {
        let wanted = match run.permits {
            Some(permits) => Wanted::Permits(permits),
            None if run.shared => Wanted::Shared,
            None if run.exclusive => Wanted::Exclusive,
            None => Wanted::Mutex,
        };
        Self::new(&run.names, wanted, &run.job)
    }

    /// `value` is what observers are told.
    pub(crate) fn of_elect(elect: &'a Elect, value: &'a str) -> Self {
        Self::new(std::slice::from_ref(&elect.name), Wanted::Lead(value), &elect.job)
    }

    fn new(names: &'a [String], wanted: Wanted<'a>, job: &'a Job) -> Self {
        let label = job.label.clone().unwrap_or_else(|| who::label(&job.command[0]));
        Self { names, wanted, job, label }
    }
}
