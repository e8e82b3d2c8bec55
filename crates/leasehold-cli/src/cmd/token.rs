//! `token`: one-time tokens, issued and redeemed.

use std::time::Duration;

use leasehold::Locks;
use leasehold::once::TokenKeys;

use super::once::{about, on, replay, run};
use crate::args::{Global, Issue, Redeem, Token, TokenAction};
use crate::failure::Failure;
use crate::{engine, output};

/// Where the secrets are: others can read a command line.
const SECRETS: &str = "LEASEHOLD_TOKEN_SECRETS";
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) async fn token(global: &Global, args: &Token) -> Result<u8, Failure> {
    match &args.action {
        TokenAction::Issue(args) => issue(global, args).map(|()| 0),
        TokenAction::Redeem(args) => redeem(global, args).await,
    }
}

/// Asks no engine.
fn issue(global: &Global, args: &Issue) -> Result<(), Failure> {
    let locks = Locks::memory();
    let locks = match &global.namespace {
        Some(namespace) => locks.namespace(namespace.as_str())?,
        None => locks,
    };
    let token = locks.once(&args.scope).tokens(keys()?).issue(&args.subject, args.ttl);
    output::print(&(token + "\n"))
}

async fn redeem(global: &Global, args: &Redeem) -> Result<u8, Failure> {
    let keys = keys()?;
    let locks = engine::open(global).await?;
    let tokens = on(&locks, &args.terms).tokens(keys);
    let work = async |turn| run(&args.command, &args.terms, turn).await;
    let about = about(&args.command);
    let done = tokens.redeem(&args.token, &args.subject, about, work).await;
    // What could not be given back ends with its lease.
    let _ = locks.shutdown(LAST_WORDS).await;
    replay(done)
}

/// `NUMBER:SECRET,..`; the first signs.
fn keys() -> Result<TokenKeys, Failure> {
    let form = || Failure::usage(format!("set {SECRETS} to NUMBER:SECRET, or several with commas"));
    let text = std::env::var(SECRETS).map_err(|_| form())?;
    let mut keys: Option<TokenKeys> = None;
    for pair in text.split(',') {
        let (number, secret) = pair.split_once(':').ok_or_else(form)?;
        let number = number.trim().parse().map_err(|_| form())?;
        keys = Some(match keys {
            None => TokenKeys::new(number, secret.as_bytes())?,
            Some(keys) => keys.accept(number, secret.as_bytes())?,
        });
    }
    keys.ok_or_else(form)
}
