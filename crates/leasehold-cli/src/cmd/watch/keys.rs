//! The keyboard, a key at a time.

use std::io::{IsTerminal, Read, stdin};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What is typed.
pub(crate) struct Keys(UnboundedReceiver<u8>);

/// Listens on a thread: reading a terminal cannot be cancelled. The thread
/// ends with the process.
pub(crate) fn listen() -> Keys {
    let (sender, keys) = unbounded_channel();
    if stdin().is_terminal() {
        std::thread::spawn(move || {
            let typed = stdin().lock().bytes().map_while(Result::ok);
            typed.map_while(|key| sender.send(key).ok()).for_each(drop);
        });
    }
    Keys(keys)
}

impl Keys {
    /// Resolves when somebody presses q.
    pub(crate) async fn quit(&mut self) {
        loop {
            match self.0.recv().await {
                Some(b'q' | b'Q') => return,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}
