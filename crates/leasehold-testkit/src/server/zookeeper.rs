//! What a ZooKeeper is made of.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::binary::Binary;
use super::member::Member;
use super::plan::leashed;
use super::redis::Extras;
use super::{ServerError, certificates};

const JAVA: Binary = Binary { program: "java", versions: None, package: "default-jre-headless" };
const JARS: &str = "/usr/share/java";
/// Its jar names the rest; these are for its log and for TLS.
const CLASSES: [&str; 4] = ["zookeeper", "slf4j-simple", "netty-codec", "netty-resolver"];
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
/// What is set for the whole virtual machine. Containers are looked after often,
/// so that a test can see them go.
const MACHINE: [&str; 4] = [
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-Djute.maxbuffer=4194304",
    "-Dznode.container.checkIntervalMs=1000",
];
/// SIGKILL loses no page cache, so `forceSync` would only cost time. Sessions end
/// on a tick, and a short one is what tests wait for.
const SETTINGS: &str = "\
tickTime=100
minSessionTimeout=200
maxSessionTimeout=7200000
initLimit=200
syncLimit=20
maxClientCnxns=0
forceSync=no
preAllocSize=1024
admin.enableServer=false
4lw.commands.whitelist=*
";

/// For clients, for the followers of a leader, for elections; behind TLS one more
/// in the clear, where it says how it is.
pub(super) const PORTS: usize = 4;

pub(super) fn prepare(
    folder: &Path,
    extras: &Extras,
    member: Option<&Member>,
) -> Result<(), ServerError> {
    if !Path::new(JARS).join("zookeeper.jar").is_file() {
        let text = "ZooKeeper is not installed; on Debian or Ubuntu: apt-get install \
                    libzookeeper-java (`cargo xtask test` does it when it may)";
        return Err(ServerError(text.into()));
    }
    fs::create_dir(folder.join("data"))?;
    if let Some(member) = member {
        fs::write(folder.join("data/myid"), member.at.to_string())?;
    }
    if extras.tls {
        certificates::make(folder)?;
        let parts = ["server.pem", "server.key"].map(|part| fs::read_to_string(folder.join(part)));
        let [certificate, key] = parts;
        fs::write(folder.join("both.pem"), key? + &certificate?)?;
    }
    Ok(())
}

pub(super) fn command(
    folder: &Path,
    ports: &[u16],
    extras: &Extras,
    member: Option<&Member>,
    lines: &[String],
) -> Result<Command, ServerError> {
    let file = folder.join("zoo.cfg");
    let settings = [
        SETTINGS.to_owned(),
        format!("dataDir={}\n", folder.join("data").display()),
        doors(folder, ports, extras),
        member.map(voters).unwrap_or_default(),
        lines.join("\n"),
    ];
    fs::write(&file, settings.concat())?;
    let mut command = leashed(&JAVA)?;
    let jars = CLASSES.map(|jar| format!("{JARS}/{jar}.jar"));
    command.args(MACHINE).arg("-cp").arg(jars.join(":")).arg(MAIN).arg(file);
    Ok(command)
}

/// Where clients come in.
fn doors(folder: &Path, ports: &[u16], extras: &Extras) -> String {
    if !extras.tls {
        return format!("clientPort={}\nclientPortAddress=127.0.0.1\n", ports[0]);
    }
    let (secure, plain, folder) = (ports[0], clear(ports, extras), folder.display());
    format!(
        "secureClientPort={secure}\nsecureClientPortAddress=127.0.0.1\n\
         clientPort={plain}\nclientPortAddress=127.0.0.1\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location={folder}/both.pem\nssl.trustStore.location={folder}/ca.pem\n\
         ssl.clientAuth=none\n"
    )
}

/// Who belongs to the ensemble.
fn voters(member: &Member) -> String {
    let voter = |(at, ports): (usize, &Vec<u16>)| {
        format!("server.{at}=127.0.0.1:{}:{}\n", ports[1], ports[2])
    };
    member.ports.iter().enumerate().map(voter).collect()
}

/// Where it takes words without TLS.
pub(super) const fn clear(ports: &[u16], extras: &Extras) -> u16 {
    if extras.tls { ports[3] } else { ports[0] }
}
