//! The sockets of a test's flows, and how their ends find each other.

use super::control::PATIENCE;
use super::frame::GREETING;
use super::plan::Plan;
use crate::clock::{Clock, timespec};
use crate::meter::flow::Transport;
use crate::meter::socket::open_socket;
use core::net::{IpAddr, SocketAddr};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, sockopt};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 8;

/// How often a greeting by datagram is repeated, which may get lost.
const AGAIN: Duration = Duration::from_millis(100);

/// How long a connection may take to say which it is.
const GREETED: Duration = Duration::from_millis(500);

/// A socket that waits for the other end.
#[derive(Debug)]
pub struct Opened {
    /// The socket.
    pub socket: OwnedFd,
    /// Where it waits.
    pub local: SocketAddr,
}

/// A socket of a transport with what the plan says of it.
fn socket(plan: &Plan, transport: Transport, address: &SocketAddr) -> Result<OwnedFd, String> {
    let socket = open_socket(transport, address.is_ipv4()).map_err(|error| missing(transport, &error))?;
    if let Some(bytes) = plan.buffer {
        let refused = |error: Errno| format!("socket buffers of {bytes} bytes are refused: {error}");
        sockopt::set_socket_send_buffer_size(&socket, bytes as usize).map_err(refused)?;
        sockopt::set_socket_recv_buffer_size(&socket, bytes as usize).map_err(refused)?;
    }
    set_up(&socket, plan, transport)?;
    Ok(socket)
}

/// What is set at every connection.
fn set_up(socket: &OwnedFd, plan: &Plan, transport: Transport) -> Result<(), String> {
    if !matches!(transport, Transport::Tcp | Transport::Mptcp) {
        return Ok(());
    }
    sockopt::set_tcp_nodelay(socket, !plan.nagle)
        .map_err(|error| format!("Nagle's algorithm cannot be set: {error}"))?;
    match &plan.congestion {
        None => Ok(()),
        Some(control) => sockopt::set_tcp_congestion(socket, control).map_err(|error| {
            format!("the congestion control {control} cannot be had: {error}; {}", controls())
        }),
    }
}

/// Before it connects, a socket of Multipath TCP takes any name without a word.
fn check(socket: &OwnedFd, plan: &Plan, transport: Transport) -> Result<(), String> {
    let Some(wanted) =
        plan.congestion.as_ref().filter(|_| matches!(transport, Transport::Tcp | Transport::Mptcp))
    else {
        return Ok(());
    };
    match sockopt::tcp_congestion(socket) {
        Ok(name) if name == *wanted => Ok(()),
        Ok(name) => {
            Err(format!("the kernel uses the congestion control {name} and not {wanted}; {}", controls()))
        }
        Err(error) => Err(format!("the congestion control cannot be read back: {error}")),
    }
}

fn controls() -> String {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    format!("this kernel has {}", std::fs::read_to_string(file).unwrap_or_default().trim())
}

/// Why there is no such socket, and what helps.
fn missing(transport: Transport, error: &io::Error) -> String {
    match transport {
        Transport::Sctp => {
            format!(
                "this kernel has no SCTP ({error}); where it was built with CONFIG_IP_SCTP, load it: modprobe sctp (often in \
                 a package of extra modules), or take another protocol"
            )
        }
        Transport::Mptcp => format!(
            "this kernel has no Multipath TCP ({error}); Linux 5.6 or newer has it where net.mptcp.enabled is 1"
        ),
        Transport::Tcp | Transport::Udp => format!("the kernel opens no socket: {error}"),
    }
}

/// A socket that waits at an address; port 0 is any.
///
/// # Errors
/// What the kernel does not have or refuses: a sentence.
pub fn listening(plan: &Plan, transport: Transport, address: SocketAddr) -> Result<Opened, String> {
    let socket = socket(plan, transport, &address)?;
    let refused = |error: Errno| format!("nothing can listen at {address}: {error}");
    rustix::net::bind(&socket, &address).map_err(refused)?;
    if transport != Transport::Udp {
        rustix::net::listen(&socket, BACKLOG).map_err(refused)?;
    }
    let local = local(&socket).unwrap_or(address);
    Ok(Opened { socket, local })
}

/// The address of a socket's own end.
pub fn local(socket: &OwnedFd) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()
}

/// Waits until a socket is ready; whether it is.
fn ready(socket: &OwnedFd, flags: PollFlags, patience: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), flags)];
    let patience = anabranch_base::time::Duration::from_nanos(patience.as_nanos() as u64);
    match poll(&mut fds, Some(&timespec(patience))) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A connection that was accepted, if it has one of its own, and its other end.
pub type Met = Option<(Option<OwnedFd>, SocketAddr)>;

