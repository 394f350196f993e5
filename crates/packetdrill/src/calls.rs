//! System calls. Each returns at once; `EAGAIN` and `EINPROGRESS` mean that a blocking call would wait.

use crate::Errno;
use crate::machine::Machine;
use crate::socket::{Socket, State, descriptor};
use anabranch_endpoint::{Address, Ends, Socket as EndpointSocket, Write};
use anabranch_host::{Backlog, ConnectionId, Core, HostError, Listening, Protocol, Transport};
use anabranch_settings::mptcp;
use core::net::SocketAddr;

impl Machine {
    /// Opens a socket of TCP, or of Multipath TCP with `IPPROTO_MPTCP`.
    ///
    /// # Errors
    /// `EPROTONOSUPPORT` for another protocol or type.
    pub fn socket(&mut self, kind: i32, protocol: i32) -> Result<i32, Errno> {
        let multipath = protocol == libc::IPPROTO_MPTCP;
        let known = multipath || protocol == libc::IPPROTO_TCP || protocol == 0;
        if !known || kind & 0xf != libc::SOCK_STREAM {
            return Err(libc::EPROTONOSUPPORT);
        }
        let mut socket = Socket::new(State::Fresh, self.settings.of_socket(), multipath);
        socket.nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        self.open(socket)
    }

    fn open(&mut self, socket: Socket) -> Result<i32, Errno> {
        let fd = descriptor().ok_or(libc::EMFILE)?;
        self.sockets.insert(fd, socket);
        Ok(fd)
    }

