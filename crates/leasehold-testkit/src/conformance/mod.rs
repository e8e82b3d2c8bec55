//! What every engine must do: one suite, one trial per check.
//!
//! A check is an async function over a [`Store`], named as a sentence. Which
//! checks an engine must pass follows from its profile; what a profile does
//! not promise is checked to be refused or unknown.
//!
//! | file | about |
//! |---|---|
//! | `exclusion` | one holder at a time |
//! | `waiting` | try, wait, limits, order, hand-over |
//! | `expiry` | what runs out, when, and what the next one hears |
//! | `renewal` | what is kept alive |
//! | `fences` | numbers that only grow |
//! | `loss` | what a holder is told |
//! | `ending` | guards and clients that end in odd ways |
//! | `limits`, `names` | what is refused, and what is not the same |
//! | `operate` | list, show, evict |
//! | `rwlock`, `semaphore`, `all`, `owners` | the other recipes |
//! | `fenced` | fences at the resource |
//! | `promises` | routes, requirements, what a weaker engine refuses |
//! | `verbs`, `modes` | the contract, straight on the engine |
//! | `records` | versioned values, where an engine keeps them |
//! | `watchers` | whoever watches them hears of every change |
//! | `recipes` | counters and latches, which are records |
//! | `cache` | records at hand, as the store has them |
//! | `elections`, `barriers` | recipes over leases and records |
//! | `elections`, `groups`, `barriers`, `double_barriers` | recipes over leases and records |
//! | `once` | work that is done once for each key |
//! | `ids` | ids that are unique over all clients |
//! | `replies` | replies that are lost |
//! | `cancel` | futures dropped at every point |
//! | `residue` | what is left: nothing |

mod all;
mod barriers;
mod cache;
mod cancel;
pub mod check;
mod direct;
mod double_barriers;
mod elections;
mod ending;
mod engine;
mod exclusion;
mod expiry;
mod fenced;
mod fences;
mod groups;
mod ids;
mod lateness;
mod limits;
mod loss;
mod modes;
mod names;
mod once;
mod operate;
mod owners;
pub(crate) mod patience;
mod promises;
mod recipe;
mod recipes;
mod records;
mod renewal;
mod replies;
mod residue;
mod rwlock;
mod semaphore;
mod shared;
mod store;
mod verbs;
mod waiting;
mod watchers;

pub use check::{Check, LIMIT, Outcome};
pub use engine::EngineUnderTest;
use libtest_mimic::Trial;
pub use recipe::{Client, Lockable, Recipe};
pub use residue::files_of_clients;
pub use shared::end_servers;
pub use store::Store;

use crate::sweep::block_on;

/// Every check there is.
#[must_use]
pub fn checks() -> Vec<Check> {
    [
        exclusion::checks(),
        waiting::checks(),
        expiry::checks(),
        renewal::checks(),
        fences::checks(),
        loss::checks(),
        ending::checks(),
        limits::checks(),
        names::checks(),
        operate::checks(),
        rwlock::checks(),
        semaphore::checks(),
        all::checks(),
        owners::checks(),
        fenced::checks(),
        promises::checks(),
        verbs::checks(),
        modes::checks(),
        records::checks(),
        watchers::checks(),
        recipes::checks(),
        cache::checks(),
        elections::checks(),
        barriers::checks(),
        double_barriers::checks(),
        groups::checks(),
        once::checks(),
        ids::checks(),
        replies::checks(),
        cancel::checks(),
        residue::checks(),
    ]
    .concat()
}

/// The check of this name.
///
/// # Panics
///
/// If there is none: a test that names it would prove nothing.
#[must_use]
pub fn check(name: &str) -> Check {
    let found = checks().into_iter().find(|check| check.name() == name);
    found.unwrap_or_else(|| panic!("there is no check {name:?}"))
}

/// One trial for each check that the engine must pass. An engine that cannot
/// be opened fails; it is not skipped.
#[must_use]
pub fn trials(engine: &EngineUnderTest) -> Vec<Trial> {
    let engine = *engine;
    let profile = match engine.profile() {
        Ok(profile) => profile,
        Err(why) => {
            let failed = move || Err(why.to_string().into());
            return vec![Trial::test(format!("{}::opens", engine.name()), failed)];
        }
    };
    let fit = checks().into_iter().filter(|check| check.applies_to(&profile));
    let each = fit.flat_map(|check| check.recipes().iter().map(move |recipe| (check, *recipe)));
    let granted = each.filter(|(_, recipe)| recipe.is_granted_by(&profile));
    let taken = granted.filter(|(check, recipe)| engine.takes(check, *recipe));
    taken.map(|(check, recipe)| trial(engine, check, recipe)).collect()
}

/// `engine::subject::sentence`, with the recipe in between where a check is
/// rerun over several.
fn trial(engine: EngineUnderTest, check: Check, recipe: Recipe) -> Trial {
    let (engine_name, name) = (engine.name(), check.name());
    let name = match check.recipes() {
        [_] => format!("{engine_name}::{name}"),
        _ => format!("{engine_name}::{}::{name}", recipe.word()),
    };
    Trial::test(name, move || {
        let store = engine.store().map_err(|why| why.to_string())?;
        let store = block_on(store.playing(recipe)).map_err(|why| why.to_string())?;
        Ok(check.run(store, LIMIT)?)
    })
}
