//! What the store has to know of the machine it runs on.

use std::path::Path;

/// The machine, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub(super) struct HostFacts {
    /// Which boot this is, where the kernel tells.
    pub(super) boot: Option<String>,
}

impl HostFacts {
    pub(super) fn here() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Self { boot: boot.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()) }
    }
}

/// A file system, judged by whether its locks can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileSystem {
    Local,
    /// Its locks do not reach all who see the file.
    Network(&'static str),
    /// A file system in user space: local or not, it does not say.
    Fuse,
}

/// The file system at `path`.
pub(super) fn file_system(path: &Path) -> std::io::Result<FileSystem> {
    Ok(match judge(kind(path)?) {
        FileSystem::Fuse => judge_fuse(&mounted_as(path).unwrap_or_default()),
        other => other,
    })
}

/// How the kernel calls the file system at `path`, from the list of mounts.
fn mounted_as(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let list = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mounts = list.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        Some((left.split(' ').nth(4)?, right.split(' ').next()?))
    });
    let around = mounts.filter(|(at, _)| path.starts_with(at));
    around.max_by_key(|(at, _)| at.len()).map(|(_, kind)| kind.to_owned())
}

/// Those in user space that are known to reach over the network.
pub(super) fn judge_fuse(kind: &str) -> FileSystem {
    const REMOTE: [(&str, &str); 8] = [
        ("sshfs", "sshfs"),
        ("gluster", "GlusterFS"),
        ("s3", "an S3 mount"),
        ("gcsfuse", "gcsfuse"),
        ("rclone", "rclone"),
        ("ceph", "CephFS"),
        ("davfs", "WebDAV"),
        ("smb", "SMB"),
    ];
    let known = REMOTE.iter().find(|(part, _)| kind.contains(part));
    known.map_or(FileSystem::Fuse, |(_, name)| FileSystem::Network(name))
}

#[cfg(target_os = "linux")]
fn kind(path: &Path) -> std::io::Result<u32> {
    // Its type varies by target; the magic numbers have 32 bits on all.
    Ok(rustix::fs::statfs(path)?.f_type as u32)
}

#[cfg(not(target_os = "linux"))]
fn kind(_path: &Path) -> std::io::Result<u32> {
    Ok(0)
}

/// By the magic numbers of Linux.
pub(super) const fn judge(magic: u32) -> FileSystem {
    match magic {
        0x6969 => FileSystem::Network("NFS"),
        0xff53_4d42 => FileSystem::Network("CIFS"),
        0xfe53_4d42 => FileSystem::Network("SMB2"),
        0x517b => FileSystem::Network("SMB"),
        0x5346_414f => FileSystem::Network("AFS"),
        0x0102_1997 => FileSystem::Network("9P"),
        0x00c3_6400 => FileSystem::Network("Ceph"),
        0x7375_7245 => FileSystem::Network("Coda"),
        0x0bd0_0bd0 => FileSystem::Network("Lustre"),
        0x4750_4653 => FileSystem::Network("GPFS"),
        0x0116_1970 => FileSystem::Network("GFS2"),
        0x7461_636f => FileSystem::Network("OCFS2"),
        0x6573_5546 => FileSystem::Fuse,
        _ => FileSystem::Local,
    }
}
