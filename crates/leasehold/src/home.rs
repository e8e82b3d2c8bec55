//! Home: the library's own thread and runtime, one per process.
//!
//! Leases are renewed and released here, so a user whose workers are all busy
//! loses nothing, a `Drop` needs no runtime around it, and a future that is
//! dropped half way can be finished by someone else.

use std::sync::Arc;
#[cfg(not(leasehold_sim))]
use std::sync::{Mutex, PoisonError, Weak};
use std::thread::ThreadId;

#[cfg(not(leasehold_sim))]
use tokio::runtime::Builder;
use tokio::runtime::{self, EnterGuard};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::claim;
#[cfg(not(leasehold_sim))]
use crate::error::ErrorKind;
use crate::error::{Error, Result};

/// The home of this process, as long as some client uses it.
#[cfg(not(leasehold_sim))]
static CURRENT: Mutex<Weak<Home>> = Mutex::new(Weak::new());

/// A running home; it ends when the last client lets go of it.
#[derive(Debug)]
pub(crate) struct Home {
    pid: u32,
    thread: ThreadId,
    handle: Handle,
    /// Dropping it ends the thread.
    _alive: oneshot::Sender<()>,
}

impl Home {
    /// The home of this process, started if there is none.
    #[cfg(not(leasehold_sim))]
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

    /// In a simulation every client has a home of its own, and all share the
    /// thread.
    #[cfg(leasehold_sim)]
    pub(crate) fn find() -> Result<Arc<Self>> {
        claim::id::new_process();
        let (alive, _) = oneshot::channel();
        let (pid, handle) = (std::process::id(), Handle::current());
        let thread = std::thread::current().id();
        Ok(Arc::new(Self { pid, thread, handle, _alive: alive }))
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

    /// Whether this is its thread, where nobody may wait for what happens there.
    pub(crate) fn is_this_thread(&self) -> bool {
        self.thread == std::thread::current().id()
    }

    fn is_here(&self) -> bool {
        self.pid == std::process::id()
    }

    #[cfg(not(leasehold_sim))]
    fn start() -> Result<Self> {
        claim::id::new_process();
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = Handle(runtime.handle().clone());
        let (alive, ended) = oneshot::channel::<()>();
        let live = move || {
            // An error means that the last client has gone: the normal end.
            let _ = runtime.block_on(ended);
        };
        let thread = std::thread::Builder::new().name("leasehold".into());
        let thread = thread.spawn(live).map_err(no_thread)?.thread().id();
        Ok(Self { pid: std::process::id(), thread, handle, _alive: alive })
    }
}

/// The way to home: every task of the library begins here.
#[derive(Clone, Debug)]
pub(crate) struct Handle(runtime::Handle);

impl Handle {
    /// The home that polls this task.
    #[cfg(any(feature = "sqlite", feature = "_server"))]
    pub(crate) fn current() -> Self {
        Self(runtime::Handle::current())
    }

    /// The home that polls this, if one does.
    pub(crate) fn try_current() -> Option<Self> {
        runtime::Handle::try_current().ok().map(Self)
    }

    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.0.enter()
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        #[cfg(leasehold_sim)]
        let task = crate::sim::gated(task);
        self.0.spawn(task)
    }

    /// Starts a task that ends with `set`.
    #[cfg(any(feature = "sqlite", feature = "redis", feature = "postgres", feature = "mysql"))]
    pub(crate) fn spawn_in<T: Send + 'static>(
        &self,
        set: &mut tokio::task::JoinSet<T>,
        task: impl Future<Output = T> + Send + 'static,
    ) {
        #[cfg(leasehold_sim)]
        let task = crate::sim::gated(task);
        set.spawn_on(task, &self.0);
    }
}

#[cfg(not(leasehold_sim))]
fn no_thread(cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "cannot start the library's thread").caused_by(cause)
}

#[cfg(all(test, not(leasehold_sim)))]
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
