//! Code that is generated and committed, so that no build needs a generator.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_code_made_from_etcds_proto_is_current() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/leasehold");
    let made = generate(&library.join("proto"), "etcd.proto");
    let kept = library.join("src/engines/etcd/proto.rs");
    if std::env::var_os("WRITE").is_some() {
        fs::write(&kept, &made).expect("a writable file");
    }
    let kept = fs::read_to_string(kept).unwrap_or_default();
    assert!(kept == made, "run `cargo xtask proto` and commit what it changes");
}

fn generate(folder: &Path, file: &str) -> String {
    let files = protox::compile([file], [folder]).expect("a valid .proto file");
    let out: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    fs::create_dir_all(&out).expect("a folder");
    let mut config = prost_build::Config::new();
    config.out_dir(&out).disable_comments(["."]);
    config.compile_fds(files).expect("code");
    fs::read_to_string(out.join("etcdserverpb.rs")).expect("a file of the package")
}
