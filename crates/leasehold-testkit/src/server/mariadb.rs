//! What a MariaDB is made of.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::ServerError;
use super::binary::Binary;
use super::plan::{finish, give_to, leashed, run_as};

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

pub(super) fn prepare(folder: &Path) -> Result<(), ServerError> {
    give_to(USER, folder)?;
    fs::write(folder.join("init.sql"), INIT)?;
    let mut command = leashed(&INSTALL)?;
    command.arg("--no-defaults").arg(format!("--datadir={}", folder.join("data").display()));
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    command.args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0"]);
    command.current_dir(folder);
    run_as(USER, &mut command)?;
    finish(command, "mariadb-install-db")
}

pub(super) fn command(folder: &Path, port: u16) -> Result<Command, ServerError> {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut command = leashed(&MARIADB)?;
    command.arg("--no-defaults").arg(format!("--datadir={}", path("data")));
    command.arg(format!("--port={port}")).arg("--bind-address=127.0.0.1");
    command.arg(format!("--socket={}", path("mysql.sock")));
    command.arg(format!("--pid-file={}", path("mysql.pid")));
    command.arg(format!("--init-file={}", path("init.sql")));
    // SIGKILL loses no page cache, so syncing would only cost time.
    command.args(["--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2"]);
    run_as(USER, &mut command)?;
    Ok(command)
}
