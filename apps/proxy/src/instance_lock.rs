//! Checks that a process may change the network, and that it is the only one of its kind in a network namespace.
//!
//! The lock is a file in a folder of its owner's: a name that any user may take, such as an abstract socket, would let any user
//! keep the program from starting.

use super::error::Error;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Folder of the folders of locks; systemd makes the one of a unit there (`RuntimeDirectory`).
const RUN: &str = "/run";

/// Attempts to lock a file that another process checks or removes meanwhile, and their interval.
const MAX_ATTEMPTS: u32 = 10;
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(20);

/// The only instance of a kind in a network namespace, while this value exists.
#[derive(Debug)]
pub struct InstanceLock {
    _file: File,
    path: PathBuf,
}

impl InstanceLock {
    /// Locks a name; `kind` is the program that does so.
    ///
    /// # Errors
    /// If another process has locked it, or the lock cannot be written.
    pub fn here(name: &str, kind: &str) -> Result<Self, Error> {
        Self::within(&Path::new(RUN).join(name), kind)
    }

    fn within(folder: &Path, kind: &str) -> Result<Self, Error> {
        Self::lock(folder).map_err(|error| {
            Error::Refused(match error.kind() {
                ErrorKind::WouldBlock => format!("another {kind} runs here already"),
                _ => format!(
                    "cannot write a lock in {}: {error}; run it as root, or by systemd with RuntimeDirectory",
                    folder.display()
                ),
            })
        })
    }

    fn lock(folder: &Path) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            prepare(folder)?;
            let path = file_in(folder)?;
            let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = match opened {
                // The holder removed the folder.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                // It may be locked by a check for a moment.
                std::thread::sleep(ATTEMPT_INTERVAL);
                continue;
            }
            // A file that was removed before it was locked is no lock.
            if std::fs::metadata(&path)
                .is_ok_and(|now| file.metadata().is_ok_and(|own| own.ino() == now.ino()))
            {
                return Ok(Self { _file: file, path });
            }
        }
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        // The folder stays if it is systemd's, or has locks of other namespaces.
        drop(std::fs::remove_file(&self.path));
        drop(self.path.parent().map(std::fs::remove_dir));
    }
}

/// Makes a folder that only its owner can enter.
fn prepare(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let found = std::fs::metadata(folder)?;
    if found.uid() != geteuid().as_raw() && found.uid() != 0 {
        return Err(io::Error::other("the folder belongs to another user"));
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// The lock file of this network namespace.
fn file_in(folder: &Path) -> io::Result<PathBuf> {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(folder.join(format!("{namespace}.lock")))
}

/// Whether one of this name runs here. A user who may not enter the folder sees that it exists, as it does while one runs.
pub fn runs(name: &str) -> bool {
    is_locked(&Path::new(RUN).join(name))
}

fn is_locked(folder: &Path) -> bool {
    match file_in(folder).and_then(File::open) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK),
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// Checks that this process may change the network.
///
/// # Errors
///
/// If it may not, with the remedy.
pub fn permitted(command: &str) -> Result<(), Error> {
    let sets = capabilities(None);
    if sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN)) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{command} needs CAP_NET_ADMIN: run it as root, or by systemd with AmbientCapabilities=CAP_NET_ADMIN"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instance_runs_and_its_files_are_its_owners() {
        let folder = std::env::temp_dir().join(format!("anabranch-lock-{}", std::process::id()));
        DirBuilder::new().mode(0o755).create(&folder).expect("the folder is new");
        assert!(!is_locked(&folder));
        let first = InstanceLock::within(&folder, "router").expect("none runs");
        let mode = |path: &Path| std::fs::metadata(path).expect("it exists").mode() & 0o777;
        assert_eq!((mode(&folder), mode(&first.path)), (0o700, 0o600));
        assert!(is_locked(&folder));
        let second = InstanceLock::within(&folder, "router").expect_err("one runs");
        assert_eq!(second.to_string(), "another router runs here already");
        drop(first);
        assert!(!folder.exists() && !is_locked(&folder));
        drop(InstanceLock::within(&folder, "router").expect("none runs any more"));
    }
}
