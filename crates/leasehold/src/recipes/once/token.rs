//! One-time tokens: signed, so that issuing one writes nothing.

use std::fmt;
use std::fmt::Display;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::Turn;
use super::builder::{Done, Kept, Once};
use super::fingerprint::Fingerprint;
use super::key::{Key, millis};
use super::refusal::{OnceError, Refusal, TokenFault};
use crate::claim::LeaseId;
use crate::error::{Error, Result};
use crate::hex;

/// How tokens are written.
const FORMAT: u8 = 1;
/// Format, key, expiry, scope and nonce, which are signed.
const SIGNED: usize = 34;
/// How much of the signature is kept: what is left cannot be guessed.
const SIGNATURE: usize = 16;
/// A secret that can be guessed is none.
const SECRET_MIN: usize = 32;

/// The secrets that tokens are signed with, each under a number.
///
/// New tokens are signed with the first. To rotate, put a new one in front and
/// accept the old one until its last token has expired.
#[derive(Clone)]
pub struct TokenKeys(Vec<(u8, Hmac<Sha256>)>);

impl TokenKeys {
    /// Signs with `secret`, under this number.
    ///
    /// # Errors
    ///
    /// `Invalid` if the secret has fewer than 32 bytes.
    pub fn new(number: u8, secret: &[u8]) -> Result<Self> {
        Self(Vec::new()).accept(number, secret)
    }

    /// Also takes tokens that were signed with this secret.
    ///
    /// # Errors
    ///
    /// `Invalid` if the secret has fewer than 32 bytes, or the number is taken.
    pub fn accept(mut self, number: u8, secret: &[u8]) -> Result<Self> {
        if secret.len() < SECRET_MIN {
            let text = format!("a secret for tokens has at least {SECRET_MIN} bytes");
            return Err(Error::invalid(text + "; take them from a random generator"));
        }
        if self.get(number).is_some() {
            return Err(Error::invalid(format!("there are two secrets with the number {number}")));
        }
        let key = Hmac::new_from_slice(secret)
            .map_err(|cause| Error::invalid("this is no secret").caused_by(cause))?;
        self.0.push((number, key));
        Ok(self)
    }

    fn get(&self, number: u8) -> Option<&Hmac<Sha256>> {
        self.0.iter().find(|(known, _)| *known == number).map(|(_, key)| key)
    }
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(number, _)| number)).finish()
    }
}

/// One-time tokens for forms and links: issued without a write, redeemed once.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use leasehold::once::{Fingerprint, TokenKeys};
///
/// # let secret = [7; 32];
/// let orders = leasehold::Locks::memory().once("orders");
/// let tokens = orders.tokens(TokenKeys::new(1, &secret)?);
///
/// let token = tokens.issue("session of ann", Duration::from_secs(900));
/// let order = async || {
///     let work = async |_turn| Ok::<_, String>("order 7");
///     tokens.redeem(&token, "session of ann", Fingerprint::none(), work).await
/// };
/// assert!(!order().await?.replayed);
/// assert_eq!(order().await?.outcome, b"order 7", "a second click sees the same order");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Tokens {
    once: Once,
    keys: TokenKeys,
    scope: [u8; 8],
}

impl Once {
    /// Tokens of this scope.
    #[must_use]
    pub fn tokens(&self, keys: TokenKeys) -> Tokens {
        let space = self.builder.locks.own_namespace().as_str();
        let scope = Sha256::digest(format!("{space}/{}", self.scope));
        let mut mark = [0; 8];
        mark.copy_from_slice(&scope[..8]);
        Tokens { once: self.clone(), keys, scope: mark }
    }
}

/// What a token says, if it is one.
struct Said {
    nonce: String,
    expires: u64,
    scope: [u8; 8],
}

impl Tokens {
    /// As [`Once::max_outcome`].
    #[must_use]
    pub fn max_outcome(mut self, bytes: usize) -> Self {
        self.once = self.once.max_outcome(bytes);
        self
    }

    /// A new token for `subject`: a user or a session, whom it cannot be taken
    /// from, or empty. Writes nothing and asks nobody.
    #[must_use]
    pub fn issue(&self, subject: &str, ttl: Duration) -> String {
        let Some((number, key)) = self.keys.0.first() else { return String::new() };
        let expires = self.once.now().saturating_add(millis(ttl));
        let mut token = Vec::with_capacity(SIGNED + SIGNATURE);
        token.extend([FORMAT, *number]);
        token.extend(expires.to_be_bytes());
        token.extend(self.scope);
        token.extend(LeaseId::random().to_bits().to_be_bytes());
        let signature = signed(key, &token, subject).finalize().into_bytes();
        token.extend(&signature[..SIGNATURE]);
        hex::encode(&token)
    }

