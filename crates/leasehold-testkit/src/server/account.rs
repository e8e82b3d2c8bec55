//! Databases refuse to run as root; their packages bring a user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use super::ServerError;

/// Runs a command as that user.
pub(super) fn run_as(user: &str, command: &mut Command) -> Result<(), ServerError> {
    if let Some((user, group)) = ids_of(user)? {
        command.uid(user).gid(group);
    }
    Ok(())
}

/// Gives a folder or file to that user.
pub(super) fn give_to(user: &str, path: &Path) -> Result<(), ServerError> {
    if let Some((user, group)) = ids_of(user)? {
        chown(path, Some(user), Some(group))?;
    }
    Ok(())
}

/// A key that only the server may read, as servers insist.
pub(super) fn give_key_to(user: &str, path: &Path) -> Result<(), ServerError> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    give_to(user, path)
}

/// The user to change to, or `None` where we are an ordinary user already.
fn ids_of(user: &str) -> Result<Option<(u32, u32)>, ServerError> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let found = users.lines().find_map(|line| parse_user(line, user));
    let missing = || {
        ServerError(format!(
            "there is no user `{user}`, and the server does not run as root; its Debian package \
             makes that user"
        ))
    };
    found.map(Some).ok_or_else(missing)
}

fn parse_user(line: &str, wanted: &str) -> Option<(u32, u32)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    (name == wanted).then_some((user, group))
}

#[cfg(test)]
mod tests {
    use super::parse_user;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let line = "postgres:x:105:113:PostgreSQL:/var/lib/postgresql:/bin/bash";
        assert_eq!(parse_user(line, "postgres"), Some((105, 113)));
        assert_eq!(parse_user(line, "post"), None);
    }
}
