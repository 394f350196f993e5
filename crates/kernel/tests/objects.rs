//! Checks that the compiled objects in the repository match their sources.
#![cfg(target_os = "linux")]

use anabranch_testkit::machine::skip;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

#[test]
fn same_compiler_creates_equal_objects() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let kept = sources.join("objects");
    let made_by =
        fs::read_to_string(kept.join("version.txt")).expect("the version file is next to the objects");
    let made_by = made_by.trim();
    let here = ["clang-19", "clang"].into_iter().find_map(|name| {
        let output = Command::new(name).arg("--version").output().ok()?;
        Some((name, String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned()))
    });
    let Some((compiler, version)) = here else { return skip("clang is not installed") };
    if version != made_by {
        return skip(format_args!("the objects were compiled by {made_by}, but this machine has {version}"));
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("objects");
    let made = Command::new("make")
        .args(["-s", "-B", "-C"])
        .arg(&sources)
        .arg(format!("CLANG={compiler}"))
        .arg(format!("OUT={}", out.display()))
        .output()
        .expect("make is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut compared = 0;
    for entry in fs::read_dir(&kept).expect("the folder exists") {
        let file = entry.expect("the entry is readable").path();
        let name = file.file_name().expect("the file has a name");
        assert!(fs::read(&file).ok() == fs::read(out.join(name)).ok(), "{}: run make bpf", name.display());
        compared += 1;
    }
    assert_eq!(compared, anabranch_kernel::CONTROLS.len() + 2);
}
