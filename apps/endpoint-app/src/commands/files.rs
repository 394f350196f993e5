//! Files of the arguments that must differ.

use crate::arguments::{Arguments, Command};
use crate::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Checks that the capture replaces neither the file that is sent nor the one for received data.
///
/// # Errors
///
/// If two arguments name one file; one sentence.
pub fn check(arguments: &Arguments) -> Result<(), Error> {
    let (name, other) = match &arguments.command {
        Command::Send { file, .. } => ("the file to send", Some(file)),
        Command::Receive { output, .. } => ("--output", output.as_ref()),
        _ => return Ok(()),
    };
    match (&arguments.devices.pcap, other) {
        (Some(capture), Some(other)) if are_same(capture, other) => Err(Error::Input(format!(
            "--pcap and {name} are the same file, {}; write the capture to another one",
            other.display()
        ))),
        _ => Ok(()),
    }
}

/// Whether two paths lead to one regular file, or will once it exists.
fn are_same(first: &Path, second: &Path) -> bool {
    match (fs::metadata(first), fs::metadata(second)) {
        (Ok(first), Ok(second)) => {
            first.is_file() && (first.dev(), first.ino()) == (second.dev(), second.ino())
        }
        (Err(_), Err(_)) => future(first).is_some_and(|first| future(second) == Some(first)),
        _ => false,
    }
}

/// The place of a file that does not exist yet, without symbolic links; `None` if its folder does not exist either.
fn future(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
}
