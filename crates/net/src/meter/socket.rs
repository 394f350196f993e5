//! Opens sockets, and verifies every setting.

use super::flow::{ACCEPTS, CONNECTS, Flow, Transport};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};

/// `IPPROTO_MPTCP`.
const MPTCP: u32 = 262;

/// Maximum number of connections that wait to be accepted: a flow has one, and its proxy may probe the port.
const BACKLOG: i32 = 4;

/// Opens a non-blocking socket of a transport.
///
/// # Errors
///
/// If the kernel does not support the protocol.
pub fn open_socket(transport: Transport, ipv4: bool) -> io::Result<OwnedFd> {
    let family = if ipv4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let protocol = |number| NonZeroU32::new(number).map(Protocol::from_raw);
    let (kind, protocol) = match transport {
        Transport::Tcp => (SocketType::STREAM, None),
        Transport::Mptcp => (SocketType::STREAM, protocol(MPTCP)),
        Transport::Udp => (SocketType::DGRAM, None),
        Transport::Sctp => unreachable!("associations use this crate's stack"),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, kind, flags, protocol)?)
}

/// Ignores a missing permission. Only the machine's root may set any buffer size; without it, the kernel adapts the
/// size, up to the maximum of the namespace (`net.ipv4.tcp_rmem`, `tcp_wmem`).
fn unless_forbidden(result: Result<(), Errno>) -> Result<(), Errno> {
    if result == Err(Errno::PERM) { Ok(()) } else { result }
}

/// Sends a datagram on a connected socket; false if it is lost: without room, receiver or route.
///
/// # Errors
///
/// An error that ends the flow.
pub fn send_datagram(socket: &OwnedFd, datagram: &[u8]) -> Result<bool, Errno> {
    match rustix::net::send(socket, datagram, SendFlags::NOSIGNAL) {
        Ok(_) => Ok(true),
        Err(
            Errno::AGAIN
            | Errno::INTR
            | Errno::NOBUFS
            | Errno::CONNREFUSED
            | Errno::NETUNREACH
            | Errno::HOSTUNREACH
            | Errno::NETDOWN,
        ) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sets the options of a flow's socket at an end, before or after connecting.
///
/// # Errors
///
/// If the kernel does not have a feature, or refuses it; the text is a sentence.
pub fn prepare(socket: &OwnedFd, flow: &Flow, end: usize) -> Result<(), String> {
    let fails = |what: &str, error: Errno| format!("{what}: {error}");
    if let Some(bytes) = flow.send_buffer {
        unless_forbidden(sockopt::set_socket_send_buffer_size_force(socket, bytes))
            .map_err(|error| fails("cannot set the send buffer", error))?;
    }
    if let Some(bytes) = flow.receive_buffer {
        unless_forbidden(sockopt::set_socket_recv_buffer_size_force(socket, bytes))
            .map_err(|error| fails("cannot set the receive buffer", error))?;
    }
    if flow.needs_control(end) {
        sockopt::set_tcp_congestion(socket, &kernel_name(flow.congestion)).map_err(|error| {
            fails(&format!("cannot set the congestion control {}", flow.congestion), error)
        })?;
    }
    if flow.transport != Transport::Udp {
        sockopt::set_tcp_nodelay(socket, flow.no_delay)
            .map_err(|error| fails("cannot set Nagle's algorithm", error))?;
    }
    Ok(())
}

/// The kernel's name of a control: in BPF, names have no hyphens.
fn kernel_name(control: &str) -> String {
    control.replace('-', "_")
}

/// The connecting end: bound to the flow's first address, not connected yet.
///
/// # Errors
///
/// If the kernel does not support the protocol or congestion control, or refuses a setting; the text is a sentence.
pub fn connecting(flow: &Flow) -> Result<OwnedFd, String> {
    let socket = open_socket(flow.transport_of(CONNECTS), flow.has_ipv4_sockets())
        .map_err(|error| format!("cannot open the socket: {error}"))?;
    prepare(&socket, flow, CONNECTS)?;
    rustix::net::bind(&socket, &flow.socket_address(flow.local))
        .map_err(|error| format!("cannot bind the source address: {error}"))?;
    Ok(socket)
}

/// Checks whether a connected socket has its congestion control: an unconnected MPTCP socket accepts any name
/// silently.
///
/// # Errors
///
/// If the socket has another congestion control; the text is a sentence.
pub fn check_congestion(socket: &OwnedFd, flow: &Flow, end: usize) -> Result<(), String> {
    if !flow.needs_control(end) {
        return Ok(());
    }
    match sockopt::tcp_congestion(socket) {
        Ok(name) if name == kernel_name(flow.congestion) => Ok(()),
        Ok(name) => Err(format!("the kernel uses the congestion control {name} and not {}", flow.congestion)),
        Err(error) => Err(format!("cannot read the congestion control: {error}")),
    }
}

/// The listening end: bound, and listening if the protocol has connections. It accepts subflows to any
/// address of the host.
///
/// # Errors
///
/// If the kernel does not support the protocol, or refuses a setting.
pub fn listening(flow: &Flow) -> io::Result<OwnedFd> {
    let socket = open_socket(flow.transport_of(ACCEPTS), flow.has_ipv4_sockets())?;
    if let Some(bytes) = flow.receive_buffer {
        unless_forbidden(sockopt::set_socket_recv_buffer_size_force(&socket, bytes))?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let any: IpAddr =
        if flow.has_ipv4_sockets() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    rustix::net::bind(&socket, &SocketAddr::new(any, flow.remote.port()))?;
    if flow.transport != Transport::Udp {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// Waits until a socket is ready, or until `timeout`.
///
/// # Errors
///
/// If the kernel refuses to wait.
pub fn wait(socket: &OwnedFd, flags: PollFlags, timeout: anabranch_base::time::Duration) -> io::Result<()> {
    let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), flags)];
    match poll(&mut fds, Some(&crate::clock::timespec(timeout))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
