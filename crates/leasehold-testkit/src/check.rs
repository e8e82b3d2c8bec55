//! The checkers: each reads a history and names the two operations that clash.
//!
//! | checker | invariant | finds |
//! |---|---|---|
//! | [`order`] | I1, I2 | a history no lock could have produced, given its fences |
//! | [`exclusion`] | I1 | two holders who both claimed the name at one time |
//! | [`fences`] | I2 | a fence that is used twice or goes back |
//! | [`register`] | I3 | a stale write let in, a good one kept out, an update lost |

use std::collections::HashMap;
use std::fmt;

use crate::grant::{Grant, Span};
use crate::history::{History, Mode, Nanos};
use crate::register::{Access, Kind};

/// Two operations that cannot both be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong with them.
    pub what: &'static str,
    /// The earlier of the two.
    pub first: String,
    /// The one that clashes with it.
    pub second: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:\n  first  {}\n  second {}", self.what, self.first, self.second)
    }
}

impl std::error::Error for Violation {}

fn violation(what: &'static str, first: impl fmt::Debug, second: impl fmt::Debug) -> Violation {
    Violation { what, first: format!("{first:?}"), second: format!("{second:?}") }
}

/// Runs the three checks of a lock history.
///
/// # Errors
///
/// The first violation.
pub fn all(history: &History) -> Result<(), Violation> {
    let grants = history.grants();
    exclusion(&grants)?;
    fences(&grants)?;
    order(&grants)
}

/// Checks that a lock which hands out growing fences can have produced the
/// exclusive grants (`Exclusive` and `Write`) of each name.
///
/// The fences give the only order in which the grants can have happened. Going
/// through them, every begin and end takes the earliest moment left for it; if
/// that moment is past its return, no choice of moments works. Readers and
/// permits overlap, so their fences give no such order: see [`fences`].
///
/// # Errors
///
/// The operation that comes too late, and the one that made it late.
pub fn order(grants: &[Grant]) -> Result<(), Violation> {
    let exclusive = |grant: &&Grant| matches!(grant.mode, Mode::Exclusive | Mode::Write);
    by_name(grants.iter().filter(exclusive)).into_values().try_for_each(order_of_one)
}

fn order_of_one(mut grants: Vec<&Grant>) -> Result<(), Violation> {
    grants.sort_by_key(|grant| grant.fence);
    let mut reached: Reached<'_> = (0, None);
    for grant in grants {
        for (step, span) in [("begin", grant.begin), ("end", grant.end)] {
            reached = advance(reached, step, span, grant)?;
        }
    }
    Ok(())
}

/// The moment reached, and the operation that pushed it there.
type Reached<'a> = (Nanos, Option<(&'a str, &'a Grant)>);

fn advance<'a>(
    (moment, pusher): Reached<'a>,
    step: &'a str,
    span: Span,
    grant: &'a Grant,
) -> Result<Reached<'a>, Violation> {
    if span.invoke >= moment {
        return if span.invoke <= span.ret {
            Ok((span.invoke, Some((step, grant))))
        } else {
            Err(violation("it returned before it was called", grant, grant))
        };
    }
    if moment <= span.ret {
        return Ok((moment, pusher));
    }
    let what = "no lock could have granted these in the order of their fences";
    Err(violation(what, pusher, (step, grant)))
}

/// Checks that no two claims of conflicting modes overlap, and that permits
/// never add up to more than there are.
///
/// # Errors
///
/// The two holders; for permits, the one that was too much and another.
pub fn exclusion(grants: &[Grant]) -> Result<(), Violation> {
    by_name(grants).into_values().try_for_each(exclusion_of_one)
}

fn exclusion_of_one(mut grants: Vec<&Grant>) -> Result<(), Violation> {
    grants.sort_by_key(|grant| grant.begin.ret);
    let mut holding: Vec<&Grant> = Vec::new();
    // A grant that was seen after its deadline was never claimed.
    for grant in grants.into_iter().filter(|grant| grant.begin.ret < grant.claimed_until) {
        holding.retain(|other| other.claimed_until > grant.begin.ret);
        if let Some(other) = holding.iter().find(|other| other.mode.conflicts_with(grant.mode)) {
            return Err(violation("two holders at one time", other, grant));
        }
        holding.push(grant);
        if too_many(&holding) {
            return Err(violation("more permits held than there are", holding[0], grant));
        }
    }
    Ok(())
}

