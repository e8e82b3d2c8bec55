//! The part of the terminal that is redrawn in place.

use std::io::{IsTerminal, stdin, stdout};

use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::Picture;
use crate::cmd::ls;
use crate::failure::Failure;
use crate::line::columns;
use crate::output;
use crate::text::{cut, message};

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";

pub(crate) struct Screen {
    /// How the keyboard was before us.
    before: Option<Termios>,
    /// How many lines of ours are above the cursor.
    drawn: usize,
}

impl Screen {
    /// Hides the cursor; keys are neither shown nor kept for a whole line.
    pub(crate) fn enter() -> Self {
        let before = stdin().is_terminal().then(|| tcgetattr(stdin()).ok()).flatten();
        let screen = Self { before, drawn: 0 };
        screen.take();
        screen
    }

    fn take(&self) {
        if let Some(mut mode) = self.before.clone() {
            mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // A terminal that has gone has no modes.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &mode);
        }
        let _ = output::print(HIDE_CURSOR);
    }

    fn give_back(&self) {
        let _ = output::print(SHOW_CURSOR);
        if let Some(mode) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, mode);
        }
    }

    /// Ctrl-Z: the shell gets its terminal as it was, we get it back with `fg`.
    pub(crate) fn suspend(&mut self) {
        self.give_back();
        // Not TSTP, which we catch; the kernel treats this one alike.
        let _ = kill_current_process_group(Signal::TTIN);
        self.take();
        self.drawn = 0;
    }

    /// Puts the picture over the one before, without a flicker.
    pub(crate) fn draw(&mut self, picture: &Picture) -> Result<(), Failure> {
        let lines = lines(picture);
        let mut frame =
            if self.drawn > 0 { format!("\x1b[{}A\r", self.drawn) } else { "\r".into() };
        let width = columns(stdout());
        lines.iter().for_each(|line| frame += &format!("{}\x1b[K\n", cut(line, width)));
        frame += "\x1b[J";
        self.drawn = lines.len();
        output::print(&frame)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The table, no longer than the terminal, and a line below it.
fn lines(picture: &Picture) -> Vec<String> {
    let rows = tcgetwinsize(stdout()).map_or(24, |size| usize::from(size.ws_row));
    let most = if rows < 4 { 22 } else { rows - 2 };
    let table = ls::table(&picture.now());
    let mut lines: Vec<_> = table.lines().take(most).map(str::to_owned).collect();
    let hidden = table.lines().count() - lines.len();
    let more = if hidden > 0 { format!("{hidden} more; ") } else { String::new() };
    let trouble = picture.trouble.as_deref().map(|why| format!("{}; ", message(why)));
    lines.push(format!("({more}{}q to quit)", trouble.unwrap_or_default()));
    lines
}
