//! What a guard is bound to: nothing, or the thread that took it.

use std::marker::PhantomData;
use std::sync::MutexGuard;

use crate::claim::Owner;

/// What the guards of a recipe are bound to: [`Anywhere`] or [`ThisThread`].
pub trait Bound: sealed::Owned {}

/// The guard may be sent to another thread and dropped there.
#[derive(Clone, Copy, Debug)]
pub struct Anywhere;

/// The guard belongs to the thread that took it, which may take it again: the
/// guard of a recipe with `.reentrant()`.
///
/// It cannot leave its thread, where the count of its guards is:
///
/// ```compile_fail,E0277
/// # use leasehold::blocking::Locks;
/// let guard = Locks::memory().mutex("order/42").reentrant().lock().unwrap();
/// std::thread::spawn(move || drop(guard)); // `MutexGuard` cannot be sent
/// ```
///
/// Another thread may look at it, and without `.reentrant()` may have it:
///
/// ```
/// # use leasehold::blocking::Locks;
/// let locks = Locks::memory();
/// let mine = locks.mutex("order/42").reentrant().lock()?;
/// std::thread::scope(|scope| scope.spawn(|| mine.check()).join().unwrap())?;
///
/// let guard = locks.mutex("order/43").lock()?;
/// std::thread::spawn(move || drop(guard)).join().unwrap();
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct ThisThread(PhantomData<MutexGuard<'static, ()>>);

impl Bound for Anywhere {}
impl Bound for ThisThread {}

pub(super) mod sealed {
    use super::Owner;

    /// Nobody else can be bound otherwise.
    pub trait Owned {
        /// Who may take what it already holds, if anyone, when this thread asks.
        #[doc(hidden)]
        fn owner() -> Option<Owner>;
    }
}

impl sealed::Owned for Anywhere {
    fn owner() -> Option<Owner> {
        None
    }
}

impl sealed::Owned for ThisThread {
    fn owner() -> Option<Owner> {
        Some(Owner::this_thread())
    }
}
