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
//! | `verbs`, `modes` | the contract, straight on the engine |
//! | `replies` | replies that are lost |
//! | `cancel` | futures dropped at every point |
//! | `residue` | what is left: nothing |

mod cancel;
pub mod check;
mod direct;
mod ending;
mod engine;
mod exclusion;
mod expiry;
mod fences;
mod limits;
mod loss;
mod modes;
mod names;
mod operate;
pub(crate) mod patience;
mod renewal;
mod replies;
mod residue;
mod store;
mod verbs;
mod waiting;

pub use check::{Check, LIMIT, Outcome};
pub use engine::EngineUnderTest;
use libtest_mimic::Trial;
pub use residue::files_of_clients;
pub use store::Store;

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
        verbs::checks(),
        modes::checks(),
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
    fit.map(|check| trial(engine, check)).collect()
}

fn trial(engine: EngineUnderTest, check: Check) -> Trial {
    Trial::test(format!("{}::{}", engine.name(), check.name()), move || {
        let store = engine.store().map_err(|why| why.to_string())?;
        Ok(check.run(store, LIMIT)?)
    })
}
