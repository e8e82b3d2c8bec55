//! Finds a server's program, or says which package brings it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::ServerError;

/// A program, where it may hide outside `PATH`, and the package that has it.
#[derive(Debug)]
pub(super) struct Binary {
    pub(super) program: &'static str,
    /// A folder of version folders, each with a `bin`, as Debian keeps PostgreSQL.
    pub(super) versions: Option<&'static str>,
    pub(super) package: &'static str,
}

impl Binary {
    pub(super) fn find(&self) -> Result<PathBuf, ServerError> {
        let mut places = self.version_folders();
        places.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
        let found = places.iter().map(|place| place.join(self.program)).find(|path| path.is_file());
        found.ok_or_else(|| self.missing())
    }

    /// Newest version first.
    fn version_folders(&self) -> Vec<PathBuf> {
        let entries = self.versions.map(fs::read_dir).and_then(Result::ok).into_iter().flatten();
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.sort_by_key(|path| std::cmp::Reverse(version(path)));
        folders.into_iter().map(|path| path.join("bin")).collect()
    }

    fn missing(&self) -> ServerError {
        let Self { program, package, .. } = self;
        ServerError(format!(
            "`{program}` is not installed; on Debian or Ubuntu: apt-get install {package} \
             (`cargo xtask test` does it when it may)"
        ))
    }
}

fn version(path: &Path) -> u32 {
    path.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Binary;

    #[test]
    fn a_missing_program_names_the_package_to_install() {
        let binary = Binary { program: "no-such-server", versions: None, package: "the-package" };
        let message = binary.find().unwrap_err().to_string();
        assert!(message.contains("`no-such-server` is not installed"), "{message}");
        assert!(message.contains("apt-get install the-package"), "{message}");
    }
}
