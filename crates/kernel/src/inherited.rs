//! Keeping what a process was started with from those that it starts, which the standard library has no form of.

use rustix::fd::BorrowedFd;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs;
use std::io;

/// Lets no process that this one starts from now on have any of its open files but the standard ones.
///
/// # Errors
///
/// If the system does not list them.
#[allow(unsafe_code)]
pub fn keep() -> io::Result<()> {
    let files = fs::read_dir("/proc/self/fd")?.flatten();
    for file in files.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|&file| file > 2) {
        // SAFETY: those that are listed are open, and nothing here closes one before the list ends.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        fcntl_setfd(file, FdFlags::CLOEXEC)?;
    }
    Ok(())
}
