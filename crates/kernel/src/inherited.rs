//! Prevents child processes from inheriting open files, for which the standard library has no function.

use rustix::fd::BorrowedFd;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs;
use std::io;

/// Makes all open files except the standard ones close in processes started from now on.
///
/// # Errors
///
/// If the system does not list the open files.
#[allow(unsafe_code)]
pub fn close_on_exec() -> io::Result<()> {
    let files = fs::read_dir("/proc/self/fd")?.flatten();
    for file in files.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|&file| file > 2) {
        // SAFETY: the listed files are open, and no code here closes one of them before the list ends.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        fcntl_setfd(file, FdFlags::CLOEXEC)?;
    }
    Ok(())
}
