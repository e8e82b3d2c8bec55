//! `cargo xtask`: the project's own chores.

// The clippy ban on clocks guards the library; here a step only tells its time.
#![allow(clippy::disallowed_methods)]

mod check;
mod elsewhere;
mod interop;
mod need;
mod program;
mod scale;
mod sim;
mod test;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a chore ends with: the error says what to do next, or is empty if the
/// chore has said so itself.
type Done = Result<(), String>;

struct Chore {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Done,
}

const CHORES: [Chore; 9] = [
    Chore {
        name: "test",
        help: "install what the tests need, run them all, end with one summary line;\n           \
               --engines a,b narrows them on purpose; --quick is the loop while you work",
        run: test::run,
    },
    Chore {
        name: "check",
        help: "format, lints with each feature alone, docs, the oldest Rust, other platforms,\n           \
               examples: all but the tests",
        run: check::run,
    },
    Chore {
        name: "sim",
        help: "look for broken promises in simulated clients, servers and networks:\n           \
               [--minutes M] [--stage S] [--seed N] [--mutants] [FILE]",
        run: sim::run,
    },
    Chore {
        name: "interop",
        help: "clients of other languages on the same locks: [PEER..] [--long];\n           \
               --if-reachable leaves out those that cannot be fetched",
        run: interop::run,
    },
    Chore {
        name: "bench",
        help: "what a lock costs, as ratios within one run;\n           \
               --peers measures other clients beside it, on one Redis;\n           \
               --databases measures PostgreSQL and MariaDB;\n           \
               --consensus measures ZooKeeper and etcd;\n           \
               --once measures idempotency keys, beside the crate idempotent",
        run: bench,
    },
    Chore {
        name: "scale",
        help: "how every step grows with waiters, leases, names and clients, on real servers:\n           \
               [--quick] [--engine A,B] [--work A,B] [--update]; --help says more",
        run: scale::run,
    },
    Chore {
        name: "soak",
        help: "minutes of traffic on real servers while nodes stand still, connections are\n           \
               cut and replies come late: [DEPLOYMENT..] [--minutes M]",
        run: soak,
    },
    Chore {
        name: "proto",
        help: "write what is generated from .proto files anew; a test says when",
        run: proto,
    },
    Chore { name: "help", help: "show this list", run: help },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = args.split_first().map_or(("help", &[][..]), |(name, rest)| (name, rest));
    let done = match CHORES.iter().find(|chore| chore.name == name) {
        Some(chore) => (chore.run)(rest),
        None => Err(format!("there is no chore `{name}`\n{}", list())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            if !message.is_empty() {
                eprintln!("{message}");
            }
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &[String]) -> Done {
    let name = match args {
        [] => "cost",
        [flag] if flag == "--peers" => "redis",
        [flag] if flag == "--databases" => "sql",
        [flag] if flag == "--once" => "once",
        [flag] if flag == "--consensus" => "consensus",
        _ => {
            let message = "`cargo xtask bench` takes [--peers], [--databases], [--consensus] \
                           or [--once], not";
            return Err(format!("{message} {args:?}"));
        }
    };
    if name == "redis" {
        interop::prepare()?;
    }
    call_bench("leasehold-testkit", name)?;
    if name == "once" {
        call_bench("leasehold-http", "layer")?;
        interop::idempotent()?;
        call_bench("leasehold-testkit", "once_peer")?;
    }
    Ok(())
}

fn call_bench(package: &str, name: &str) -> Done {
    match cargo().args(["bench", "--package", package, "--bench", name]).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the benches failed ({status})")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

fn soak(args: &[String]) -> Done {
    need::meet(&[])?;
    let mut soak = cargo();
    soak.args(["run", "--quiet", "--release", "--package", "leasehold-testkit"]);
    match soak.args(["--bin", "leasehold-soak", "--"]).args(args).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the soak found something, or could not be run ({status})")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

/// The test that compares also writes: so the chores need no library.
fn proto(_: &[String]) -> Done {
    let mut test = cargo();
    test.args(["test", "--package", "xtask", "--test", "proto"]).env("WRITE", "1");
    match test.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the generated code was not written ({status})")),
        Err(error) => Err(format!("cargo cannot be run: {error}")),
    }
}

fn help(_: &[String]) -> Done {
    println!("{}", list());
    Ok(())
}

fn list() -> String {
    let rows = CHORES.iter().map(|chore| format!("  {:<7}  {}", chore.name, chore.help));
    let rows: Vec<String> = rows.collect();
    format!("usage: cargo xtask <chore>\n{}", rows.join("\n"))
}

/// The workspace's folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_owned(), Path::to_owned)
}

/// The cargo that runs us, in the workspace's folder.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}
