//! Checks that a process may configure the network, and that it is the only instance in its network namespace.
//!
//! The lock is a file in a folder that only its owner can write. An abstract socket would be no lock: any user could
//! bind its name, and so prevent the program from starting.

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

/// Parent of the folders with locks. For a unit with `RuntimeDirectory`, systemd creates the folder.
const RUN: &str = "/run";

/// Maximum number of attempts to lock the file. Another process may lock or remove the file for a moment.
const MAX_ATTEMPTS: u32 = 10;
/// Time between two attempts.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(20);

/// Lock of the only instance in a network namespace, held until it is dropped.
#[derive(Debug)]
pub struct InstanceLock {
    _file: File,
    path: PathBuf,
}

impl InstanceLock {
    /// Acquires the lock `name`; `kind` names the program in messages.
    ///
    /// # Errors
    /// If another process holds the lock, or the lock file cannot be written.
    pub fn acquire(name: &str, kind: &str) -> Result<Self, Error> {
        Self::acquire_in(&Path::new(RUN).join(name), kind)
    }

    fn acquire_in(folder: &Path, kind: &str) -> Result<Self, Error> {
        Self::lock(folder).map_err(|error| {
            Error::Refused(match error.kind() {
                ErrorKind::WouldBlock => format!("another {kind} already runs in this network namespace"),
                _ => format!(
                    "cannot write a lock in {}: {error}; run the program as root, or from systemd with RuntimeDirectory",
                    folder.display()
                ),
            })
        })
    }

    fn lock(folder: &Path) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            create_private_folder(folder)?;
            let path = lock_path(folder)?;
            let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = match opened {
                // The process that held the lock has removed the folder since.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                // A process that only checks whether the file is locked holds the lock for a moment.
                std::thread::sleep(ATTEMPT_INTERVAL);
                continue;
            }
            // The lock counts only if the locked file is still the one at this path: the previous holder may have
            // removed it.
            if std::fs::metadata(&path)
                .is_ok_and(|now| file.metadata().is_ok_and(|locked| locked.ino() == now.ino()))
            {
                return Ok(Self { _file: file, path });
            }
        }
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        // Removing the folder fails if systemd owns it, or if it contains locks of other namespaces; then it remains.
        drop(std::fs::remove_file(&self.path));
        drop(self.path.parent().map(std::fs::remove_dir));
    }
}

/// Creates a folder that only its owner can enter, or checks the owner of an existing one.
fn create_private_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        created => return created,
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

/// Returns the path of the lock file for this network namespace.
fn lock_path(folder: &Path) -> io::Result<PathBuf> {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(folder.join(format!("{namespace}.lock")))
}

/// True if an instance with this lock runs in the network namespace. A user who may not read the folder can only see
/// that it exists; since the folder exists only while an instance runs, this counts as running.
pub fn runs(name: &str) -> bool {
    is_locked(&Path::new(RUN).join(name))
}

fn is_locked(folder: &Path) -> bool {
    match lock_path(folder).and_then(File::open) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK),
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// Checks that this process may configure the network.
///
/// # Errors
///
/// If the process lacks `CAP_NET_ADMIN`; the error contains the remedy.
pub fn check_permission(command: &str) -> Result<(), Error> {
    let sets = capabilities(None);
    if sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN)) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{command} needs CAP_NET_ADMIN; run it as root, or from systemd with AmbientCapabilities=CAP_NET_ADMIN"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_instance_is_refused_until_lock_is_dropped() {
        let folder = std::env::temp_dir().join(format!("anabranch-lock-{}", std::process::id()));
        DirBuilder::new().mode(0o755).create(&folder).expect("the folder is new");
        assert!(!is_locked(&folder));
        let first = InstanceLock::acquire_in(&folder, "router").expect("no instance runs");
        let mode = |path: &Path| std::fs::metadata(path).expect("the file exists").mode() & 0o777;
        assert_eq!((mode(&folder), mode(&first.path)), (0o700, 0o600));
        assert!(is_locked(&folder));
        let second = InstanceLock::acquire_in(&folder, "router").expect_err("an instance runs");
        assert_eq!(second.to_string(), "another router already runs in this network namespace");
        drop(first);
        assert!(!folder.exists() && !is_locked(&folder));
        drop(InstanceLock::acquire_in(&folder, "router").expect("no instance runs any more"));
    }
}
