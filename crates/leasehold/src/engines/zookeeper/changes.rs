//! Changes that happen as a whole or not at all.

use super::client::{ZkClient, ask, gone, only};
use super::connection::ZkAnswer;
use super::fault;
use super::session_link::SessionLink;
use super::wire::{Body, Code, ZkRequest, version};
use crate::engines::consensus::{TxnStep, ValueLife};
use crate::error::Result;
use crate::name::Name;

/// How often a change is tried while others write the same values.
const ATTEMPTS: usize = 100;

impl ZkClient {
    /// Keys are unique, so that one is there says that it is the one that was meant.
    pub(super) async fn change(&self, steps: Vec<TxnStep>) -> Result<Option<u64>> {
        let session_link = self.bearer(&steps).await?;
        if let [TxnStep::Remove { key, .. }] = steps.as_slice() {
            return self.remove_one(&session_link, key).await;
        }
        for _ in 0..ATTEMPTS {
            let mut requests = Vec::with_capacity(steps.len());
            let mut checks = Vec::with_capacity(steps.len());
            for step in &steps {
                let more = self.requests(step).await?;
                let is_check = value(step).is_none();
                checks.extend(more.iter().map(|_| is_check));
                requests.extend(more);
            }
            let answer = only(ask(&session_link, vec![ZkRequest::Multi(requests)]).await?)?;
            let zxid = answer.zxid;
            match failed(answer)? {
                None => {
                    self.look_after_all(&steps)?;
                    return Ok(Some(version(zxid)));
                }
                Some((at, Code::NO_NODE)) if checks.get(at) == Some(&true) => return Ok(None),
                Some((_, Code::NO_NODE)) => self.make_above_values(&session_link, &steps).await?,
                Some((_, Code::BAD_VERSION | Code::NODE_EXISTS)) => {}
                Some((_, code)) => return Err(fault::refused(code)),
            }
        }
        Err(fault::away("others write the same value all the time; try again"))
    }

    /// The session that must carry these steps out.
    async fn bearer(&self, steps: &[TxnStep]) -> Result<std::sync::Arc<SessionLink>> {
        let bound = steps.iter().find_map(|step| match step {
            TxnStep::Put { life: life @ ValueLife::Session(_), .. } => Some(life),
            _ => None,
        });
        self.carrier(bound.unwrap_or(&ValueLife::Forever)).await
    }

    async fn remove_one(&self, session_link: &SessionLink, key: &str) -> Result<Option<u64>> {
        let delete = ZkRequest::Delete { path: key.to_owned(), version: -1 };
        let answer = only(ask(session_link, vec![delete]).await?)?;
        let zxid = answer.zxid;
        Ok(gone(answer)?.then_some(version(zxid)))
    }

    async fn requests(&self, step: &TxnStep) -> Result<Vec<ZkRequest>> {
        Ok(match step {
            TxnStep::Remove { key, .. } => {
                vec![ZkRequest::Delete { path: key.to_string(), version: -1 }]
            }
            TxnStep::Write { key, bytes, .. } => {
                let (path, data) = (key.to_string(), bytes.clone());
                vec![ZkRequest::SetData { path, data, version: -1 }]
            }
            TxnStep::Put { name, bytes, life } => {
                self.writing(&self.layout.value(name)?, bytes, life).await?
            }
            TxnStep::Delete { name } => self.deleting(&self.layout.value(name)?).await?,
        })
    }

    async fn make_above_values(&self, session_link: &SessionLink, steps: &[TxnStep]) -> Result<()> {
        for name in steps.iter().filter_map(value) {
            self.make_above_value(session_link, &self.layout.value(name)?).await?;
        }
        Ok(())
    }

    fn look_after_all(&self, steps: &[TxnStep]) -> Result<()> {
        for step in steps {
            match step {
                TxnStep::Put { name, life, .. } => {
                    self.look_after(&self.layout.value(name)?, life, false);
                }
                TxnStep::Delete { name } => {
                    self.look_after(&self.layout.value(name)?, &ValueLife::Forever, true);
                }
                TxnStep::Remove { .. } | TxnStep::Write { .. } => {}
            }
        }
        Ok(())
    }
}

/// The name of the value that a step changes, if it is about one: what is found there
/// fails no change.
const fn value(step: &TxnStep) -> Option<&Name> {
    match step {
        TxnStep::Put { name, .. } | TxnStep::Delete { name } => Some(name),
        TxnStep::Remove { .. } | TxnStep::Write { .. } => None,
    }
}

/// The step because of which nothing has happened.
pub(super) fn failed(answer: ZkAnswer) -> Result<Option<(usize, Code)>> {
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
