//! Values.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::client::Client;
use super::fault;
use crate::engines::consensus::{If, Life, News, Value};
use crate::error::Result;
use crate::name::{Name, Namespace};

impl Client {
    pub(super) async fn load(&self, _name: Name) -> Result<Option<Value>> {
        Err(fault::misfit())
    }
    pub(super) async fn store(
        &self,
        _name: Name,
        _condition: If,
        _bytes: Option<Vec<u8>>,
        _life: Life,
        _guard: Option<Arc<str>>,
    ) -> Result<Option<u64>> {
        Err(fault::misfit())
    }
    pub(super) async fn scan(
        &self,
        _namespace: Namespace,
        _prefix: Arc<str>,
        _from: Arc<str>,
        _most: usize,
    ) -> Result<(Vec<(Name, Value)>, bool)> {
        Err(fault::misfit())
    }
    pub(super) async fn follow(
        &self,
        _namespace: Namespace,
        _prefix: Arc<str>,
    ) -> Result<mpsc::UnboundedReceiver<News>> {
        Err(fault::misfit())
    }
}
