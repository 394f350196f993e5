//! Compiles and runs the arithmetic in C as a program for this machine.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Lets one thread compile at a time, so that no test runs an incomplete program.
static COMPILING: Mutex<()> = Mutex::new(());

/// Compiles the arithmetic of a congestion control. Returns `None`, with a message, if there is no compiler.
pub fn compiled(control: &str) -> Option<PathBuf> {
    let _alone = COMPILING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let program =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("twin-{control}-{}", std::process::id()));
    if program.exists() {
        return Some(program);
    }
    let output = Command::new("cc")
        .args([
            "-O2",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
            "-Wno-unused-parameter",
        ])
        .arg("-fsanitize=undefined")
        .arg("-fno-sanitize-recover")
        .arg(format!("-DCONTROL=\"{control}.h\""))
        .arg("-o")
        .arg(&program)
        .arg(sources.join("twin.c"))
        .output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(error) => {
            anabranch_testkit::machine::skip(format_args!("no C compiler (cc): {error}"));
            None
        }
    }
}

/// Passes bytes to a program and returns its output.
pub fn answers(program: &Path, bytes: Vec<u8>) -> Vec<u8> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was just compiled");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let mut answers = Vec::new();
    child.stdout.take().expect("piped").read_to_end(&mut answers).expect("the program writes");
    writer.join().expect("no panic").expect("the program reads its whole input");
    assert!(child.wait().expect("the program ends").success());
    answers
}