    /// Runs `work` if the token has not been redeemed; otherwise gives what it
    /// came to. What is redeemed stays so for as long as the token could be
    /// used.
    ///
    /// # Errors
    ///
    /// [`Refusal::Token`] for one that is forged, expired or meant for something
    /// else; otherwise as [`Once::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Once::run`].
    pub async fn redeem<F, Fut, T, E>(
        &self,
        token: &str,
        subject: &str,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Done, OnceError<E>>
    where
        F: FnOnce(Turn) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        T: Into<Kept>,
        E: Display,
    {
        let said = self.read(token, subject).map_err(Refusal::Token)?;
        let left = Duration::from_millis(said.expires.saturating_sub(self.once.now()));
        let key = Key::from(said.nonce);
        let call = self.once.call(&key, fingerprint, self.once.keep.max(left))?;
        if left.is_zero() {
            // Whoever was in time may ask again later.
            let done = self.once.recall(&call).await?;
            return done.ok_or_else(|| Refusal::Token(TokenFault::Expired).into());
        }
        self.once.carry_out(call, work).await
    }

    fn read(&self, token: &str, subject: &str) -> Result<Said, TokenFault> {
        let bytes = hex::decode(token).filter(|bytes| bytes.len() == SIGNED + SIGNATURE);
        let bytes = bytes.filter(|bytes| bytes[0] == FORMAT).ok_or(TokenFault::Forged)?;
        let (head, signature) = bytes.split_at(SIGNED);
        let key = self.keys.get(head[1]).ok_or(TokenFault::Forged)?;
        // Takes the same time wherever the first difference is.
        let check = signed(key, head, subject).verify_truncated_left(signature);
        check.map_err(|_| TokenFault::Forged)?;
        let said = Said::of(head).ok_or(TokenFault::Forged)?;
        if said.scope == self.scope { Ok(said) } else { Err(TokenFault::OtherScope) }
    }
}

impl Said {
    fn of(head: &[u8]) -> Option<Self> {
        let expires = u64::from_be_bytes(head.get(2..10)?.try_into().ok()?);
        let scope = head.get(10..18)?.try_into().ok()?;
        Some(Self { nonce: hex::encode(head.get(18..)?), expires, scope })
    }
}

fn signed(key: &Hmac<Sha256>, head: &[u8], subject: &str) -> Hmac<Sha256> {
    key.clone().chain_update(head).chain_update(subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::Locks;

    fn tokens(scope: &str, number: u8) -> Tokens {
        Locks::memory().once(scope).tokens(TokenKeys::new(number, &[number; 32]).unwrap())
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_token_that_is_changed_anywhere_is_forged() {
        let tokens = tokens("a", 1);
        let token = tokens.issue("ann", HOUR);
        assert!(tokens.read(&token, "ann").is_ok());
        assert_eq!(tokens.read(&token, "bob").err(), Some(TokenFault::Forged));
        for at in 0..token.len() {
            let mut other = token.clone().into_bytes();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(tokens.read(&other, "ann").err(), Some(TokenFault::Forged), "{at}");
        }
        for bad in ["", "zz", &token[2..], &format!("{token}00")] {
            assert_eq!(tokens.read(bad, "ann").err(), Some(TokenFault::Forged), "{bad}");
        }
    }

    #[test]
    fn a_token_is_for_one_scope() {
        let token = tokens("a", 1).issue("", HOUR);
        assert_eq!(tokens("b", 1).read(&token, "").err(), Some(TokenFault::OtherScope));
    }

    #[test]
    fn keys_rotate() {
        let (old, new) = (tokens("a", 1), tokens("a", 2));
        let token = old.issue("", HOUR);
        assert!(new.read(&token, "").is_err());
        let keys = TokenKeys::new(2, &[2; 32]).unwrap().accept(1, &[1; 32]).unwrap();
        let both = Locks::memory().once("a").tokens(keys);
        assert!(both.read(&token, "").is_ok());
        assert!(new.read(&both.issue("", HOUR), "").is_ok(), "signed with the first");
    }

    #[test]
    fn weak_secrets_and_twin_numbers_are_refused() {
        assert!(TokenKeys::new(1, &[0; 31]).is_err());
        assert!(TokenKeys::new(1, &[0; 32]).unwrap().accept(1, &[1; 32]).is_err());
        let keys = TokenKeys::new(1, &[9; 32]).unwrap();
        assert_eq!(format!("{keys:?}"), "[1]");
    }
}
