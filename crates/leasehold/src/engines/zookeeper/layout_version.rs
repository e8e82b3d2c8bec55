//! The version of our layout, which every root carries: releases that do not know
//! each other's must not share it.

use super::client::{ZkClient, ask, only};
use super::fault;
use super::wire::{Body, Code, CreateMode, ZkRequest};
use crate::error::{Error, ErrorKind, Result};

/// The layout of this release. Roots without a version have this one: it is that of
/// Curator, whose locks may have been there before ours.
const VERSION: &str = "1";
/// How often the root is made again while others remove it.
const ATTEMPTS: usize = 10;

impl ZkClient {
    /// Refuses a root of another layout; whoever comes first says which it is. With
    /// names that are raw it counts as well: values lie below the root all the same.
    pub(super) async fn check_layout(&self) -> Result<()> {
        let path = self.layout.version();
        for _ in 0..ATTEMPTS {
            let look = ZkRequest::GetData { path: path.clone(), watch: false };
            match only(self.ask_now(vec![look]).await?)?.result {
                Ok(Body::Data(found, _)) => return self.check_version(&found),
                Ok(_) => return Err(fault::misfit()),
                Err(Code::NO_NODE) if self.write_version(&path).await? => return Ok(()),
                Err(Code::NO_NODE) => {}
                // It is another's to look after.
                Err(Code::NO_AUTH) => return Ok(()),
                Err(code) => return Err(fault::refused(code)),
            }
        }
        Err(fault::away("the root is removed as often as it is made"))
    }

    /// Whether that is done, or left to those who may.
    async fn write_version(&self, path: &str) -> Result<bool> {
        let session_link = self.sessions.any().await?;
        let allowed = self.make_above(&session_link, path).await?;
        let node = self.create(path.to_owned(), VERSION.into(), CreateMode::Persistent);
        match only(ask(&session_link, vec![node]).await?)?.result {
            Ok(_) | Err(Code::NO_AUTH) => Ok(true),
            // Not even its root is ours to make.
            Err(Code::NO_NODE) if !allowed => Ok(true),
            Err(Code::NO_NODE | Code::NODE_EXISTS) => Ok(false),
            Err(code) => Err(fault::refused(code)),
        }
    }

    fn check_version(&self, found: &[u8]) -> Result<()> {
        if found == VERSION.as_bytes() {
            return Ok(());
        }
        let (found, root) = (String::from_utf8_lossy(found), self.layout.root());
        let message = format!(
            "the nodes below the root have layout {found:?}, this release knows layout {VERSION}: \
             use the release that made them, or another root (option \"root\"); or stop all who \
             use them, remove them with `deleteall {root}` in zkCli.sh, and open again"
        );
        Err(Error::new(ErrorKind::Unsupported, message).with("root", root))
    }
}
