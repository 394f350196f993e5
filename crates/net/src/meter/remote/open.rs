//! Opens the sockets of a test's flows and connects their ends.

use super::control::REPLY_TIMEOUT;
use super::frame::GREETING_BYTES;
use super::options::FlowOptions;
use crate::clock::{Clock, timespec};
use crate::meter::flow::Transport;
use crate::meter::socket::open_socket;
use core::net::SocketAddr;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, sockopt};
use socket2::SockRef;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 8;
const CONTROL_BACKLOG: i32 = 128;

/// Interval at which a greeting is sent again by datagram, since it may be lost.
const GREETING_INTERVAL: Duration = Duration::from_millis(100);

/// Time limit for the greeting of a connection.
const GREETING_TIMEOUT: Duration = Duration::from_millis(500);

/// A socket that waits for the other end.
#[derive(Debug)]
pub struct Opened {
    /// The socket.
    pub socket: OwnedFd,
    /// Local address of the socket.
    pub local: SocketAddr,
}

/// A socket of a transport with the options of a flow.
fn socket(options: &FlowOptions, transport: Transport, address: &SocketAddr) -> Result<OwnedFd, String> {
    check_kernel(options, transport)?;
    let socket = open_socket(transport, address.is_ipv4())
        .map_err(|error| unsupported_transport(transport, &error))?;
    configure(&socket, options, transport, address.is_ipv4())?;
    Ok(socket)
}

/// Checks the options that only the administrator of a machine can set.
///
/// # Errors
///
/// If a setting of this kernel differs; the text is a sentence.
pub fn check_kernel(options: &FlowOptions, transport: Transport) -> Result<(), String> {
    let settings = [
        ("scheduler", &options.scheduler, "/proc/sys/net/mptcp/scheduler"),
        ("path manager", &options.path_manager, "/proc/sys/net/mptcp/path_manager"),
    ];
    for (setting, wanted, file) in settings {
        let Some(wanted) = wanted else { continue };
        if transport != Transport::Mptcp {
            return Err(format!("a {setting} is an option of mptcp; omit it with {}", transport.name()));
        }
        let found =
            std::fs::read_to_string(file).map_err(|_| format!("this kernel has no setting {file}"))?;
        if found.trim() != wanted {
            return Err(format!(
                "the kernel's {setting} of Multipath TCP is {} and not {wanted}; change it in {file}",
                found.trim()
            ));
        }
    }
    Ok(())
}

/// Sets the options of a connection.
fn configure(
    socket: &OwnedFd,
    options: &FlowOptions,
    transport: Transport,
    is_ipv4: bool,
) -> Result<(), String> {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(socket, size(bytes))
            .map_err(|error| format!("cannot set a send buffer of {bytes} bytes: {error}"))?;
    }
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(socket, size(bytes))
            .map_err(|error| format!("cannot set a receive buffer of {bytes} bytes: {error}"))?;
    }
    if let Some(class) = options.type_of_service {
        let set = if is_ipv4 {
            sockopt::set_ip_tos(socket, class)
        } else {
            sockopt::set_ipv6_tclass(socket, class.into())
        };
        set.map_err(|error| format!("cannot set the type of service {class}: {error}"))?;
    }
    if !matches!(transport, Transport::Tcp | Transport::Mptcp) {
        return Ok(());
    }
    sockopt::set_tcp_nodelay(socket, !options.nagle)
        .map_err(|error| format!("cannot set Nagle's algorithm: {error}"))?;
    if let Some(mss) = options.mss {
        SockRef::from(socket)
            .set_tcp_mss(mss)
            .map_err(|error| format!("cannot set a maximum segment size of {mss} bytes: {error}"))?;
    }
    match &options.congestion {
        None => Ok(()),
        Some(control) => sockopt::set_tcp_congestion(socket, control).map_err(|error| {
            format!("cannot set the congestion control {control}: {error}; {}", available_controls())
        }),
    }
}

/// Checks the congestion control, since an unconnected Multipath TCP socket accepts any name silently.
fn check_congestion(socket: &OwnedFd, options: &FlowOptions, transport: Transport) -> Result<(), String> {
    let Some(wanted) =
        options.congestion.as_ref().filter(|_| matches!(transport, Transport::Tcp | Transport::Mptcp))
    else {
        return Ok(());
    };
    match sockopt::tcp_congestion(socket) {
        Ok(name) if name == *wanted => Ok(()),
        Ok(name) => Err(format!(
            "the kernel uses the congestion control {name} and not {wanted}; {}",
            available_controls()
        )),
        Err(error) => Err(format!("cannot read the congestion control: {error}")),
    }
}

fn available_controls() -> String {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    format!(
        "the congestion controls of this kernel are {}",
        std::fs::read_to_string(file).unwrap_or_default().trim()
    )
}