    pub(crate) fn of(&mut self, fd: i32) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(&fd).ok_or(libc::EBADF)
    }

    pub(crate) fn connection(&mut self, fd: i32) -> Result<ConnectionId, Errno> {
        match self.of(fd)?.state {
            State::Connected(id) => Ok(id),
            State::Fresh | State::Listening => Err(libc::ENOTCONN),
        }
    }

    /// Makes calls of a socket return `EAGAIN` instead of blocking.
    ///
    /// # Errors
    /// `EBADF` without such a socket.
    pub fn set_nonblocking(&mut self, fd: i32, nonblocking: bool) -> Result<(), Errno> {
        self.of(fd)?.nonblocking = nonblocking;
        Ok(())
    }

    /// True if calls of a socket wait.
    pub fn blocks(&mut self, fd: i32) -> bool {
        self.of(fd).is_ok_and(|socket| !socket.nonblocking)
    }

    /// True if there is such a socket.
    pub fn has_socket(&self, fd: i32) -> bool {
        self.sockets.contains_key(&fd)
    }

    /// Chooses the port of a socket.
    ///
    /// # Errors
    /// `EINVAL` if the socket has a connection or listens.
    pub fn bind(&mut self, fd: i32, local: SocketAddr) -> Result<(), Errno> {
        let socket = self.of(fd)?;
        if socket.state != State::Fresh {
            return Err(libc::EINVAL);
        }
        socket.port = local.port();
        Ok(())
    }

    /// Listens on the port of a socket.
    ///
    /// # Errors
    /// `EADDRINUSE` if the port has a listener.
    pub fn listen(&mut self, fd: i32, backlog: i32) -> Result<(), Errno> {
        let socket = self.of(fd)?;
        if socket.state != State::Fresh {
            return Err(libc::EINVAL);
        }
        socket.backlog = backlog.max(0) as usize + 1;
        self.start_listening(fd)?;
        self.of(fd)?.state = State::Listening;
        Ok(())
    }

    fn start_listening(&mut self, fd: i32) -> Result<(), Errno> {
        let addresses = self.addresses_of(fd)?;
        let ecn = self.settings.uses_ecn(false);
        let socket = self.of(fd)?;
        socket.config.ecn = ecn;
        let backlog = Backlog { complete: socket.backlog, ..Backlog::default() };
        let listening = Listening { protocol: protocol_of(socket), port: socket.port, backlog };
        self.host.listen_on(listening, addresses).map_err(|error| errno_of(&error))
    }

    /// Applies changed settings to a listener. Its connections that are not accepted are aborted.
    pub(crate) fn listen_again(&mut self, fd: i32) -> Result<(), Errno> {
        let port = self.of(fd)?.port;
        self.host.stop_listening(self.now, Transport::Tcp, port);
        self.start_listening(fd)
    }

    /// The machine's addresses, with an MTU that gives the maximum segment size of the socket.
    fn addresses_of(&mut self, fd: i32) -> Result<Vec<Address>, Errno> {
        let max = self.of(fd)?.max_segment;
        let limit = |mut address: Address| {
            let header = if address.ip.is_ipv4() { 40 } else { 60 };
            address.mtu = max.map_or(address.mtu, |max| address.mtu.min(max + header));
            address
        };
        Ok(self.host.addresses().iter().copied().map(limit).collect())
    }

    /// Accepts a connection: its socket and its remote end.
    ///
    /// # Errors
    /// `EAGAIN` without a waiting connection.
    pub fn accept(&mut self, fd: i32) -> Result<(i32, SocketAddr), Errno> {
        let socket = self.of(fd)?;
        if socket.state != State::Listening {
            return Err(libc::EINVAL);
        }
        let (port, config, multipath) = (socket.port, socket.config.clone(), socket.multipath);
        let max_segment = socket.max_segment;
        let id = self.host.accept(Transport::Tcp, port).ok_or(libc::EAGAIN)?;
        let remote = self.remote_of(id).ok_or(libc::EAGAIN)?;
        self.connections.entry(id).or_default().connected = true;
        let mut accepted = Socket::new(State::Connected(id), config, multipath);
        accepted.max_segment = max_segment;
        Ok((self.open(accepted)?, remote))
    }

    fn remote_of(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.host.endpoint(id)?.report().paths.first().map(|path| path.remote)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// `EINPROGRESS` if the handshake has begun; the next calls return its result, or `EALREADY`.
    pub fn connect(&mut self, fd: i32, remote: SocketAddr) -> Result<(), Errno> {
        match self.of(fd)?.state {
            State::Fresh => {}
            State::Listening => return Err(libc::EISCONN),
            State::Connected(id) => return self.connect_result(id).and(Err(libc::EISCONN)),
        }
        let mut local = self.addresses_of(fd)?;
        local.sort_by_key(|address| address.ip.is_ipv4() != remote.is_ipv4());
        let ecn = self.settings.uses_ecn(true);
        let socket = self.of(fd)?;
        socket.config.ecn = ecn;
        let (protocol, local_port) = (protocol_of(socket), socket.port);
        let ends = Ends { local, local_port, remote: vec![remote.ip()], remote_port: remote.port() };
        let id = self.host.connect_from(self.now, &protocol, ends).map_err(|error| errno_of(&error))?;
        self.connections.entry(id).or_default();
        self.of(fd)?.state = State::Connected(id);
        self.settle();
        Err(libc::EINPROGRESS)
    }

    /// The result of the handshake of a socket.
    ///
    /// # Errors
    /// `EAGAIN` while the connection is being opened; otherwise the reason of its failure.
    pub fn connected(&mut self, fd: i32) -> Result<(), Errno> {
        let id = self.connection(fd)?;
        self.connect_result(id).map_err(|error| if error == libc::EALREADY { libc::EAGAIN } else { error })
    }

    /// The result of a handshake.
    pub(crate) fn connect_result(&mut self, id: ConnectionId) -> Result<(), Errno> {
        let connection = self.connections.entry(id).or_default();
        match connection.error.take() {
            Some(error) => Err(error),
            None if connection.connected => Ok(()),
            None if connection.closed.is_some() => Err(libc::ECONNABORTED),
            None => Err(libc::EALREADY),
        }
    }

    /// Reads up to `max` bytes. An empty result is the end of the stream.
    ///
    /// # Errors
    /// `EAGAIN` without data.
    pub fn read(&mut self, fd: i32, max: usize, peek: bool) -> Result<Vec<u8>, Errno> {
        let id = self.connection(fd)?;
        let shut = self.of(fd)?.read_shut;
        let read = self.with(id, |connection, endpoint, now| {
            let mut out = Vec::new();
            if peek {
                let len = endpoint.readable().min(max as u64);
                return (vec![0; len as usize], len > 0);
            }
            let bytes = &mut connection.bytes;
            let mut any = false;
            while out.len() < max {
                let left = (max - out.len()) as u64;
                let Some(_) = EndpointSocket { endpoint, bytes, now }.read(left, &mut out) else { break };
                any = true;
            }
            (out, any)
        });
        self.settle();
        let connection = self.connections.entry(id).or_default();
        match read {
            Some((out, true)) => Ok(out),
            _ if max == 0 => Ok(Vec::new()),
            _ if connection.error.is_some() => Err(connection.error.take().unwrap_or_default()),
            _ if shut || connection.finished || connection.closed.is_some() => Ok(Vec::new()),
            _ => Err(libc::EAGAIN),
        }
    }

    /// Writes bytes; returns how many were accepted.
    ///
    /// # Errors
    /// `EAGAIN` while the send buffer is full or the handshake goes on, `EPIPE` after the end.
    pub fn write(&mut self, fd: i32, bytes: &[u8]) -> Result<usize, Errno> {
        let id = self.connection(fd)?;
        let shut = self.of(fd)?.write_shut;
        let connection = self.connections.entry(id).or_default();
        if let Some(error) = connection.error.take() {
            return Err(error);
        }
        if shut || connection.closed.is_some() {
            return Err(libc::EPIPE);
        }
        let written = self.with(id, |connection, endpoint, now| {
            let buffers = &mut connection.bytes;
            let accepted = EndpointSocket { endpoint, bytes: buffers, now }.write(bytes, Write::bytes(0));
            if accepted > 0 {
                connection.writes.push_back(connection.bytes.sent.written());
            }
            accepted
        });
        self.settle();
        match written {
            None => Err(libc::EPIPE),
            Some(0) if !bytes.is_empty() => Err(libc::EAGAIN),
            Some(accepted) => Ok(accepted),
        }
    }

    /// Ends reading, writing or both.
    ///
    /// # Errors
    /// `ENOTCONN` without a connection, `EINVAL` for an unknown side.
    pub fn shutdown(&mut self, fd: i32, how: i32) -> Result<(), Errno> {
        if !(libc::SHUT_RD..=libc::SHUT_RDWR).contains(&how) {
            return Err(libc::EINVAL);
        }
        let id = self.connection(fd)?;
        if self.connections.entry(id).or_default().closed.is_some() {
            return Err(libc::ENOTCONN);
        }
        let socket = self.of(fd)?;
        socket.read_shut |= how != libc::SHUT_WR;
        if how != libc::SHUT_RD {
            socket.write_shut = true;
            self.with(id, |_, endpoint, now| endpoint.close(now));
            self.settle();
        }
        Ok(())
    }

    /// Closes a socket. As Linux does, it aborts a connection with unread data.
    ///
    /// # Errors
    /// `EBADF` without such a socket.
    pub fn close(&mut self, fd: i32) -> Result<(), Errno> {
        let socket = self.sockets.remove(&fd).ok_or(libc::EBADF)?;
        match socket.state {
            State::Fresh => {}
            State::Listening => self.host.stop_listening(self.now, Transport::Tcp, socket.port),
            State::Connected(id) => self.close_connection(id, socket.lingers),
        }
        self.settle();
        Ok(())
    }

    fn close_connection(&mut self, id: ConnectionId, lingers: bool) {
        let closed = self.with(id, |connection, endpoint, now| {
            connection.orphan = true;
            if lingers || endpoint.readable() > 0 || !connection.connected {
                endpoint.abort(now);
            } else {
                endpoint.close(now);
            }
            connection.closed.is_some()
        });
        if let Some(Core::Tcp(core)) = self.host.core_mut(id) {
            core.refuse_data();
        }
        if closed == Some(true) {
            self.forget(id);
        }
    }

    /// The events of `poll` that a socket has.
    pub fn events(&mut self, fd: i32) -> i16 {
        let Ok(socket) = self.of(fd) else { return libc::POLLNVAL };
        let (state, shut) = (socket.state, (socket.read_shut, socket.write_shut));
        match state {
            State::Fresh => libc::POLLOUT | libc::POLLHUP,
            State::Listening if self.has_waiting() => libc::POLLIN | libc::POLLRDNORM,
            State::Listening => 0,
            State::Connected(id) => self.events_of(id, shut),
        }
    }

    /// True if a connection is established and not accepted.
    fn has_waiting(&self) -> bool {
        let accepted = |id| self.sockets.values().any(|socket| socket.state == State::Connected(id));
        self.connections
            .iter()
            .any(|(id, connection)| connection.connected && !connection.orphan && !accepted(*id))
    }

    fn events_of(&mut self, id: ConnectionId, (read_shut, write_shut): (bool, bool)) -> i16 {
        let (readable, space) =
            (self.host.endpoint(id)).map_or((0, 0), |endpoint| (endpoint.readable(), endpoint.send_space()));
        let connection = self.connections.entry(id).or_default();
        let ended = connection.closed.is_some();
        let no_more = connection.finished || ended || read_shut;
        let mut events = 0;
        if readable > 0 || no_more {
            events |= libc::POLLIN | libc::POLLRDNORM;
        }
        if no_more {
            events |= libc::POLLRDHUP;
        }
        if space > 0 || write_shut || ended {
            events |= libc::POLLOUT | libc::POLLWRNORM;
        }
        if ended || (no_more && write_shut) {
            events |= libc::POLLHUP;
        }
        if connection.error.is_some() {
            events |= libc::POLLERR;
        }
        events
    }
}

/// The protocol of a socket.
fn protocol_of(socket: &Socket) -> Protocol {
    let config = socket.config.clone();
    if socket.multipath {
        let lia = mptcp::Config::default().tcp.congestion;
        Protocol::Mptcp(mptcp::Config::default().tcp(config.congestion(lia)))
    } else {
        Protocol::Tcp(config)
    }
}

fn errno_of(error: &HostError) -> Errno {
    match error {
        HostError::NoAddress => libc::ENETUNREACH,
        HostError::NoPort => libc::EADDRNOTAVAIL,
        HostError::PortInUse(_) => libc::EADDRINUSE,
        _ => libc::ENOBUFS,
    }
}
