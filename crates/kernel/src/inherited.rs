//! Prevents child processes from inheriting open files. The standard library has no function for that.

use rustix::fd::BorrowedFd;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs;
use std::io;

/// Makes all open files, except the standard ones, close in processes that are started from now on.
///
/// # Errors
///
/// If the kernel does not list the open files of this process.
#[allow(unsafe_code)]
pub fn close_on_exec() -> io::Result<()> {
    let files = fs::read_dir("/proc/self/fd")?.flatten();
    for file in files.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|&file| file > 2) {
        // SAFETY: the listed files are open, and no code closes one of them before this loop ends.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        fcntl_setfd(file, FdFlags::CLOEXEC)?;
    }
    Ok(())
}
