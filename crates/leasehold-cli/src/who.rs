//! Who runs this command, for labels and for the record of evictions.

use std::ffi::OsStr;
use std::path::Path;

/// `user@host`.
pub(crate) fn user_at_host() -> String {
    let host = rustix::system::uname();
    format!("{}@{}", user(), host.nodename().to_string_lossy())
}

/// `user@host:pid`.
pub(crate) fn process() -> String {
    format!("{}:{}", user_at_host(), std::process::id())
}

/// `user@host:pid command`: what others see as the holder of a `run`.
pub(crate) fn label(command: &OsStr) -> String {
    let base = Path::new(command).file_name().unwrap_or(command);
    format!("{} {}", process(), base.to_string_lossy())
}

/// The name behind the user id; the environment is asked only if the password
/// file does not know it, because anyone can set the environment.
fn user() -> String {
    let id = rustix::process::geteuid().as_raw();
    let table = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let from_env = || std::env::var("USER").ok().filter(|name| !name.is_empty());
    lookup(&table, id).or_else(from_env).unwrap_or_else(|| format!("uid{id}"))
}

fn lookup(table: &str, id: u32) -> Option<String> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_id() {
        let table = "root:x:0:0:root:/root:/bin/sh\n# odd line\nanna:x:1000:1000::/home/anna:\n";
        assert_eq!(lookup(table, 1000).as_deref(), Some("anna"));
        assert_eq!(lookup(table, 7), None);
    }

    #[test]
    fn a_label_names_the_program_not_its_path() {
        assert!(label(OsStr::new("/usr/bin/rsync")).ends_with(" rsync"));
    }
}
