//! Changes that happen as a whole or not at all.

use super::client::{Client, ask, gone, only};
use super::connection::Answer;
use super::fault;
use super::lines::version;
use super::tether::Tether;
use super::wire::{Body, Code, Request};
use crate::engines::consensus::{Life, Step};
use crate::error::Result;

/// How often a change is tried while others write the same values.
const ATTEMPTS: usize = 100;

impl Client {
    /// Keys are unique, so that one is there says that it is the one that was meant.
    pub(super) async fn change(&self, steps: Vec<Step>) -> Result<Option<u64>> {
        let tether = self.bearer(&steps).await?;
        if let [Step::Remove { key, .. }] = steps.as_slice() {
            return self.remove_one(&tether, key).await;
        }
        for _ in 0..ATTEMPTS {
            let mut requests = Vec::with_capacity(steps.len());
            let mut checks = Vec::with_capacity(steps.len());
            for step in &steps {
                let more = self.requests(step).await?;
                let is_check = !matches!(step, Step::Put { .. });
                checks.extend(more.iter().map(|_| is_check));
                requests.extend(more);
            }
            let answer = only(ask(&tether, vec![Request::Multi(requests)]).await?)?;
            let zxid = answer.zxid;
            match failed(answer)? {
                None => {
                    self.look_after_all(&steps);
                    return Ok(Some(version(zxid)));
                }
                Some((at, Code::NO_NODE)) if checks.get(at) == Some(&true) => return Ok(None),
                Some((_, Code::NO_NODE)) => self.make_above_values(&tether, &steps).await?,
                Some((_, Code::BAD_VERSION | Code::NODE_EXISTS)) => {}
                Some((_, code)) => return Err(fault::refused(code)),
            }
        }
        Err(fault::away("others write the same value all the time; try again"))
    }

    /// The session that must carry these steps out.
    async fn bearer(&self, steps: &[Step]) -> Result<std::sync::Arc<Tether>> {
        let bound = steps.iter().find_map(|step| match step {
            Step::Put { life: life @ Life::Session(_), .. } => Some(life),
            _ => None,
        });
        self.carrier(bound.unwrap_or(&Life::Forever)).await
    }

    async fn remove_one(&self, tether: &Tether, key: &str) -> Result<Option<u64>> {
        let delete = Request::Delete { path: key.to_owned(), version: -1 };
        let answer = only(ask(tether, vec![delete]).await?)?;
        let zxid = answer.zxid;
        Ok(gone(answer)?.then_some(version(zxid)))
    }

    async fn requests(&self, step: &Step) -> Result<Vec<Request>> {
        Ok(match step {
            Step::Remove { key, .. } => {
                vec![Request::Delete { path: key.to_string(), version: -1 }]
            }
            Step::Write { key, bytes, .. } => {
                let (path, data) = (key.to_string(), bytes.clone());
                vec![Request::SetData { path, data, version: -1 }]
            }
            Step::Put { name, bytes, life } => {
                self.writing(&self.layout.value(name), bytes, life).await?
            }
        })
    }

    async fn make_above_values(&self, tether: &Tether, steps: &[Step]) -> Result<()> {
        for step in steps {
            if let Step::Put { name, .. } = step {
                self.make_above(tether, &self.layout.value(name)).await?;
            }
        }
        Ok(())
    }

    fn look_after_all(&self, steps: &[Step]) {
        for step in steps {
            if let Step::Put { name, life, .. } = step {
                self.look_after(&self.layout.value(name), life, false);
            }
        }
    }
}

/// The step because of which nothing has happened.
pub(super) fn failed(answer: Answer) -> Result<Option<(usize, Code)>> {
    let steps = match answer.result {
        Ok(Body::Steps(steps)) => steps,
        Ok(_) => return Err(fault::misfit()),
        Err(code) => return Err(fault::refused(code)),
    };
    let errors =
        steps.iter().enumerate().filter_map(|(at, step)| Some((at, *step.as_ref().err()?)));
    // Those before it were fine, those behind it were not tried.
    let mut errors = errors.filter(|(_, code)| *code != Code(0) && *code != Code::INCONSISTENT);
    Ok(errors.next())
}
