//! Where loaded controls are kept: files of the BPF file system, which live until somebody removes them or the machine goes
//! down. `NAME/link` registers the control; `NAME/ID/` has the statistics and settings of each set of operations that was
//! loaded under the name, called by the number of its map in the kernel.
//!
//! On many machines everybody may make files in the BPF file system. What is here is therefore believed, and removed, only if
//! root alone can have made it.

use crate::Error;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, statfs};
use rustix::mount::{MountFlags, mount};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Where administrators and other tools expect the BPF file system.
pub const BPFFS: &str = "/sys/fs/bpf";
/// linux/magic.h
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
/// What is kept of a set of operations: what its programs count.
pub const STATISTICS: &str = "statistics";
/// And what they were told.
pub const SETTINGS: &str = "settings";
/// Bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// The folder of all that is pinned here.
pub fn root() -> PathBuf {
    Path::new(BPFFS).join("anabranch")
}

/// The folder of a control.
pub fn folder(name: &str) -> PathBuf {
    root().join(name)
}

/// The link that registers a control.
pub fn link(name: &str) -> PathBuf {
    folder(name).join("link")
}

/// Mounts the BPF file system where it belongs, unless it is there, and keeps other loaders out until the returned
/// descriptor is dropped.
///
/// # Errors
///
/// If it cannot be mounted, or if others than root may have made what is there.
pub fn prepare() -> Result<OwnedFd, Error> {
    if !mounted() {
        mount("bpf", BPFFS, "bpf", MountFlags::empty(), Some(c"mode=0700")).map_err(|error| {
            Error::Machine(format!(
                "the BPF file system is not mounted at {BPFFS}, where loaded controls are kept, and cannot be ({error}); \
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

/// Refuses a folder that others than root may have filled; one that is not there is nobody's.
fn trust(folder: &Path) -> Result<(), Error> {
    let found = match fs::symlink_metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::system(&format!("cannot look at {}", folder.display()), &error)),
    };
    if found.is_dir() && found.uid() == 0 && found.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{0} is not a folder that only root writes to, so that somebody else may have made what is in it; remove {0} and load again",
        folder.display()
    )))
}

/// Whether all that is kept of a control can be believed.
///
/// # Errors
///
/// If others than root may have made it.
pub fn check(name: &str) -> Result<(), Error> {
    trust(&root())?;
    trust(&folder(name))
}

/// Makes the folder of a control's set of operations, which only root can enter.
///
/// # Errors
///
/// If the system refuses, or somebody else made one on the way to it.
pub fn make(name: &str, number: u32) -> Result<PathBuf, Error> {
    let last = folder(name).join(number.to_string());
    for folder in [root(), folder(name), last.clone()] {
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::system(&format!("cannot make {}", folder.display()), &error));
            }
            _ => trust(&folder)?,
        }
    }
    Ok(last)
}

/// Whether the BPF file system is where it belongs.
pub fn mounted() -> bool {
    statfs(BPFFS).is_ok_and(|status| u64::try_from(status.f_type).is_ok_and(|kind| kind == BPF_FS_MAGIC))
}

/// What is kept at [`BPFFS`] outlives the caller: it is mounted, or can be where every process of the machine sees it, and not
/// in a private tree of mounts.
pub fn lasts() -> bool {
    let tree = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    mounted() || tree("1").is_none_or(|machine| tree("self") == Some(machine))
}

/// The folders of a control's sets of operations, by their numbers.
pub fn generations(name: &str) -> Vec<(u32, PathBuf)> {
    numbered(&folder(name))
}

/// Folders that are called by a number, links to folders not among them.
fn numbered(folder: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    found.sort();
    found
}

/// Removes what is kept of a set of operations, and nothing else.
///
/// # Errors
///
/// If the system refuses, as it does where somebody has put something else into the folder.
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
    fn links_are_not_followed_and_only_what_is_ours_is_removed() {
        let place = std::env::temp_dir().join(format!("anabranch-pins-{}", std::process::id()));
        let (ours, theirs) = (place.join("control/7"), place.join("theirs"));
        fs::create_dir_all(&ours).expect("it is new");
        fs::create_dir(&theirs).expect("it is new");
        for file in [ours.join(STATISTICS), theirs.join(STATISTICS), ours.join("other")] {
            fs::write(file, "").expect("the folder is there");
        }
        symlink(theirs.join(STATISTICS), ours.join(SETTINGS)).expect("it is new");
        symlink(&theirs, place.join("control/8")).expect("it is new");
        assert_eq!(numbered(&place.join("control")), [(7, ours.clone())]);
        remove(&ours).expect_err("there is something else in it");
        assert!(ours.join("other").exists() && !ours.join(STATISTICS).exists());
        fs::remove_file(ours.join("other")).expect("it is there");
        remove(&ours).expect("it is empty");
        assert!(theirs.join(STATISTICS).exists());
        trust(&place.join("control/8")).expect_err("a link is not believed");
        fs::remove_dir_all(&place).expect("it is ours");
    }
}
