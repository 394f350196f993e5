//! Checks that files in the arguments are not the same.

use crate::arguments::{Arguments, Command};
use crate::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Checks that the capture and the recording would overwrite neither one another, nor the file to send, nor the file for
/// received data.
///
/// # Errors
///
/// One sentence, if two arguments name the same file.
pub fn check(arguments: &Arguments) -> Result<(), Error> {
    let (name, other) = match &arguments.command {
        Command::Send { file, .. } => ("the file to send", Some(file)),
        Command::Receive { output, .. } => ("--output", output.as_ref()),
        _ => ("", None),
    };
    let (capture, record) = (arguments.devices.pcap.as_ref(), arguments.record.as_ref());
    for ((option, what, file), (name, other)) in [
        (("--pcap", "capture", capture), (name, other)),
        (("--record", "recording", record), (name, other)),
        (("--record", "recording", record), ("--pcap", capture)),
    ] {
        if let (Some(file), Some(other)) = (file, other)
            && are_same(file, other)
        {
            return Err(Error::Input(format!(
                "{option} and {name} are the same file, {}; write the {what} to another one",
                other.display()
            )));
        }
    }
    Ok(())
}

/// True if two paths lead to the same regular file, or will once that file has been created.
fn are_same(first: &Path, second: &Path) -> bool {
    match (fs::metadata(first), fs::metadata(second)) {
        (Ok(first), Ok(second)) => {
            first.is_file() && (first.dev(), first.ino()) == (second.dev(), second.ino())
        }
        (Err(_), Err(_)) => future(first).is_some_and(|first| future(second) == Some(first)),
        _ => false,
    }
}

/// Returns the path of a file that does not exist yet, without symbolic links; `None` if its folder does not exist.
fn future(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
}
