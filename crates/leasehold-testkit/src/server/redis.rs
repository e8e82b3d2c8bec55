//! What a Redis can be made of: logins, TLS, a socket, an append-only file, a
//! node of a cluster, a sentinel.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::{ServerError, certificates};

/// How a Redis differs from the plainest one.
#[derive(Debug, Clone, Default)]
pub(super) struct Extras {
    /// The user that clients are told to be, and its password.
    pub(super) login: Option<(String, String)>,
    pub(super) tls: bool,
    pub(super) cluster: bool,
    /// What a sentinel watches over.
    pub(super) watch: Option<String>,
}

/// The name of the socket, in the server's folder.
pub(super) const SOCKET: &str = "redis.sock";
const SENTINEL_FILE: &str = "sentinel.conf";

impl Extras {
    /// Makes the files that the server reads.
    pub(super) fn prepare(&self, folder: &Path) -> Result<(), ServerError> {
        if self.tls {
            certificates::make(folder)?;
        }
        if let Some(watch) = &self.watch {
            fs::write(folder.join(SENTINEL_FILE), watch)?;
        }
        Ok(())
    }

    /// Adds the arguments, after the program.
    pub(super) fn apply(&self, command: &mut Command, folder: &Path, ports: &[u16]) {
        let port = ports[0].to_string();
        if self.watch.is_some() {
            command.arg(folder.join(SENTINEL_FILE)).args(["--sentinel", "--port", &port]);
            command.args(["--bind", "127.0.0.1"]);
            return;
        }
        if self.tls {
            command.args(["--port", "0", "--tls-port", &port, "--tls-auth-clients", "optional"]);
            for (option, file) in
                [("--tls-cert-file", "server.pem"), ("--tls-key-file", "server.key")]
            {
                command.arg(option).arg(folder.join(file));
            }
            command.arg("--tls-ca-cert-file").arg(folder.join("ca.pem"));
        } else {
            command.args(["--port", &port]);
        }
        command.args(["--bind", "127.0.0.1", "--unixsocket", SOCKET, "--dir"]).arg(folder);
        command.args(["--save", "", "--appendonly", "no"]);
        if self.cluster {
            command.args(["--cluster-enabled", "yes", "--cluster-port", &ports[1].to_string()]);
            command.args(["--cluster-node-timeout", "1000"]);
        }
    }

    pub(super) fn url(&self, addr: SocketAddr, folder: &Path) -> String {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let login = self.login_part();
        let ca = if self.tls {
            format!("?ca={}", folder.join("ca.pem").display())
        } else {
            String::new()
        };
        format!("{scheme}://{login}{addr}/{ca}")
    }

    pub(super) fn socket_url(&self, folder: &Path) -> String {
        format!("redis+unix://{}{}", self.login_part(), folder.join(SOCKET).display())
    }

    fn login_part(&self) -> String {
        let login = self.login.as_ref();
        login.map(|(user, password)| format!("{user}:{password}@")).unwrap_or_default()
    }
}
