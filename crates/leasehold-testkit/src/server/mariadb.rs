//! What a MariaDB is made of.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::account::{give_key_to, give_to, run_as};
use super::binary::Binary;
use super::plan::{finish, leashed};
use super::redis::Extras;
use super::{ServerError, certificates};

const INSTALL: Binary =
    Binary { program: "mariadb-install-db", versions: None, package: "mariadb-server" };
const MARIADB: Binary = Binary { program: "mariadbd", versions: None, package: "mariadb-server" };
/// The user that the package brings.
const USER: &str = "mysql";

/// What every start makes sure of, before the first client gets in.
const INIT: &str = "\
CREATE DATABASE IF NOT EXISTS leasehold;
CREATE USER IF NOT EXISTS root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
";

fn init(extras: &Extras) -> String {
    match &extras.login {
        None => INIT.to_owned(),
        Some((_, password)) => {
            format!("{INIT}ALTER USER root@'127.0.0.1' IDENTIFIED BY '{password}';\n")
        }
    }
}

pub(super) fn prepare(folder: &Path, extras: &Extras) -> Result<(), ServerError> {
    give_to(USER, folder)?;
    if extras.tls {
        certificates::make(folder)?;
        give_key_to(USER, &folder.join("server.key"))?;
    }
    fs::write(folder.join("init.sql"), init(extras))?;
    let mut command = leashed(&INSTALL)?;
    command.arg("--no-defaults").arg(format!("--datadir={}", folder.join("data").display()));
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    command.args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0"]);
    // As below: another that starts would clear what this one has there.
    command.arg(format!("--tmpdir={}", folder.display()));
    command.current_dir(folder);
    run_as(USER, &mut command)?;
    finish(command, "mariadb-install-db")
}

pub(super) fn command(folder: &Path, port: u16, extras: &Extras) -> Result<Command, ServerError> {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut command = leashed(&MARIADB)?;
    command.arg("--no-defaults").arg(format!("--datadir={}", path("data")));
    command.arg(format!("--port={port}")).arg("--bind-address=127.0.0.1");
    command.arg(format!("--socket={}", path("mysql.sock")));
    command.arg(format!("--tmpdir={}", folder.display()));
    command.arg(format!("--pid-file={}", path("mysql.pid")));
    command.arg(format!("--init-file={}", path("init.sql")));
    // SIGKILL loses no page cache, so syncing would only cost time.
    command.args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2"]);
    if extras.tls {
        command.arg(format!("--ssl-cert={}", path("server.pem")));
        command.arg(format!("--ssl-key={}", path("server.key")));
        command.arg(format!("--ssl-ca={}", path("ca.pem")));
    }
    run_as(USER, &mut command)?;
    Ok(command)
}
