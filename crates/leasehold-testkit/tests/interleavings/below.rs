//! What lies below the library's files here: shuttle instead of tokio.

pub(crate) mod claim {
    /// As the library has it.
    pub(crate) const RENEW_FRACTION: u32 = 3;

    pub(crate) use leasehold::claim::{
        Grant, Holder, LeaseId, Mode, Place, Predecessor, Refresh, Ticket,
    };

    pub(crate) type OwnerId = u128;

    pub(crate) fn ticket(id: LeaseId, name: leasehold::Name, mode: Mode) -> Ticket {
        let mut ticket = Ticket::new(name, mode);
        ticket.id = id;
        ticket
    }
}

pub(crate) mod clock {
    pub(crate) use leasehold::{Clock, Moment};
}

pub(crate) mod engine {
    pub(crate) use leasehold::Loss;
    pub(crate) use leasehold::engine::BoxFuture;
}

pub(crate) mod name {
    pub(crate) use leasehold::Name;

    pub(crate) type NameMap<T> = std::collections::HashMap<Name, T>;
    /// The library's hasher of good hashes; any will do.
    pub(crate) type Same = std::hash::DefaultHasher;
}

/// Home: a task of shuttle for every task, and someone who waits for them.
pub(crate) mod home {
    use shuttle::sync::{Arc, Mutex};

    use super::engine::BoxFuture;
    use super::notify::Notify;

    shuttle::lazy_static! {
        static ref TASKS: Arc<(Mutex<usize>, Notify)> = Arc::new((Mutex::new(0), Notify::new()));
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Handle;

    pub(crate) struct Entered;

    impl Handle {
        pub(crate) fn enter(&self) -> Entered {
            Entered
        }

        pub(crate) fn spawn(&self, task: BoxFuture<()>) {
            *TASKS.0.lock().expect("no panic") += 1;
            shuttle::future::spawn(async move {
                task.await;
                *TASKS.0.lock().expect("no panic") -= 1;
                TASKS.1.notify_waiters();
            });
        }
    }

    /// Tasks that are not at home: here it takes them over at any moment.
    pub(crate) mod watchdog {
        use shuttle::sync::Weak;

        use super::Handle;

        pub(crate) trait Orphan: Send + Sync {
            fn adopt(&self, home: &Handle) -> bool;
        }

        pub(crate) struct Registration;

        impl Registration {
            pub(crate) fn new(task: Weak<dyn Orphan>, home: &Handle) -> Self {
                home.spawn(Box::pin(async move {
                    shuttle::future::yield_now().await;
                    while task.upgrade().is_some_and(|task| !task.adopt(&Handle)) {
                        shuttle::future::yield_now().await;
                    }
                }));
                Self
            }
        }
    }

    /// Resolves when every task has ended.
    pub(crate) async fn idle() {
        loop {
            let mut change = std::pin::pin!(TASKS.1.notified());
            change.as_mut().enable();
            if *TASKS.0.lock().expect("no panic") == 0 {
                return;
            }
            change.await;
        }
    }
}

/// Like tokio's, as far as the library uses it.
pub(crate) mod oneshot {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use shuttle::sync::{Arc, Mutex};

    #[derive(Debug)]
    struct State<T> {
        item: Option<T>,
        waker: Option<Waker>,
        closed: bool,
    }

    #[derive(Debug)]
    pub(crate) struct Sender<T>(Option<Arc<Mutex<State<T>>>>);

    #[derive(Debug)]
    pub(crate) struct Receiver<T>(Arc<Mutex<State<T>>>);

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let state = Arc::new(Mutex::new(State { item: None, waker: None, closed: false }));
        (Sender(Some(Arc::clone(&state))), Receiver(state))
    }

    fn close<T>(state: &Mutex<State<T>>) -> (Option<T>, Option<Waker>) {
        let mut state = state.lock().expect("no panic");
        state.closed = true;
        (state.item.take(), state.waker.take())
    }

    impl<T> Sender<T> {
        pub(crate) fn send(mut self, item: T) -> Result<(), T> {
            let Some(shared) = self.0.take() else { return Err(item) };
            let mut state = shared.lock().expect("no panic");
            if state.closed {
                return Err(item);
            }
            state.item = Some(item);
            let waker = state.waker.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
            Ok(())
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            if let Some(state) = self.0.take() {
                close(&state).1.into_iter().for_each(Waker::wake);
            }
        }
    }

    impl<T> Future for Receiver<T> {
        type Output = Result<T, ()>;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            let mut state = self.0.lock().expect("no panic");
            match state.item.take() {
                Some(item) => Poll::Ready(Ok(item)),
                None if state.closed => Poll::Ready(Err(())),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            // The item is dropped after the lock: it may call the next in line.
            drop(close(&self.0));
        }
    }
}

/// Like tokio's, as far as the library uses it.
pub(crate) mod notify {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use shuttle::sync::Mutex;

    #[derive(Debug)]
    pub(crate) struct Notify(Mutex<State>);

    #[derive(Debug, Default)]
    struct State {
        /// How often everyone was told.
        told: u64,
        /// One may go on at once.
        permit: bool,
        wakers: Vec<Waker>,
    }

    impl Default for Notify {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Notify {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(State::default()))
        }

        pub(crate) fn notified(&self) -> Notified<'_> {
            let told = self.0.lock().expect("no panic").told;
            Notified { notify: self, told }
        }

        pub(crate) fn notify_waiters(&self) {
            self.change(|state| state.told += 1);
        }

        pub(crate) fn notify_one(&self) {
            self.change(|state| state.permit = true);
        }

        fn change(&self, change: impl FnOnce(&mut State)) {
            let mut state = self.0.lock().expect("no panic");
            change(&mut state);
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    pub(crate) struct Notified<'a> {
        notify: &'a Notify,
        told: u64,
    }

    impl Notified<'_> {
        /// It has counted from its making on, as tokio's does for everyone.
        pub(crate) fn enable(self: Pin<&mut Self>) -> bool {
            false
        }
    }

    impl Future for Notified<'_> {
        type Output = ();

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            let mut state = self.notify.0.lock().expect("no panic");
            if state.told != self.told || std::mem::take(&mut state.permit) {
                return Poll::Ready(());
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        }
    }
}
