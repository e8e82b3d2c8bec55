//! The keyboard: whether somebody has seen enough.

use std::io::{IsTerminal, Read, stdin};

use tokio::sync::oneshot::{Receiver, channel};

/// Resolves when `q` is pressed.
pub(crate) struct Keys(Option<Receiver<()>>);

/// Listens on a thread: reading a terminal cannot be cancelled. It stops at
/// the `q`, because what is typed after it is for the shell.
pub(crate) fn listen() -> Keys {
    let (sender, pressed) = channel();
    if stdin().is_terminal() {
        std::thread::spawn(move || {
            let mut typed = stdin().lock().bytes().map_while(Result::ok);
            if typed.any(|key| matches!(key, b'q' | b'Q')) {
                // With nobody listening the view has already ended.
                let _ = sender.send(());
            }
        });
    }
    Keys(Some(pressed))
}

impl Keys {
    pub(crate) async fn quit(&mut self) {
        if let Some(pressed) = &mut self.0 {
            let quit = pressed.await.is_ok();
            self.0 = None;
            if quit {
                return;
            }
        }
        std::future::pending().await
    }
}
