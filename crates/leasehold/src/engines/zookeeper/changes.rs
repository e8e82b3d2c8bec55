//! Changes that happen as a whole or not at all.

use super::client::{Client, ask, gone, only};
use super::connection::Answer;
use super::fault;
use super::lines::version;
use super::wire::{Body, Code, Request};
use crate::engines::consensus::Step;
use crate::error::Result;

impl Client {
    /// Keys are unique, so that one is there says that it is the one that was meant.
    pub(super) async fn change(&self, steps: Vec<Step>) -> Result<Option<u64>> {
        let tether = self.sessions.any().await?;
        let mut requests: Vec<_> = steps.iter().filter_map(request).collect();
        if requests.len() == 1 && steps.len() == 1 && matches!(steps[0], Step::Remove { .. }) {
            let answer = only(ask(&tether, requests).await?)?;
            let zxid = answer.zxid;
            return Ok(gone(answer)?.then_some(version(zxid)));
        }
        requests = vec![Request::Multi(requests)];
        let answer = only(ask(&tether, requests).await?)?;
        let zxid = answer.zxid;
        match failed(answer)? {
            None => Ok(Some(version(zxid))),
            Some((_, Code::NO_NODE)) => Ok(None),
            Some((_, code)) => Err(fault::refused(code)),
        }
    }
}

fn request(step: &Step) -> Option<Request> {
    match step {
        Step::Check { key, .. } => Some(Request::Check { path: key.to_string() }),
        Step::Remove { key, .. } => Some(Request::Delete { path: key.to_string(), version: -1 }),
        Step::Put { .. } => None,
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
