//! Replacing the map of a link, for which libbpf-rs has no safe function.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Makes a link register another map's operations instead of the present ones, atomically: sockets with the
/// old operations keep them, and the name is never unregistered.
///
/// # Errors
///
/// If the kernel refuses, for instance a map with another name.
#[allow(unsafe_code)]
pub fn update(link: &impl AsFd, map: &impl AsFd) -> io::Result<()> {
    let (link, map) = (link.as_fd().as_raw_fd(), map.as_fd().as_raw_fd());
    // SAFETY: both descriptors stay open while they are borrowed here, and the function dereferences only the
    // options, which may be null.
    let answer = unsafe { libbpf_sys::bpf_link_update(link, map, std::ptr::null()) };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}