/// The next connection, if it begins with the greeting.
///
/// # Errors
/// If the kernel refuses, or the connection cannot be set up.
pub fn accept(
    listening: &Opened,
    greeting: &[u8; GREETING],
    patience: Duration,
    plan: &Plan,
) -> io::Result<Met> {
    if !ready(&listening.socket, PollFlags::IN, patience)? {
        return Ok(None);
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, remote) = match rustix::net::acceptfrom_with(&listening.socket, flags) {
        Ok((socket, remote)) => (socket, remote),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut said = [0; GREETING];
    if !ready(&socket, PollFlags::IN, patience.min(GREETED))?
        || rustix::net::recv(&socket, said.as_mut_slice(), RecvFlags::empty()).map(|(_, len)| len)
            != Ok(GREETING)
        || said != *greeting
    {
        return Ok(None);
    }
    // Not every kernel hands these on from the socket that listens.
    let transport = if sockopt::tcp_congestion(&socket).is_ok() { Transport::Tcp } else { Transport::Sctp };
    set_up(&socket, plan, transport)
        .and_then(|()| check(&socket, plan, transport))
        .map_err(io::Error::other)?;
    let remote = remote.and_then(|remote| SocketAddr::try_from(remote).ok()).unwrap_or(listening.local);
    Ok(Some((Some(socket), remote)))
}

/// Waits for a datagram with the greeting, connects to its sender and sends it back.
///
/// # Errors
/// If the kernel refuses.
pub fn answer(listening: &Opened, greeting: &[u8; GREETING], patience: Duration) -> io::Result<Met> {
    if !ready(&listening.socket, PollFlags::IN, patience)? {
        return Ok(None);
    }
    let mut said = [0; GREETING];
    let received = rustix::net::recvfrom(&listening.socket, said.as_mut_slice(), RecvFlags::empty());
    let (len, remote) = match received {
        Ok((_, len, remote)) => (len, remote),
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(remote) = remote.and_then(|remote| SocketAddr::try_from(remote).ok()) else { return Ok(None) };
    if len != GREETING || said != *greeting {
        return Ok(None);
    }
    rustix::net::connect(&listening.socket, &remote)?;
    rustix::net::send(&listening.socket, greeting, SendFlags::NOSIGNAL)?;
    Ok(Some((None, remote)))
}

/// Has a socket leave from an address, if one was named, by whatever port.
fn bind(socket: &OwnedFd, local: Option<IpAddr>) -> io::Result<()> {
    match local {
        None => Ok(()),
        Some(address) => Ok(rustix::net::bind(socket, &SocketAddr::new(address, 0))?),
    }
}

/// A control connection to a server, from this address if one is named.
///
/// # Errors
/// If nobody answers, or there is no such address here.
pub fn control(remote: SocketAddr, local: Option<IpAddr>) -> io::Result<TcpStream> {
    let Some(_) = local else { return TcpStream::connect_timeout(&remote, PATIENCE) };
    let socket = open_socket(Transport::Tcp, remote.is_ipv4())?;
    bind(&socket, local)?;
    match rustix::net::connect(&socket, &remote) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            if !ready(&socket, PollFlags::OUT, PATIENCE)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Connects to the other end, from this address if one is named, and greets it.
///
/// # Errors
/// What the kernel does not have or refuses, or that nobody is there: a sentence.
pub fn connect(
    plan: &Plan,
    transport: Transport,
    (local, remote): (Option<IpAddr>, SocketAddr),
    greeting: &[u8; GREETING],
) -> Result<OwnedFd, String> {
    let socket = socket(plan, transport, &remote)?;
    let broken = |error: &io::Error| format!("no connection to {remote}: {error}");
    bind(&socket, local).map_err(|error| broken(&error))?;
    match rustix::net::connect(&socket, &remote) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            if !ready(&socket, PollFlags::OUT, PATIENCE).map_err(|error| broken(&error))? {
                return Err(format!("no connection to {remote}: nobody answers"));
            }
            if let Ok(Err(error)) = sockopt::socket_error(&socket) {
                return Err(broken(&error.into()));
            }
        }
        Err(error) => return Err(broken(&error.into())),
    }
    check(&socket, plan, transport)?;
    if transport == Transport::Udp {
        return greet_by_datagram(socket, greeting).map_err(|error| broken(&error));
    }
    match rustix::net::send(&socket, greeting, SendFlags::NOSIGNAL) {
        Ok(GREETING) => Ok(socket),
        Ok(_) => Err(format!("no connection to {remote}: it takes nothing")),
        Err(error) => Err(broken(&error.into())),
    }
}

/// Greets until the greeting comes back.
fn greet_by_datagram(socket: OwnedFd, greeting: &[u8; GREETING]) -> io::Result<OwnedFd> {
    let clock = Clock::new();
    while clock.now().as_nanos() < PATIENCE.as_nanos() as u64 {
        match rustix::net::send(&socket, greeting, SendFlags::NOSIGNAL) {
            // Nobody may listen yet.
            Ok(_) | Err(Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut said = [0; GREETING];
        if ready(&socket, PollFlags::IN, AGAIN)?
            && rustix::net::recv(&socket, said.as_mut_slice(), RecvFlags::empty()).is_ok()
            && said == *greeting
        {
            return Ok(socket);
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_that_the_kernel_lacks_is_named_with_what_helps() {
        let error = io::Error::from(Errno::PROTONOSUPPORT);
        let sctp = missing(Transport::Sctp, &error);
        assert!(sctp.starts_with("this kernel has no SCTP (Protocol not supported"), "{sctp}");
        assert!(sctp.contains("CONFIG_IP_SCTP, load it: modprobe sctp (often in a package"), "{sctp}");
        assert!(missing(Transport::Mptcp, &error).contains("where net.mptcp.enabled is 1"));
        assert!(missing(Transport::Udp, &error).starts_with("the kernel opens no socket: "));
    }

    #[test]
    fn what_is_tcp_s_alone_is_not_set_on_an_association() {
        // A UDP socket refuses what TCP's would take, and so stands for an association here: nothing may be asked of it.
        let socket = open_socket(Transport::Udp, true).expect("there is UDP");
        let control = Some("nosuch".to_owned());
        let plan = Plan {
            scenario: String::new(),
            congestion: control,
            buffer: None,
            nagle: false,
            interval_s: 1.0,
            keep_delays: false,
        };
        assert_eq!(set_up(&socket, &plan, Transport::Sctp), Ok(()));
        assert_eq!(check(&socket, &plan, Transport::Sctp), Ok(()));
        assert!(set_up(&socket, &plan, Transport::Tcp).is_err());
    }
}
