//! `token`: one-time tokens, issued and redeemed.

use leasehold::Locks;
use leasehold::once::TokenKeys;

use super::once::{Cut, about, finish, on, run};
use crate::args::{Global, Issue, Redeem, Token, TokenAction};
use crate::failure::Failure;
use crate::{engine, output};

/// Where the secrets are: others can read a command line.
const SECRETS: &str = "LEASEHOLD_TOKEN_SECRETS";

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
    let (about, cut) = (about(&args.command), Cut::default());
    let work = async |turn| run(&args.command, &args.terms, turn, &cut).await;
    let done = cut.or(tokens.redeem(&args.token, &args.subject, about, work)).await;
    finish(&locks, done).await
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