/// The reason why a socket of this transport cannot be opened, and the remedy.
fn unsupported_transport(transport: Transport, error: &io::Error) -> String {
    match transport {
        Transport::Mptcp => format!(
            "this kernel has no Multipath TCP ({error}); use Linux 5.6 or newer with net.mptcp.enabled = 1"
        ),
        Transport::Tcp | Transport::Udp | Transport::Sctp => format!("cannot open a socket: {error}"),
    }
}

/// A socket that waits at an address; port 0 means any. Datagram sockets may share another port.
///
/// # Errors
///
/// If the kernel does not have a feature, or refuses it; the text is a sentence.
pub fn listening(options: &FlowOptions, transport: Transport, address: SocketAddr) -> Result<Opened, String> {
    let socket = socket(options, transport, &address)?;
    let refused = |error: Errno| format!("cannot listen at {address}: {error}");
    if transport == Transport::Udp && address.port() != 0 {
        sockopt::set_socket_reuseport(&socket, true).map_err(refused)?;
    }
    rustix::net::bind(&socket, &address).map_err(refused)?;
    if transport != Transport::Udp {
        rustix::net::listen(&socket, BACKLOG).map_err(refused)?;
    }
    let local = local(&socket).unwrap_or(address);
    Ok(Opened { socket, local })
}

/// The local address of a socket.
pub fn local(socket: &OwnedFd) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()
}

/// Waits for a connection or data; returns whether there is one.
///
/// # Errors
/// If the kernel refuses.
pub fn is_readable(socket: &OwnedFd, timeout: Duration) -> io::Result<bool> {
    ready(socket, PollFlags::IN, timeout)
}

/// Waits until a socket is ready; returns whether it is.
fn ready(socket: &OwnedFd, flags: PollFlags, timeout: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), flags)];
    let timeout = anabranch_base::time::Duration::from_nanos(timeout.as_nanos() as u64);
    match poll(&mut fds, Some(&timespec(timeout))) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The accepted connection, if it has a separate socket, and the address of its other end.
pub type AcceptedFlow = Option<(Option<OwnedFd>, SocketAddr)>;

/// The next connection, if it begins with the greeting.
///
/// # Errors
///
/// If the kernel refuses, or the connection cannot be configured.
pub fn accept(
    listening: &Opened,
    greeting: &[u8; GREETING_BYTES],
    options: &FlowOptions,
) -> io::Result<AcceptedFlow> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, remote) = match rustix::net::acceptfrom_with(&listening.socket, flags) {
        Ok((socket, remote)) => (socket, remote),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut received_greeting = [0; GREETING_BYTES];
    if !ready(&socket, PollFlags::IN, GREETING_TIMEOUT)?
        || rustix::net::recv(&socket, received_greeting.as_mut_slice(), RecvFlags::empty())
            .map(|(_, len)| len)
            != Ok(GREETING_BYTES)
        || received_greeting != *greeting
    {
        return Ok(None);
    }
    // Not every kernel copies these options from the listening socket.
    adopt(&socket, options)?;
    let remote = remote.and_then(|remote| SocketAddr::try_from(remote).ok()).unwrap_or(listening.local);
    Ok(Some((Some(socket), remote)))
}

/// Sets the options of an accepted connection, and checks its congestion control.
///
/// # Errors
///
/// If the kernel refuses.
pub fn adopt(socket: &OwnedFd, options: &FlowOptions) -> io::Result<()> {
    rustix::io::ioctl_fionbio(socket, true)?;
    let is_ipv4 = local(socket).is_none_or(|local| local.ip().to_canonical().is_ipv4());
    configure(socket, options, Transport::Tcp, is_ipv4)
        .and_then(|()| check_congestion(socket, options, Transport::Tcp))
        .map_err(io::Error::other)
}

/// Waits for a datagram with the greeting, connects to its sender and returns it.
///
/// # Errors
/// If the kernel refuses.
pub fn answer(listening: &Opened, greeting: &[u8; GREETING_BYTES]) -> io::Result<AcceptedFlow> {
    let mut received_greeting = [0; GREETING_BYTES];
    let received =
        rustix::net::recvfrom(&listening.socket, received_greeting.as_mut_slice(), RecvFlags::empty());
    let (len, remote) = match received {
        Ok((_, len, remote)) => (len, remote),
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(remote) = remote.and_then(|remote| SocketAddr::try_from(remote).ok()) else { return Ok(None) };
    if len != GREETING_BYTES || received_greeting != *greeting {
        return Ok(None);
    }
    rustix::net::connect(&listening.socket, &remote)?;
    rustix::net::send(&listening.socket, greeting, SendFlags::NOSIGNAL)?;
    Ok(Some((None, remote)))
}

/// Binds a socket to the source address, if one is given. Its port may have been used shortly before.
fn bind(socket: &OwnedFd, local: Option<SocketAddr>) -> io::Result<()> {
    let Some(address) = local else { return Ok(()) };
    if address.port() != 0 {
        sockopt::set_socket_reuseaddr(socket, true)?;
    }
    Ok(rustix::net::bind(socket, &address)?)
}

/// The listening socket of a control port: of Multipath TCP, if the kernel has it, so that flows may arrive here.
/// Connections of TCP are accepted as such.
///
/// # Errors
///
/// If the address does not belong to this machine, or is in use.
pub fn control_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let open = |transport| open_socket(transport, address.is_ipv4());
    let socket = open(Transport::Mptcp).or_else(|_| open(Transport::Tcp))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, CONTROL_BACKLOG)?;
    Ok(socket.into())
}

