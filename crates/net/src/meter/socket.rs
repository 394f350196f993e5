//! Opening sockets, with every setting read back.

use super::flow::{Flow, Transport};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};

/// `IPPROTO_MPTCP`.
const MPTCP: u32 = 262;
/// `IPPROTO_SCTP`.
const SCTP: u32 = 132;

/// Connections that wait to be accepted: a flow has one, and its proxy may come to see whether somebody is there.
const BACKLOG: i32 = 4;

/// A socket of a transport that never waits.
///
/// # Errors
/// If the kernel has no such protocol.
pub fn open_socket(transport: Transport, ipv4: bool) -> io::Result<OwnedFd> {
    let family = if ipv4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let protocol = |number| NonZeroU32::new(number).map(Protocol::from_raw);
    let (kind, protocol) = match transport {
        Transport::Tcp => (SocketType::STREAM, None),
        Transport::Mptcp => (SocketType::STREAM, protocol(MPTCP)),
        Transport::Sctp => (SocketType::STREAM, protocol(SCTP)),
        Transport::Udp => (SocketType::DGRAM, None),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, kind, flags, protocol)?)
}

/// Only the machine's root may give a buffer any size. Elsewhere the kernel finds the size itself, up to the largest of the
/// namespace (`net.ipv4.tcp_rmem`, `tcp_wmem`).
fn unless_forbidden(result: Result<(), Errno>) -> Result<(), Errno> {
    if result == Err(Errno::PERM) { Ok(()) } else { result }
}

/// Hands a datagram to a connected socket; false if it is lost: without room, and while nobody or no way is there.
///
/// # Errors
/// What ends the flow.
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

/// What a socket of a flow is set to at either end, connected or not.
///
/// # Errors
/// What the kernel does not have or refuses: a sentence.
pub fn prepare(socket: &OwnedFd, flow: &Flow) -> Result<(), String> {
    let fails = |what: &str, error: Errno| format!("{what}: {error}");
    if let Some(bytes) = flow.send_buffer {
        unless_forbidden(sockopt::set_socket_send_buffer_size_force(socket, bytes))
            .map_err(|error| fails("the send buffer is refused", error))?;
    }
    if let Some(bytes) = flow.receive_buffer {
        unless_forbidden(sockopt::set_socket_recv_buffer_size_force(socket, bytes))
            .map_err(|error| fails("the receive buffer is refused", error))?;
    }
    if flow.transport != Transport::Udp {
        sockopt::set_tcp_congestion(socket, &kernel_name(flow.congestion))
            .map_err(|error| fails(&format!("the congestion control {}", flow.congestion), error))?;
        sockopt::set_tcp_nodelay(socket, flow.no_delay)
            .map_err(|error| fails("Nagle's algorithm cannot be set", error))?;
    }
    Ok(())
}

/// What a control of a scenario is called in the kernel, where names of controls in BPF have no hyphens.
fn kernel_name(control: &str) -> String {
    control.replace('-', "_")
}

/// The end that connects: bound to the flow's first address, not connected yet.
///
/// # Errors
/// If the kernel has no such protocol or congestion control, or refuses a setting: a sentence.
pub fn connecting(flow: &Flow) -> Result<OwnedFd, String> {
    let socket = open_socket(flow.transport, flow.remote.is_ipv4())
        .map_err(|error| format!("the kernel opens no such socket: {error}"))?;
    prepare(&socket, flow)?;
    rustix::net::bind(&socket, &flow.local).map_err(|error| format!("the address is not there: {error}"))?;
    Ok(socket)
}

/// Whether a connected socket has the congestion control that it was given: before it connects, an MPTCP socket takes any
/// name without a word.
///
/// # Errors
/// Which one it has instead: a sentence.
pub fn check_congestion(socket: &OwnedFd, flow: &Flow) -> Result<(), String> {
    if flow.transport == Transport::Udp {
        return Ok(());
    }
    match sockopt::tcp_congestion(socket) {
        Ok(name) if name == kernel_name(flow.congestion) => Ok(()),
        Ok(name) => Err(format!("the kernel uses the congestion control {name} and not {}", flow.congestion)),
        Err(error) => Err(format!("the congestion control cannot be read back: {error}")),
    }
}

/// The end that is connected to: bound, and listening where there are connections. It takes whatever address of the host a
/// subflow comes to.
///
/// # Errors
/// If the kernel has no such protocol, or refuses a setting.
pub fn listening(flow: &Flow) -> io::Result<OwnedFd> {
    let socket = open_socket(flow.arrives_by(), flow.remote.is_ipv4())?;
    if let Some(bytes) = flow.receive_buffer {
        unless_forbidden(sockopt::set_socket_recv_buffer_size_force(&socket, bytes))?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let any: IpAddr =
        if flow.remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    rustix::net::bind(&socket, &SocketAddr::new(any, flow.remote.port()))?;
    if flow.transport != Transport::Udp {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// Waits until a socket is ready, or until `timeout`.
///
/// # Errors
/// If the kernel refuses to wait.
pub fn wait(socket: &OwnedFd, flags: PollFlags, timeout: anabranch_base::time::Duration) -> io::Result<()> {
    let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), flags)];
    match poll(&mut fds, Some(&crate::clock::timespec(timeout))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
