//! Records tests that are skipped because this machine does not meet their requirements.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Records that the calling test ends early, because this machine does not meet the requirement that `reason` names.
///
/// With `ANABRANCH_ALLOW_SKIP=1` in the environment the test then passes. Its name and the reason are written to
/// standard error and, if `ANABRANCH_SKIPS` names a file, appended to it as a line.
///
/// # Panics
/// Without `ANABRANCH_ALLOW_SKIP=1`, so that a test cannot pass without having run.
pub fn skip(reason: impl Display) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test without a name");
    assert!(
        std::env::var_os("ANABRANCH_ALLOW_SKIP").is_some_and(|value| value == "1"),
        "{reason}; set ANABRANCH_ALLOW_SKIP=1 to skip the tests that this machine cannot run"
    );
    let line = format!("{name}: {reason}\n");
    eprint!("skipped {line}");
    if let Some(path) = std::env::var_os("ANABRANCH_SKIPS") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the file of skipped tests is writable");
    }
}
