//! What the tests need beyond cargo, and how to get it.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Done;

/// A program or a jar, the Debian package that has it, and why the tests want it.
pub(crate) struct Need {
    program: &'static str,
    package: &'static str,
    engine: &'static str,
    why: &'static str,
}

/// Needed whatever engines are tested.
const EVERY: &str = "*";

/// Add a row when an engine's tests start another real server.
const NEEDS: [Need; 14] = [
    Need {
        program: "script",
        package: "bsdutils",
        engine: EVERY,
        why: "tests of the command give it a terminal",
    },
    Need {
        program: "ps",
        package: "procps",
        engine: EVERY,
        why: "tests of the command look at process groups",
    },
    Need {
        program: "setpriv",
        package: "util-linux",
        engine: EVERY,
        why: "servers must not outlive the tests that started them",
    },
    Need {
        program: "redis-server",
        package: "redis-server",
        engine: "redis",
        why: "tests of the redis engine start it",
    },
    Need {
        program: "postgres",
        package: "postgresql",
        engine: "postgres",
        why: "tests of the postgres engine start it",
    },
    Need {
        program: "psql",
        package: "postgresql-client",
        engine: "postgres",
        why: "tests look into PostgreSQL with it",
    },
    Need {
        program: "pgbouncer",
        package: "pgbouncer",
        engine: "postgres",
        why: "tests of the postgres engine put it in between",
    },
    Need {
        program: "mariadbd",
        package: "mariadb-server",
        engine: "mysql",
        why: "tests of the mysql engine start it",
    },
    Need {
        program: "etcd",
        package: "etcd-server",
        engine: "etcd",
        why: "tests of the etcd engine start it",
    },
    Need {
        program: "etcdctl",
        package: "etcd-client",
        engine: "etcd",
        why: "tests of the etcd engine share locks with it",
    },
    Need {
        program: "zookeeper.jar",
        package: "libzookeeper-java",
        engine: "zookeeper",
        why: "tests of the zookeeper engine start it",
    },
    Need {
        program: "java",
        package: "default-jre-headless",
        engine: "zookeeper",
        why: "ZooKeeper runs on it",
    },
    Need {
        program: "javac",
        package: "default-jdk-headless",
        engine: "zookeeper",
        why: "tests of the zookeeper engine build a peer with it",
    },
    Need {
        program: "curator-recipes.jar",
        package: "libcurator-recipes-java",
        engine: "zookeeper",
        why: "tests of the zookeeper engine share locks with it",
    },
];

/// Installs what is missing for `engines` (all, if none are named) if it may.
pub(crate) fn meet(engines: &[String]) -> Done {
    let missing = missing(engines);
    if missing.is_empty() {
        return Ok(());
    }
    for need in &missing {
        println!("missing: `{}` ({}): {}", need.program, need.package, need.why);
    }
    if !may_install() {
        return Err(advice(&missing));
    }
    install(&missing)
}

fn missing(engines: &[String]) -> Vec<&'static Need> {
    let named = |need: &&Need| engines.iter().any(|it| it == need.engine);
    let wanted = |need: &&Need| need.engine == EVERY || engines.is_empty() || named(need);
    NEEDS.iter().filter(wanted).filter(|need| !is_there(need.program)).collect()
}

fn is_there(program: &str) -> bool {
    places().iter().any(|place| place.join(program).is_file())
}

/// `PATH`, and where Debian keeps jars and the server programs of PostgreSQL.
fn places() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    places.push("/usr/share/java".into());
    places.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    places
}

fn may_install() -> bool {
    is_root() && is_there("apt-get")
}

/// Our own entry in /proc belongs to the user we run as.
fn is_root() -> bool {
    fs::metadata(Path::new("/proc/self")).is_ok_and(|it| it.uid() == 0)
}

fn advice(missing: &[&Need]) -> String {
    let packages = packages(missing).join(" ");
    format!(
        "the tests need programs that are not installed, and only root with apt-get can install \
         them from here. Run:\n  sudo apt-get update && sudo apt-get install {packages}"
    )
}

fn install(missing: &[&Need]) -> Done {
    apt_get(&["update"])?;
    let mut args = vec!["install", "--yes", "--no-install-recommends"];
    args.extend(packages(missing));
    apt_get(&args)?;
    match missing.iter().find(|need| !is_there(need.program)) {
        Some(need) => Err(format!("`{}` is still missing after its installation", need.program)),
        None => Ok(()),
    }
}

fn packages(missing: &[&Need]) -> Vec<&'static str> {
    missing.iter().map(|need| need.package).collect()
}

fn apt_get(args: &[&str]) -> Done {
    println!("$ apt-get {}", args.join(" "));
    let mut command = Command::new("apt-get");
    let status = command.args(args).env("DEBIAN_FRONTEND", "noninteractive").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("apt-get {} failed ({status})", args.join(" "))),
        Err(error) => Err(format!("apt-get cannot be run: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{NEEDS, advice, is_there, packages};

    #[test]
    fn the_advice_names_every_missing_package() {
        let missing: Vec<_> = NEEDS.iter().collect();
        let advice = advice(&missing);
        assert!(packages(&missing).iter().all(|package| advice.contains(package)), "{advice}");
    }

    #[test]
    fn a_program_nobody_has_is_not_there() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-anywhere"));
    }
}
