//! What a PostgreSQL is made of.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::account::{give_key_to, give_to, run_as};
use super::binary::Binary;
use super::plan::{finish, leashed};
use super::redis::Extras;
use super::{ServerError, certificates};

const INITDB: Binary = binary("initdb");
const POSTGRES: Binary = binary("postgres");
const BASEBACKUP: Binary = binary("pg_basebackup");
/// The user that the package brings, and the superuser inside.
const USER: &str = "postgres";

const fn binary(program: &'static str) -> Binary {
    Binary { program, versions: Some("/usr/lib/postgresql"), package: "postgresql" }
}

/// A data folder: new, or a copy of a primary's.
pub(super) fn prepare(
    folder: &Path,
    extras: &Extras,
    primary: Option<u16>,
) -> Result<(), ServerError> {
    give_to(USER, folder)?;
    if extras.tls {
        certificates::make(folder)?;
        give_key_to(USER, &folder.join("server.key"))?;
    }
    match primary {
        None => initialize(folder, extras),
        Some(port) => copy(folder, port),
    }
}

fn initialize(folder: &Path, extras: &Extras) -> Result<(), ServerError> {
    let mut command = leashed(&INITDB)?;
    command.arg("-D").arg(folder.join("data")).args(["-U", USER]);
    command.args(["--no-sync", "--encoding=UTF8", "--locale=C"]).current_dir(folder);
    match &extras.login {
        None => command.args(["-A", "trust"]),
        Some((_, password)) => {
            let file = folder.join("password");
            fs::write(&file, password)?;
            give_to(USER, &file)?;
            command.args(["-A", "scram-sha-256"]).arg("--pwfile").arg(file)
        }
    };
    run_as(USER, &mut command)?;
    finish(command, "initdb")
}

/// `-R` leaves behind what makes it a standby.
fn copy(folder: &Path, primary: u16) -> Result<(), ServerError> {
    let mut command = leashed(&BASEBACKUP)?;
    command.arg("-D").arg(folder.join("data")).args(["-h", "127.0.0.1", "-p"]);
    command.arg(primary.to_string()).args(["-U", USER, "-R", "-X", "stream", "-c", "fast"]);
    command.arg("--no-sync").current_dir(folder);
    run_as(USER, &mut command)?;
    finish(command, "pg_basebackup")
}

pub(super) fn command(folder: &Path, port: u16, extras: &Extras) -> Result<Command, ServerError> {
    let mut command = leashed(&POSTGRES)?;
    command.arg("-D").arg(folder.join("data")).arg("-p").arg(port.to_string());
    // SIGKILL loses no page cache, so fsync would only cost time.
    for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"] {
        command.arg("-c").arg(setting);
    }
    if extras.tls {
        let file = |name: &str| folder.join(name).display().to_string();
        command.args(["-c", "ssl=on", "-c", &format!("ssl_cert_file={}", file("server.pem"))]);
        command.args(["-c", &format!("ssl_key_file={}", file("server.key"))]);
        command.args(["-c", &format!("ssl_ca_file={}", file("ca.pem"))]);
    }
    run_as(USER, &mut command)?;
    Ok(command)
}

/// The shared memory a PostgreSQL notes in its pid file, which only a polite
/// end removes: line 7 holds its key and its id.
pub(super) fn shared_memory(folder: &Path) -> Option<String> {
    let note = fs::read_to_string(folder.join("data/postmaster.pid")).ok()?;
    note.lines().nth(6)?.split_whitespace().nth(1).map(str::to_owned)
}

/// The protocol's start-up message, version 3.0.
pub(super) fn hello() -> Vec<u8> {
    let body = b"\x00\x03\x00\x00user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(body.len() + 4).expect("a short constant");
    [&length.to_be_bytes()[..], body].concat()
}