fn too_many(holding: &[&Grant]) -> bool {
    let permits = holding.iter().filter_map(|grant| match grant.mode {
        Mode::Permits { take, of } => Some((u64::from(take), u64::from(of))),
        _ => None,
    });
    let (taken, least) =
        permits.fold((0, u64::MAX), |(sum, least), (take, of)| (sum + take, least.min(of)));
    taken > least
}

/// Checks that a fence is larger than that of every earlier conflicting grant
/// of its name, and that no two conflicting grants share one.
///
/// # Errors
///
/// The two grants.
pub fn fences(grants: &[Grant]) -> Result<(), Violation> {
    let fenced = |grant: &&Grant| !matches!(grant.mode, Mode::Permits { .. });
    by_name(grants.iter().filter(fenced)).into_values().try_for_each(|grants| {
        unique(&grants)?;
        growing(grants)
    })
}

fn unique(grants: &[&Grant]) -> Result<(), Violation> {
    let mut users: HashMap<u64, &Grant> = HashMap::new();
    for grant in grants {
        match users.insert(grant.fence, grant) {
            Some(other) if other.mode.conflicts_with(grant.mode) => {
                return Err(violation("two grants with one fence", other, grant));
            }
            _ => {}
        }
    }
    Ok(())
}

fn growing(mut grants: Vec<&Grant>) -> Result<(), Violation> {
    let mut returned = grants.clone();
    returned.sort_by_key(|grant| grant.begin.ret);
    grants.sort_by_key(|grant| grant.begin.invoke);
    let mut returned = returned.into_iter().peekable();
    let mut highest: Vec<&Grant> = Vec::new();
    for grant in grants {
        while let Some(earlier) = returned.next_if(|it| it.begin.ret < grant.begin.invoke) {
            keep_highest(&mut highest, earlier);
        }
        let conflicting = |it: &&&Grant| it.mode.conflicts_with(grant.mode);
        if let Some(earlier) = highest.iter().filter(conflicting).find(|it| it.fence >= grant.fence)
        {
            return Err(violation("a later grant has no larger fence", earlier, grant));
        }
    }
    Ok(())
}

/// Keeps one grant per mode, that with the largest fence.
fn keep_highest<'a>(highest: &mut Vec<&'a Grant>, grant: &'a Grant) {
    match highest.iter_mut().find(|it| it.mode == grant.mode) {
        Some(kept) if kept.fence < grant.fence => *kept = grant,
        Some(_) => {}
        None => highest.push(grant),
    }
}

/// Checks a fenced register, whose accesses come in their order of effect: it
/// accepts an equal or larger fence, refuses a smaller one, and every accepted
/// write is based on the value that it replaced.
///
/// # Errors
///
/// The access that is wrong, and the one that makes it wrong.
pub fn register(accesses: &[Access]) -> Result<(), Violation> {
    let (mut mark, mut last_write): (Option<&Access>, Option<&Access>) = (None, None);
    for access in accesses {
        let good = mark.is_none_or(|mark| access.fence >= mark.fence);
        match (access.accepted, good) {
            (true, false) => return Err(violation("a smaller fence was let in", mark, access)),
            (false, true) => return Err(violation("a good fence was refused", mark, access)),
            (false, false) => continue,
            (true, true) => mark = Some(access),
        }
        if let Kind::Write { saw, .. } = access.kind {
            if saw != value(last_write) {
                return Err(violation("an update was lost", last_write, access));
            }
            last_write = Some(access);
        }
    }
    Ok(())
}

fn value(last_write: Option<&Access>) -> u64 {
    match last_write.map(|access| access.kind) {
        Some(Kind::Write { wrote, .. }) => wrote,
        _ => 0,
    }
}

fn by_name<'a>(grants: impl IntoIterator<Item = &'a Grant>) -> HashMap<&'a str, Vec<&'a Grant>> {
    let mut names: HashMap<&str, Vec<&Grant>> = HashMap::new();
    for grant in grants {
        names.entry(&grant.name).or_default().push(grant);
    }
    names
}