/// A control connection to a server, from this address if one is given.
///
/// # Errors
///
/// If there is no answer, or no such local address.
pub fn control(remote: SocketAddr, local: Option<SocketAddr>) -> io::Result<TcpStream> {
    let Some(_) = local else { return TcpStream::connect_timeout(&remote, REPLY_TIMEOUT) };
    let socket = open_socket(Transport::Tcp, remote.is_ipv4())?;
    bind(&socket, local)?;
    match rustix::net::connect(&socket, &remote) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            if !ready(&socket, PollFlags::OUT, REPLY_TIMEOUT)? {
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

/// Connects to the other end, from this address if one is given, and sends the greeting.
///
/// # Errors
///
/// If the kernel does not have a feature, or refuses it, or if there is no answer; the text is a sentence.
pub fn connect(
    options: &FlowOptions,
    transport: Transport,
    (local, remote): (Option<SocketAddr>, SocketAddr),
    greeting: &[u8; GREETING_BYTES],
) -> Result<OwnedFd, String> {
    let socket = socket(options, transport, &remote)?;
    let broken = |error: &io::Error| format!("cannot connect to {remote}: {error}");
    if let Some(source) = local {
        bind(&socket, local).map_err(|error| format!("cannot use the source address {source}: {error}"))?;
    }
    match rustix::net::connect(&socket, &remote) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            if !ready(&socket, PollFlags::OUT, REPLY_TIMEOUT).map_err(|error| broken(&error))? {
                return Err(format!("cannot connect to {remote}: no answer"));
            }
            if let Ok(Err(error)) = sockopt::socket_error(&socket) {
                return Err(broken(&error.into()));
            }
        }
        Err(error) => return Err(broken(&error.into())),
    }
    check_congestion(&socket, options, transport)?;
    if transport == Transport::Udp {
        return greet_by_datagram(socket, greeting).map_err(|error| broken(&error));
    }
    match rustix::net::send(&socket, greeting, SendFlags::NOSIGNAL) {
        Ok(GREETING_BYTES) => Ok(socket),
        Ok(_) => Err(format!("cannot connect to {remote}: it accepts no data")),
        Err(error) => Err(broken(&error.into())),
    }
}

/// Sends the greeting until it is returned.
fn greet_by_datagram(socket: OwnedFd, greeting: &[u8; GREETING_BYTES]) -> io::Result<OwnedFd> {
    let clock = Clock::new();
    while clock.now().as_nanos() < REPLY_TIMEOUT.as_nanos() as u64 {
        match rustix::net::send(&socket, greeting, SendFlags::NOSIGNAL) {
            // The datagram is lost while the other end has no socket yet.
            Ok(_) | Err(Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut received_greeting = [0; GREETING_BYTES];
        if ready(&socket, PollFlags::IN, GREETING_INTERVAL)?
            && rustix::net::recv(&socket, received_greeting.as_mut_slice(), RecvFlags::empty()).is_ok()
            && received_greeting == *greeting
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
    fn missing_protocols_are_named_with_a_remedy() {
        let error = io::Error::from(Errno::PROTONOSUPPORT);
        assert!(unsupported_transport(Transport::Mptcp, &error).contains("with net.mptcp.enabled = 1"));
        assert!(unsupported_transport(Transport::Udp, &error).starts_with("cannot open a socket: "));
    }

    #[test]
    fn kernel_settings_are_compared_with_the_wanted() {
        let wants =
            |scheduler: &str| FlowOptions { scheduler: Some(scheduler.to_owned()), ..FlowOptions::default() };
        let tcp = check_kernel(&wants("default"), Transport::Tcp);
        assert!(tcp.expect_err("tcp has no scheduler").contains("an option of mptcp"));
        if let Ok(found) = std::fs::read_to_string("/proc/sys/net/mptcp/scheduler") {
            assert_eq!(check_kernel(&wants(found.trim()), Transport::Mptcp), Ok(()));
            let other = check_kernel(&wants("nosuch"), Transport::Mptcp).expect_err("no such scheduler");
            assert!(other.contains("and not nosuch; change it in"), "{other}");
        }
    }
}
