//! Exchanging what a link registers, which libbpf-rs has no safe form of for maps.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Makes a link register another map's operations instead of those it registers now, at one moment: sockets that have the
/// old ones keep them, and there is no time at which the name is unknown.
///
/// # Errors
///
/// What the kernel refuses, for instance a map of another name.
#[allow(unsafe_code)]
pub fn update(link: &impl AsFd, map: &impl AsFd) -> io::Result<()> {
    let (link, map) = (link.as_fd().as_raw_fd(), map.as_fd().as_raw_fd());
    // SAFETY: both descriptors are open for as long as they are borrowed here, and the options, which may be null, are all
    // that the function dereferences.
    let answer = unsafe { libbpf_sys::bpf_link_update(link, map, std::ptr::null()) };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}
