//! Every server the testkit starts is real, can be broken, and leaves nothing.

// These tests wait for real processes; see the same line in the crate.
#![allow(clippy::disallowed_methods)]

mod ensembles;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_testkit::server::{self, Plan, Server};
use leasehold_testkit::{Znodes, narrow};
use libtest_mimic::{Arguments, Failed, Trial};

/// Set in the copy of this program that starts a server and is then killed.
const CHILD: &str = "LEASEHOLD_KIT_CHILD";
/// A bound for events that will happen; no test passes by waiting it out.
const BOUND: Duration = Duration::from_secs(30);

type Checked = Result<(), Failed>;
type Check = fn(&'static str, Plan) -> Checked;

fn main() -> ExitCode {
    if let Ok(engine) = env::var(CHILD) {
        return start_and_wait(&engine);
    }
    // A restart must have something to keep.
    let redis = Plan::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let engines = [
        ("redis", redis),
        ("postgres", Plan::postgres()),
        ("mysql", Plan::mariadb()),
        ("etcd", Plan::etcd()),
        ("zookeeper", Plan::zookeeper()),
    ];
    let mut trials: Vec<Trial> =
        engines.iter().flat_map(|(engine, plan)| trials(engine, plan)).collect();
    trials.extend(ensembles::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trials(engine: &'static str, plan: &Plan) -> Vec<Trial> {
    let checks: [(&str, Check); 7] = [
        ("answers_at_its_url", |_, plan| answers_at_its_url(plan)),
        ("paused_server_is_silent_until_resumed", |_, plan| paused_is_silent(plan)),
        ("killed_server_is_gone_at_once", |_, plan| killed_is_gone(plan)),
        ("restart_keeps_port_and_folder", |_, plan| restart_keeps_place(plan)),
        ("stopped_server_ends_even_when_paused", |_, plan| stopped_while_paused(plan)),
        ("nothing_is_left_after_drop", |_, plan| nothing_left(plan)),
        ("dies_with_a_killed_test_process", |engine, _| dies_with_its_test(engine)),
    ];
    let trial = |(name, check): (&str, Check)| {
        let plan = plan.clone();
        Trial::test(format!("{engine}::{name}"), move || check(engine, plan))
            .with_ignored_flag(!narrow::includes(engine))
    };
    checks.into_iter().map(trial).collect()
}

fn answers_at_its_url(plan: Plan) -> Checked {
    let server = Server::start(plan)?;
    assert!(server.answers());
    assert!(server.url().contains(&format!("127.0.0.1:{}", server.port())), "{}", server.url());
    assert!(Path::new(&format!("/proc/{}", server.pid())).exists());
    if is_sql(&server) {
        assert_eq!(server.sql("select 6 * 7")?, "42");
    }
    Ok(())
}

fn paused_is_silent(plan: Plan) -> Checked {
    let mut server = Server::start(plan)?;
    server.pause()?;
    assert!(server.is_running());
    assert!(!server.answers(), "a paused server answered");
    server.resume()?;
    eventually("the resumed server answers", || server.answers())
}

fn killed_is_gone(plan: Plan) -> Checked {
    let mut server = Server::start(plan)?;
    let pid = server.pid();
    server.kill()?;
    assert!(!server.is_running());
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "not reaped");
    assert!(TcpStream::connect(server.addr()).is_err(), "the port is still served");
    let memory = shared_memory(server.folder());
    assert_eq!(memory.is_some(), server.url().starts_with("postgres:"));
    drop(server);
    assert!(memory.is_none_or(|id| !segments().contains(&id)), "shared memory was left");
    Ok(())
}

fn restart_keeps_place(plan: Plan) -> Checked {
    let mut server = Server::start(plan)?;
    let (pid, port, folder) = (server.pid(), server.port(), server.folder().to_owned());
    write_something(&server)?;
    server.kill()?;
    server.restart()?;
    assert_ne!(server.pid(), pid);
    assert_eq!((server.port(), server.folder()), (port, folder.as_path()));
    assert!(server.answers());
    assert!(read_something(&server)?, "the data is gone");
    server.restart()?;
    assert!(server.answers(), "a running server restarts too");
    Ok(())
}

fn stopped_while_paused(plan: Plan) -> Checked {
    let mut server = Server::start(plan)?;
    server.pause()?;
    server.stop()?;
    assert!(!server.is_running());
    server.stop()?;
    Ok(())
}

fn nothing_left(plan: Plan) -> Checked {
    let server = Server::start(plan)?;
    let (pid, addr, folder) = (server.pid(), server.addr(), server.folder().to_owned());
    drop(server);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(TcpStream::connect(addr).is_err());
    assert!(!folder.exists());
    Ok(())
}

fn dies_with_its_test(engine: &str) -> Checked {
    let mut child = Command::new(env::current_exe()?)
        .env(CHILD, engine)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(child.stdout.take().ok_or("no stdout")?);
    let (pid, folder) = (read_line(&mut said)?, read_line(&mut said)?);
    let proc = format!("/proc/{pid}/stat");
    assert!(Path::new(&proc).exists(), "the server of pid {pid:?} never ran");
    child.kill()?;
    child.wait()?;
    let gone = eventually("the server dies with the process that started it", || is_dead(&proc));
    server::remove_remains(Path::new(&folder))?;
    gone
}

/// The killed copy: a server, its pid and folder on stdout, then silence.
#[allow(clippy::print_stdout)]
fn start_and_wait(engine: &str) -> ExitCode {
    let plan = match engine {
        "redis" => Plan::redis(),
        "postgres" => Plan::postgres(),
        "mysql" => Plan::mariadb(),
        "zookeeper" => Plan::zookeeper(),
        _ => Plan::etcd(),
    };
    let server = Server::start(plan).expect("the parent checks that it starts");
    println!("{}\n{}", server.pid(), server.folder().display());
    // Ends too if the parent dies before it kills us.
    let _ = std::io::stdin().read(&mut [0]);
    ExitCode::FAILURE
}

fn read_line(from: &mut impl BufRead) -> Result<String, Failed> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// The shared memory that a killed PostgreSQL could not remove.
fn shared_memory(folder: &Path) -> Option<String> {
    let note = fs::read_to_string(folder.join("data/postmaster.pid")).ok()?;
    note.lines().nth(6)?.split_whitespace().nth(1).map(str::to_owned)
}

fn segments() -> Vec<String> {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    table.lines().filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned).collect()
}

/// Gone, or a zombie that awaits the reaper of orphans.
fn is_dead(proc: &str) -> bool {
    fs::read_to_string(proc).is_ok_and(|text| text.contains(") Z ")) || !Path::new(proc).exists()
}

fn eventually(what: &str, mut happened: impl FnMut() -> bool) -> Checked {
    let end = Instant::now() + BOUND;
    while !happened() {
        if Instant::now() >= end {
            return Err(format!("never happened: {what}").into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Leaves something behind that a restart must keep.
fn write_something(server: &Server) -> Checked {
    match server.url() {
        _ if is_sql(server) => {
            server.sql("create table kept as select 1 as one")?;
            Ok(())
        }
        url if url.starts_with("etcd:") => {
            let put = etcd(server, "kv/put", r#"{"key":"a2V5","value":"a2VwdA=="}"#)?;
            assert!(put.contains("revision"), "{put}");
            Ok(())
        }
        url if url.starts_with("zookeeper:") => {
            Znodes::connect(server.addr())?.create("/kept", b"1")?;
            Ok(())
        }
        _ => {
            assert_eq!(redis(server, "SET kept 1")?, "+OK");
            Ok(())
        }
    }
}

fn read_something(server: &Server) -> Result<bool, Failed> {
    match server.url() {
        _ if is_sql(server) => Ok(server.sql("select one from kept")? == "1"),
        url if url.starts_with("etcd:") => {
            Ok(etcd(server, "kv/range", r#"{"key":"a2V5"}"#)?.contains("a2VwdA=="))
        }
        url if url.starts_with("zookeeper:") => {
            Ok(Znodes::connect(server.addr())?.get("/kept")?.as_deref() == Some(b"1"))
        }
        _ => Ok(redis(server, "STRLEN kept")? == ":1"),
    }
}

fn is_sql(server: &Server) -> bool {
    let url = server.url();
    url.starts_with("postgres:") || url.starts_with("mysql:")
}

/// One command with a reply of one line.
fn redis(server: &Server, command: &str) -> Result<String, Failed> {
    let mut stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(BOUND))?;
    write!(stream, "{command}\r\n")?;
    read_line(&mut BufReader::new(stream))
}

/// One call of etcd's JSON gateway, without a client library.
fn etcd(server: &Server, verb: &str, body: &str) -> Result<String, Failed> {
    let length = body.len();
    let mut stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(BOUND))?;
    write!(stream, "POST /v3/{verb} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}
