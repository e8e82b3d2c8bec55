//! What a PgBouncer is made of.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::ServerError;
use super::account::{give_to, run_as};
use super::binary::Binary;
use super::plan::leashed;

const PGBOUNCER: Binary = Binary { program: "pgbouncer", versions: None, package: "pgbouncer" };
/// It refuses to run as root.
const USER: &str = "postgres";

pub(super) fn prepare(folder: &Path) -> Result<(), ServerError> {
    give_to(USER, folder)
}

pub(super) fn command(
    folder: &Path,
    port: u16,
    server: u16,
    lines: &[String],
) -> Result<Command, ServerError> {
    let file = folder.join("pgbouncer.ini");
    fs::write(&file, settings(port, server, lines))?;
    give_to(USER, &file)?;
    let mut command = leashed(&PGBOUNCER)?;
    command.arg(file).current_dir(folder).stdin(std::process::Stdio::null());
    run_as(USER, &mut command)?;
    Ok(command)
}

/// A later line wins.
fn settings(port: u16, server: u16, lines: &[String]) -> String {
    format!(
        "[databases]\n* = host=127.0.0.1 port={server} user=postgres\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = transaction\n{}\n",
        lines.join("\n")
    )
}
