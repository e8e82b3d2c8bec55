//! The version of our layout, which every root carries: releases that do not know
//! each other's must not share it.

use super::Etcd;
use super::proto::{KeyValue, TxnRequest};
use super::txn::{self, read};
use crate::error::{Error, ErrorKind, Result};

/// The layout of this release: lines have marks. Layout 1 had no such key.
const VERSION: &str = "2";

impl Etcd {
    /// Refuses a root of another layout; whoever comes first says which it is. Who may
    /// not read that, or not write it, uses what others look after. With names that are
    /// raw it counts as well: values and tombstones lie below the root all the same.
    pub(super) async fn check_layout(&self) -> Result<()> {
        let key = self.keys.layout();
        let found = match self.link.ask(txn::one(&key), self.link.deadline()).await {
            Err(error) if error.kind() == ErrorKind::Denied => return Ok(()),
            found => found?.kvs.pop(),
        };
        match found {
            Some(found) => self.check_version(&found),
            None => match self.claim_root(&key).await {
                Err(error) if error.kind() == ErrorKind::Denied => Ok(()),
                claimed => claimed,
            },
        }
    }

    fn check_version(&self, found: &KeyValue) -> Result<()> {
        match String::from_utf8_lossy(&found.value) {
            version if version == VERSION => Ok(()),
            version => Err(self.other_layout(&format!("layout {version:?}"))),
        }
    }

    /// Writes our version where nothing of ours is; unless others have written one
    /// meanwhile.
    async fn claim_root(&self, key: &str) -> Result<()> {
        // What has been given up goes by itself, and says nothing about a layout.
        let empty = self.keys.all_but_tombstones().map(|(from, to)| txn::none_between(from, to));
        let request = TxnRequest {
            compare: std::iter::once(txn::absent(key)).chain(empty).collect(),
            success: vec![txn::put(key, VERSION.into(), 0)],
            failure: vec![read(txn::one(key))],
        };
        let answer = self.link.ask(request, self.link.deadline()).await?;
        let written = answer.succeeded;
        match txn::found(answer).find_map(|mut range| range.kvs.pop()) {
            _ if written => Ok(()),
            Some(found) => self.check_version(&found),
            None => Err(self.other_layout("the layout of an earlier release")),
        }
    }

    fn other_layout(&self, found: &str) -> Error {
        let root = self.keys.root();
        let message = format!(
            "the keys below the root have {found}, this release knows layout {VERSION}: use the \
             release that made them, or another root (option \"root\"); or stop all who use them, \
             remove them with `etcdctl del --prefix {root}/`, and open again"
        );
        Error::new(ErrorKind::Unsupported, message).with("root", root)
    }
}
