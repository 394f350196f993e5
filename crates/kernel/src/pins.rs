//! Where loaded controls are kept: files of the BPF file system, which live until somebody removes them or the machine goes
//! down. `NAME/link` registers the control; `NAME/ID/` has the statistics and settings of each set of operations that was
//! loaded under the name, called by the number of its map in the kernel.

use crate::Error;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat, statfs};
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where administrators and other tools expect the BPF file system.
const BPFFS: &str = "/sys/fs/bpf";
/// linux/magic.h
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

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
/// If it cannot be mounted.
pub fn prepare() -> Result<OwnedFd, Error> {
    if !mounted() {
        mount("bpf", BPFFS, "bpf", MountFlags::empty(), None).map_err(|error| {
            Error::Machine(format!(
                "the BPF file system is not mounted at {BPFFS}, where loaded controls are kept, and cannot be ({error}); \
                 run: mount -t bpf bpf {BPFFS}"
            ))
        })?;
    }
    let locked = openat(CWD, BPFFS, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|folder| flock(&folder, FlockOperation::LockExclusive).map(|()| folder));
    locked.map_err(|error| Error::system(&format!("cannot lock {BPFFS}"), &error))
}

/// Whether the BPF file system is where it belongs.
pub fn mounted() -> bool {
    statfs(BPFFS).is_ok_and(|status| u64::try_from(status.f_type).is_ok_and(|kind| kind == BPF_FS_MAGIC))
}

/// The folders of a control's sets of operations, by their numbers.
pub fn generations(name: &str) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder(name)) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    found.sort();
    found
}

/// Removes a folder of pins.
///
/// # Errors
///
/// If the system refuses.
pub fn remove(folder: &Path) -> Result<(), Error> {
    let refused =
        |error: std::io::Error| Error::system(&format!("cannot remove {}", folder.display()), &error);
    for entry in fs::read_dir(folder).map_err(refused)? {
        fs::remove_file(entry.map_err(refused)?.path()).map_err(refused)?;
    }
    fs::remove_dir(folder).map_err(refused)
}
