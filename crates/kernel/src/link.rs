//! Replaces the map of a BPF link. libbpf-rs has no safe function for that.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Atomically makes a link register the operations of another map instead of the current ones. Sockets that use the
/// current operations keep them, and the name is registered all the time.
///
/// # Errors
///
/// If the kernel refuses, for instance because the operations in the map have another name.
#[allow(unsafe_code)]
pub fn update(link: &impl AsFd, map: &impl AsFd) -> io::Result<()> {
    let (link, map) = (link.as_fd().as_raw_fd(), map.as_fd().as_raw_fd());
    // SAFETY: both descriptors stay open while they are borrowed here, and the function dereferences only the
    // options, which may be null.
    let answer = unsafe { libbpf_sys::bpf_link_update(link, map, std::ptr::null()) };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}
