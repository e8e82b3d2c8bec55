//! Home: the library's own thread and runtime, one per process.
//!
//! Leases are renewed and released here, so a user whose workers are all busy
//! loses nothing, a `Drop` needs no runtime around it, and a future that is
//! dropped half way can be finished by someone else.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::claim;
use crate::error::{Error, ErrorKind, Result};

/// The home of this process, as long as some client uses it.
static CURRENT: Mutex<Weak<Home>> = Mutex::new(Weak::new());

/// A running home; it ends when the last client lets go of it.
#[derive(Debug)]
pub(crate) struct Home {
    pid: u32,
    handle: Handle,
    /// Dropping it ends the thread.
    _alive: oneshot::Sender<()>,
}

impl Home {
    /// The home of this process, started if there is none.
    pub(crate) fn find() -> Result<Arc<Self>> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(home) = current.upgrade()
            && home.is_here()
        {
            return Ok(home);
        }
        let home = Arc::new(Self::start()?);
        *current = Arc::downgrade(&home);
        Ok(home)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Fails in a forked child: threads are not inherited, so nobody there
    /// would renew or release anything.
    pub(crate) fn check_pid(&self) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "opened in process {} but used in process {} after a fork; open anew in the child",
            self.pid,
            std::process::id()
        )))
    }

    fn is_here(&self) -> bool {
        self.pid == std::process::id()
    }

    fn start() -> Result<Self> {
        claim::id::new_process();
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        let live = move || {
            // An error means that the last client has gone: the normal end.
            let _ = runtime.block_on(ended);
        };
        let thread = std::thread::Builder::new().name("leasehold".into());
        thread.spawn(live).map_err(no_thread)?;
        Ok(Self { pid: std::process::id(), handle, _alive: alive })
    }
}

fn no_thread(cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "cannot start the library's thread").caused_by(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_one_home_and_the_last_one_ends_it() {
        let a = Home::find().unwrap();
        let b = Home::find().unwrap();
        assert!(Arc::ptr_eq(&a, &b));
        let (tx, rx) = std::sync::mpsc::channel::<()>();
        a.handle().spawn(async move {
            let _kept_until_the_runtime_ends = tx;
            std::future::pending::<()>().await;
        });
        drop((a, b));
        assert!(rx.recv().is_err(), "tasks end with home");
    }
}
