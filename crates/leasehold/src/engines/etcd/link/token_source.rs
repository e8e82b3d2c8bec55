//! The token that proves who we are.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request};

use super::call;
use super::fault::CallFault;
use crate::engines::etcd::proto::AuthenticateRequest;
use crate::engines::etcd::settings::EtcdLogin;
use crate::error::{Error, ErrorKind};

/// Tokens of etcd end after some minutes of silence, or when roles change; then a
/// new one is asked for.
pub(super) struct TokenSource {
    login: Option<EtcdLogin>,
    token: Mutex<Token>,
}

#[derive(Clone, Default)]
enum Token {
    #[default]
    Unasked,
    Known(AsciiMetadataValue),
    /// The servers ask nobody who they are.
    Needless,
}

impl TokenSource {
    pub(super) fn new(login: Option<EtcdLogin>) -> Self {
        Self { login, token: Mutex::default() }
    }

    /// Puts the token on a request, asking for one at first need.
    pub(super) async fn show<C>(
        &self,
        channel: &Channel,
        request: &mut Request<C>,
    ) -> Result<(), CallFault> {
        let Some(login) = &self.login else { return Ok(()) };
        let known = self.token().clone();
        let token = match known {
            Token::Unasked => ask(login, channel).await?,
            known => known,
        };
        *self.token() = token.clone();
        if let Token::Known(token) = token {
            request.metadata_mut().insert("token", token);
        }
        Ok(())
    }

    /// Whether another token may help.
    pub(super) fn forget(&self) -> bool {
        *self.token() = Token::Unasked;
        self.login.is_some()
    }

    fn token(&self) -> MutexGuard<'_, Token> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(login: &EtcdLogin, channel: &Channel) -> Result<Token, CallFault> {
    let request =
        AuthenticateRequest { name: login.user.clone(), password: login.password.clone() };
    match call::unary(channel.clone(), Request::new(request)).await {
        Ok(answer) => answer.token.parse().map(Token::Known).map_err(|_| unreadable()),
        Err(status) if is_off(&status) => Ok(Token::Needless),
        Err(status) => Err(CallFault::of(&status, false)),
    }
}

fn is_off(status: &tonic::Status) -> bool {
    status.code() == Code::FailedPrecondition && status.message().contains("not enabled")
}

fn unreadable() -> CallFault {
    CallFault::Refused(Error::new(
        ErrorKind::Unexpected,
        "etcd gave a token that cannot be sent back",
    ))
}
