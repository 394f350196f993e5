//! Receives intercepted UDP datagrams with their original destination. No crate in use returns this control message.

#![expect(unsafe_code, reason = "recvmsg(2), whose structures contain pointers")]

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ffi::c_int;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};

/// Buffer for an address (`struct sockaddr_storage`) or control messages, with their alignment. It has room for a message
/// with one address (`CMSG_SPACE` of a `struct sockaddr_in6` is 48 bytes) and more.
#[repr(align(8))]
struct Buffer([u8; 128]);

/// Lengths, in bytes, of `struct sockaddr_in` and `struct sockaddr_in6`.
const IN: usize = size_of::<libc::sockaddr_in>();
const IN6: usize = size_of::<libc::sockaddr_in6>();

/// Receives a datagram; returns its length, its source, and its original destination. The socket needs
/// [`crate::sockopt::receive_original_destinations`].
///
/// # Errors
/// `WouldBlock` without a datagram; `InvalidData` if the kernel reports no destination.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, SocketAddr)> {
    let (mut source, mut control) = (Buffer([0; 128]), Buffer([0; 128]));
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all fields of `msghdr` are integers or pointers, for which zero is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_name, message.msg_namelen) = (source.0.as_mut_ptr().cast(), size_of_val(&source) as u32);
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the descriptor is open while `socket` lives, and the pointers of `message` lead to buffers of the given
    // lengths that live until the call returns.
    let len = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    let control_len = (message.msg_controllen as usize).min(size_of_val(&control));
    let source = parse_address(&source.0);
    let destination = find_destination(&control.0[..control_len]);
    source
        .zip(destination)
        .map(|(source, destination)| (len, source, destination))
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "the kernel reports no original destination"))
}

/// Finds the original destination in control messages (`struct cmsghdr`: length of header and data, level, type).
fn find_destination(mut control: &[u8]) -> Option<SocketAddr> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const LENGTH: usize = size_of::<usize>();
    while control.len() >= HEADER {
        let len = usize::from_ne_bytes(control[..LENGTH].try_into().ok()?);
        let number = |at: usize| Some(c_int::from_ne_bytes(control[at..at + 4].try_into().ok()?));
        let (level, kind) = (number(HEADER - 8)?, number(HEADER - 4)?);
        let data = control.get(HEADER..len)?;
        if [(libc::SOL_IP, libc::IP_ORIGDSTADDR), (libc::SOL_IPV6, libc::IPV6_ORIGDSTADDR)]
            .contains(&(level, kind))
        {
            return parse_address(data);
        }
        control = control.get(len.next_multiple_of(LENGTH)..)?;
    }
    None
}

/// Parses a `struct sockaddr_in` or `struct sockaddr_in6`: family, port, then the address; for IPv6 between them 4 bytes
/// of flow information, and at the end the scope.
fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = c_int::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        libc::AF_INET if bytes.len() >= IN => {
            let ip: [u8; 4] = bytes[4..8].try_into().ok()?;
            Some((Ipv4Addr::from(ip), port).into())
        }
        libc::AF_INET6 if bytes.len() >= IN6 => {
            let ip: [u8; 16] = bytes[8..24].try_into().ok()?;
            let scope = u32::from_ne_bytes(bytes[24..28].try_into().ok()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockopt::receive_original_destinations;
    use std::net::UdpSocket;

    #[test]
    fn destination_is_received_with_datagram() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let socket = UdpSocket::bind(address).expect("loopback has a free port");
            let at = socket.local_addr().expect("the socket is bound");
            receive_original_destinations(&socket, at.is_ipv6()).expect("Linux has the option");
            let other = UdpSocket::bind(address).expect("loopback has a free port");
            other.send_to(b"datagram", at).expect("there is a route");
            socket.peek(&mut [0]).expect("the datagram arrives");
            let mut buffer = [0; 16];
            let (len, source, destination) = receive(&socket, &mut buffer).expect("a datagram");
            assert_eq!(
                (&buffer[..len], source),
                (&b"datagram"[..], other.local_addr().expect("the socket is bound"))
            );
            assert_eq!(destination, at);
            assert_eq!(receive(&socket, &mut buffer).expect_err("no datagram").kind(), ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn malformed_control_message_has_no_destination() {
        assert_eq!(find_destination(&[]), None);
        for len in [0_usize, 15, 16, 17, 1000, usize::MAX] {
            let level = libc::SOL_IP.to_ne_bytes();
            let bytes =
                [&len.to_ne_bytes()[..], &level, &libc::IP_ORIGDSTADDR.to_ne_bytes(), &[2; 24]].concat();
            assert_eq!(find_destination(&bytes), None, "{len}");
        }
    }
}
