//! Spawns servers so that they die with this process, even if it is killed.
//!
//! `setpriv --pdeathsig` asks the kernel to kill the server when its parent
//! *thread* ends. A test thread ends long before the process does, so one
//! thread that lives as long as the process is the parent of all servers.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

type Order = (Command, Sender<io::Result<Child>>);

static PARENT: OnceLock<Sender<Order>> = OnceLock::new();

/// The start of a command line whose program dies with this process.
pub(super) const LEASHED: [&str; 4] = ["setpriv", "--pdeathsig", "KILL", "--"];

/// Runs `command` as a child of the long-lived parent thread.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let (answer, child) = channel();
    let parent = PARENT.get_or_init(start_parent);
    parent.send((command, answer)).map_err(io::Error::other)?;
    child.recv().map_err(io::Error::other)?
}

fn start_parent() -> Sender<Order> {
    let (orders, inbox) = channel::<Order>();
    thread::spawn(move || {
        for (mut command, answer) in inbox {
            let _ = answer.send(command.spawn());
        }
    });
    orders
}
