//! Pinned files of loaded congestion controls in the BPF file system. They persist until they are removed or the
//! machine shuts down. `NAME/link` registers the congestion control. `NAME/ID/` contains statistics and settings of
//! each set of operations that was loaded under the name; ID is the kernel's number of its map.
//!
//! On many machines, every user may create files in the BPF file system. So files are trusted, and removed, only if no
//! user other than root can have created them.

use crate::Error;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, statfs};
use rustix::mount::{MountFlags, mount};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The usual mount point of the BPF file system.
pub const BPFFS: &str = "/sys/fs/bpf";
/// Magic number of the BPF file system (linux/magic.h).
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
/// Name of the pinned file with the statistics of the BPF programs.
pub const STATISTICS: &str = "statistics";
/// Name of the pinned file with the settings of the BPF programs.
pub const SETTINGS: &str = "settings";
/// Mode bits that allow users other than the owner to write.
const OTHERS_WRITE: u32 = 0o022;

/// Returns the folder of all pinned files.
pub fn root() -> PathBuf {
    Path::new(BPFFS).join("anabranch")
}

/// Returns the folder of a congestion control.
pub fn folder(name: &str) -> PathBuf {
    root().join(name)
}

/// Returns the path of the link that registers a congestion control.
pub fn link(name: &str) -> PathBuf {
    folder(name).join("link")
}

/// Mounts the BPF file system at its usual place, unless it is mounted. Excludes other loaders until the returned
/// descriptor is dropped.
///
/// # Errors
///
/// If the BPF file system cannot be mounted, or if users other than root may have created its files.
pub fn prepare() -> Result<OwnedFd, Error> {
    if !mounted() {
        mount("bpf", BPFFS, "bpf", MountFlags::empty(), Some(c"mode=0700")).map_err(|error| {
            Error::Machine(format!(
                "the BPF file system is not mounted at {BPFFS}, where loaded controls are pinned, and cannot be mounted ({error}); \
                 run: mount -t bpf -o mode=0700 bpf {BPFFS}"
            ))
        })?;
    }
    let locked = openat(CWD, BPFFS, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|folder| flock(&folder, FlockOperation::LockExclusive).map(|()| folder));
    let locked = locked.map_err(|error| Error::system(&format!("cannot lock {BPFFS}"), &error))?;
    trust(&root())?;
    Ok(locked)
}

/// Checks that only root can have created files in a folder. A missing folder is accepted.
fn trust(folder: &Path) -> Result<(), Error> {
    let found = match fs::symlink_metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(Error::system(
                &format!("cannot read the attributes of {}", folder.display()),
                &error,
            ));
        }
    };
    if found.is_dir() && found.uid() == 0 && found.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{0} is not a folder in which only root can write, so other users may have created its files; remove {0} and load again",
        folder.display()
    )))
}

/// Checks that only root can have created the pinned files of a congestion control.
///
/// # Errors
///
/// If users other than root may have created the pinned files.
pub fn check(name: &str) -> Result<(), Error> {
    trust(&root())?;
    trust(&folder(name))
}

/// Creates the folder for a set of operations of a congestion control. Only root can enter it.
///
/// # Errors
///
/// If the kernel refuses, or if another user created a folder on the path.
pub fn make(name: &str, number: u32) -> Result<PathBuf, Error> {
    let last = folder(name).join(number.to_string());
    for folder in [root(), folder(name), last.clone()] {
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::system(&format!("cannot create {}", folder.display()), &error));
            }
            _ => trust(&folder)?,
        }
    }
    Ok(last)
}

/// True if the BPF file system is mounted at its usual place.
pub fn mounted() -> bool {
    statfs(BPFFS).is_ok_and(|status| u64::try_from(status.f_type).is_ok_and(|kind| kind == BPF_FS_MAGIC))
}

/// True if files in [`BPFFS`] persist when the caller ends: the file system is mounted, or can be mounted in the mount
/// namespace that all processes of the machine share.
pub fn lasts() -> bool {
    let tree = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    mounted() || tree("1").is_none_or(|machine| tree("self") == Some(machine))
}

/// Lists the folders of all sets of operations of a congestion control, with their numbers.
pub fn generations(name: &str) -> Vec<(u32, PathBuf)> {
    numbered_folders(&folder(name))
}

/// Lists the folders whose names are numbers. Symbolic links are skipped.
fn numbered_folders(folder: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    found.sort();
    found
}

/// Removes the pinned files of a set of operations, and then their folder. Other files are not removed.
///
/// # Errors
///
/// If the kernel refuses, for example because the folder contains other files.
pub fn remove(folder: &Path) -> Result<(), Error> {
    let refused =
        |error: std::io::Error| Error::system(&format!("cannot remove {}", folder.display()), &error);
    for file in [STATISTICS, SETTINGS] {
        match fs::remove_file(folder.join(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(refused(error)),
            _ => {}
        }
    }
    fs::remove_dir(folder).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_own_files_are_removed_and_links_not_followed() {
        let place = std::env::temp_dir().join(format!("anabranch-pins-{}", std::process::id()));
        let (ours, theirs) = (place.join("control/7"), place.join("theirs"));
        fs::create_dir_all(&ours).expect("the folder is new");
        fs::create_dir(&theirs).expect("the folder is new");
        for file in [ours.join(STATISTICS), theirs.join(STATISTICS), ours.join("other")] {
            fs::write(file, "").expect("the folder exists");
        }
        symlink(theirs.join(STATISTICS), ours.join(SETTINGS)).expect("the link is new");
        symlink(&theirs, place.join("control/8")).expect("the link is new");
        assert_eq!(numbered_folders(&place.join("control")), [(7, ours.clone())]);
        remove(&ours).expect_err("the folder contains another file");
        assert!(ours.join("other").exists() && !ours.join(STATISTICS).exists());
        fs::remove_file(ours.join("other")).expect("the file exists");
        remove(&ours).expect("the folder has only pinned files");
        assert!(theirs.join(STATISTICS).exists());
        trust(&place.join("control/8")).expect_err("a link is not trusted");
        fs::remove_dir_all(&place).expect("the folder belongs to the test");
    }
}
