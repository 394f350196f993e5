//! Files for recordings.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Creates the file of a recording. It contains keys, so only its owner can read it; an existing file is replaced, since
/// others may have it open.
///
/// # Errors
///
/// If the file cannot be written.
pub fn create_recording(file: &Path) -> io::Result<BufWriter<File>> {
    let found = file.metadata().map(|found| found.is_file());
    if matches!(found, Ok(true)) {
        std::fs::remove_file(file)?;
    }
    // A device or a pipe stays.
    let is_special = matches!(found, Ok(false));
    let created = File::options().write(true).create_new(!is_special).mode(0o600).open(file)?;
    Ok(BufWriter::new(created))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_the_owner_can_read_a_recording() {
        let file = std::env::temp_dir().join(format!("anabranch-recording-{}", std::process::id()));
        std::fs::write(&file, "earlier").expect("the folder for temporary files is writable");
        create_recording(&file).expect("a file");
        let found = file.metadata().expect("the file exists");
        assert_eq!((found.permissions().mode() & 0o777, found.len()), (0o600, 0));
        std::fs::remove_file(&file).expect("ours");
        assert!(create_recording("/no/such/folder/x".as_ref()).is_err());
    }
}
