//! Values in the caller's memory.

use crate::Errno;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// Reads an address with its port.
///
/// # Safety
/// `len` bytes at `address` are readable.
// SAFETY: its callers are functions of the interface, which trust their caller in C.
pub unsafe fn address(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    if address.is_null() || (len as usize) < size_of::<sockaddr_in>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: by the contract of this function, and by the length.
    let family = i32::from(unsafe { (*address).sa_family });
    if family == libc::AF_INET {
        // SAFETY: as above; the structure may lie at any address.
        let v4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
        let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
        return Ok(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)));
    }
    if family != libc::AF_INET6 || (len as usize) < size_of::<sockaddr_in6>() {
        return Err(libc::EAFNOSUPPORT);
    }
    // SAFETY: as above.
    let v6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
    let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
    Ok(SocketAddr::new(IpAddr::V6(ip).to_canonical(), u16::from_be(v6.sin6_port)))
}

/// Writes an address, cut to the space of the caller, and its length.
///
/// # Safety
/// `out` is null, or `*len` bytes at `out` are writable.
// SAFETY: its callers are functions of the interface, which trust their caller in C.
pub unsafe fn write_address(from: SocketAddr, out: *mut sockaddr, len: *mut socklen_t) {
    if out.is_null() || len.is_null() {
        return;
    }
    let mut bytes = [0_u8; size_of::<sockaddr_in6>()];
    bytes[2..4].copy_from_slice(&from.port().to_be_bytes());
    let (family, used) = match from.ip() {
        IpAddr::V4(ip) => {
            bytes[4..8].copy_from_slice(&ip.octets());
            (libc::AF_INET, size_of::<sockaddr_in>())
        }
        IpAddr::V6(ip) => {
            bytes[8..24].copy_from_slice(&ip.octets());
            (libc::AF_INET6, size_of::<sockaddr_in6>())
        }
    };
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    // SAFETY: by the contract of this function; the ranges are of different objects.
    unsafe {
        let room = (*len as usize).min(used);
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), room);
        *len = used as socklen_t;
    }
}

/// Bytes of the caller.
///
/// # Safety
/// `len` bytes at `address` are readable while the result is used.
// SAFETY: its callers are functions of the interface, which trust their caller in C.
pub unsafe fn bytes<'a>(address: *const core::ffi::c_void, len: usize) -> Result<&'a [u8], Errno> {
    if len == 0 {
        return Ok(&[]);
    }
    if address.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: by the contract of this function.
    Ok(unsafe { core::slice::from_raw_parts(address.cast(), len) })
}

/// Copies bytes to the caller.
///
/// # Safety
/// The length of `from` is writable at `to`.
// SAFETY: its callers are functions of the interface, which trust their caller in C.
pub unsafe fn copy(from: &[u8], to: *mut core::ffi::c_void) {
    // SAFETY: by the contract of this function; the caller's memory is another object than ours.
    unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), from.len()) };
}
