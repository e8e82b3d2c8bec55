//! The version of our layout, which every root carries: releases that do not know
//! each other's must not share it.

use super::Etcd;
use super::proto::{KeyValue, RangeRequest, RequestOp, TxnRequest};
use super::txn::{self, read};
use crate::error::{Error, ErrorKind, Result};

/// The layout of this release: lines have marks. Layout 1 had no such key.
const VERSION: &str = "2";

impl Etcd {
    /// Refuses a root of another layout; whoever comes first says which it is.
    pub(super) async fn check_layout(&self) -> Result<()> {
        match self.found_layout().await? {
            Some(found) => self.check_version(&found),
            None => match self.claim_root().await? {
                None => Ok(()),
                Some(found) => self.check_version(&found),
            },
        }
    }

    fn check_version(&self, found: &KeyValue) -> Result<()> {
        match String::from_utf8_lossy(&found.value) {
            version if version == VERSION => Ok(()),
            version => Err(self.other_layout(&format!("layout {version:?}"))),
        }
    }

    /// The version that is there. Without one, the root has to be empty.
    async fn found_layout(&self) -> Result<Option<KeyValue>> {
        let key = self.keys.layout();
        // What has been given up goes by itself, and says nothing about a layout.
        let [before, after] = self.keys.all_but_tombstones();
        let some = |(key, range_end)| {
            read(RangeRequest { key, range_end, limit: 1, keys_only: true, ..Default::default() })
        };
        let request = TxnRequest {
            compare: vec![txn::absent(&key)],
            success: vec![some(before), some(after)],
            failure: vec![read(txn::one(&key))],
        };
        let answer = self.link.ask(request, self.link.deadline()).await?;
        let known = !answer.succeeded;
        let found = txn::found(answer).find_map(|mut range| range.kvs.pop());
        match found {
            Some(_) if !known => Err(self.other_layout("the layout of an earlier release")),
            found => Ok(found),
        }
    }

    /// Writes our version; what others have written meanwhile, if they have.
    async fn claim_root(&self) -> Result<Option<KeyValue>> {
        let key = self.keys.layout();
        let success: Vec<RequestOp> = vec![txn::put(&key, VERSION.into(), 0)];
        let failure = vec![read(txn::one(&key))];
        let request = TxnRequest { compare: vec![txn::absent(&key)], success, failure };
        let answer = self.link.ask(request, self.link.deadline()).await?;
        Ok(txn::found(answer).find_map(|mut range| range.kvs.pop()))
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
