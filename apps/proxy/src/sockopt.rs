//! Socket options for which the crates in use have no safe function.

#![expect(unsafe_code, reason = "setsockopt(2) and getsockopt(2), of numbers and bytes without pointers")]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Option `TCP_IS_MPTCP` (since Linux 5.16).
const TCP_IS_MPTCP: c_int = 43;

/// Limits the receive window of a TCP socket (`TCP_WINDOW_CLAMP`), in bytes. With it, the kernel's automatic buffer
/// sizes are limited, too.
///
/// # Errors
/// If the kernel refuses, as it does for Multipath TCP.
pub fn clamp_window(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes.cast_signed())
}

/// Sets `IPV6_TRANSPARENT`, with which an IPv6 socket may use addresses that are not local.
///
/// # Errors
/// If the process has neither `CAP_NET_ADMIN` nor `CAP_NET_RAW`.
pub fn set_transparent_v6(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)
}

/// Makes a UDP socket receive each datagram with its original destination (`IP_RECVORIGDSTADDR`).
///
/// # Errors
/// If the kernel refuses.
pub fn receive_original_destinations(socket: impl AsFd, is_v6: bool) -> io::Result<()> {
    if is_v6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVORIGDSTADDR, 1)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR, 1)
    }
}

/// Level `SOL_MPTCP` and its options `MPTCP_TCPINFO` and `MPTCP_SUBFLOW_ADDRS` (since Linux 5.16).
const SOL_MPTCP: c_int = 284;
const MPTCP_TCPINFO: c_int = 2;
const MPTCP_SUBFLOW_ADDRS: c_int = 3;
/// Maximum number of subflows of a connection (`MPTCP_SUBFLOWS_MAX` and the first one).
const MAX_SUBFLOWS: usize = 9;
/// Sizes in bytes: `struct mptcp_subflow_data`, the part of `struct tcp_info` that is read, two `struct sockaddr_storage`.
const HEAD: usize = 16;
const INFO: usize = 136;
const ADDRESSES: usize = 256;

/// Reads the first [`INFO`] bytes of a connection's `struct tcp_info`.
///
/// # Errors
/// If the connection has ended.
pub fn tcp_info(socket: impl AsFd) -> io::Result<Vec<u8>> {
    let mut info = vec![0; INFO];
    fill(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    Ok(info)
}

/// Reads a `struct mptcp_subflow_data`, followed by `struct tcp_info` of each subflow.
///
/// # Errors
/// If the connection is not Multipath TCP, or has fallen back to TCP.
pub fn subflow_infos(socket: impl AsFd) -> io::Result<Vec<u8>> {
    get_subflow_array(socket, MPTCP_TCPINFO, INFO)
}

/// Reads a `struct mptcp_subflow_data`, followed by the two addresses of each subflow.
///
/// # Errors
/// If the connection is not Multipath TCP, or has fallen back to TCP.
pub fn subflow_addresses(socket: impl AsFd) -> io::Result<Vec<u8>> {
    get_subflow_array(socket, MPTCP_SUBFLOW_ADDRS, ADDRESSES)
}

/// Reads an array with `size` bytes for each subflow.
fn get_subflow_array(socket: impl AsFd, name: c_int, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEAD + MAX_SUBFLOWS * size];
    // The kernel requires `size_subflow_data` and `size_user`; the other fields stay zero.
    bytes[0..4].copy_from_slice(&(HEAD as u32).to_ne_bytes());
    bytes[12..16].copy_from_slice(&(size as u32).to_ne_bytes());
    let len = fill(socket, SOL_MPTCP, name, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// True if a connection uses Multipath TCP and has not fallen back to TCP.
pub fn is_multipath(socket: impl AsFd) -> bool {
    get(socket, libc::IPPROTO_TCP, TCP_IS_MPTCP).is_ok_and(|value| value != 0)
}

fn set(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let len = size_of::<c_int>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `socket` lives, and the kernel reads `len` bytes of `value`.
    let status = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn fill(socket: impl AsFd, level: c_int, name: c_int, bytes: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(bytes.len()).map_err(io::Error::other)?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `socket` lives, and the kernel writes at most `len` bytes to `bytes`. The
    // options read here contain no pointers.
    let status = unsafe { libc::getsockopt(fd, level, name, bytes.as_mut_ptr().cast(), &raw mut len) };
    if status == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}

fn get(socket: impl AsFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let (mut value, mut len) = (0, size_of::<c_int>() as libc::socklen_t);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `socket` lives, and the kernel writes at most `len` bytes to `value`.
    let status = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    if status == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
