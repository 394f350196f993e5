//! A host without input or output: addresses, one space of ports, listeners, and many connections.
//!
//! For authors of network stacks, simulators and test benches. Read [`Host`] first, then [`Protocol`] (TCP, Multipath TCP,
//! SCTP, UDP with their settings), then [`HostDriver`], which receives the output; [`Collected`] is the simplest driver.
//! `arrival.rs` finds the connection of a packet, `names.rs` has names and ports, `time_wait.rs` ended TCP connections, and
//! `cookie.rs` the SYN cookies of a flooded listener. The protocols know nothing of these.
//!
//! Two hosts in memory, with a delay of one millisecond between them:
//!
//! ```
//! use anabranch_base::time::{Duration, Time};
//! use anabranch_endpoint::{Address, Secrets, Write};
//! use anabranch_host::{Backlog, Collected, Host, Limits, Listening, Protocol, Transport};
//! use anabranch_tcp::tcp;
//! use anabranch_wire::Pattern;
//!
//! let host = |n: u8| {
//!     let addresses = vec![Address::new([10, 0, 0, n].into(), 1500)];
//!     Host::new(addresses, Limits::default(), Secrets::new([n; 32]))
//! };
//! let mut hosts = [host(1), host(2)];
//! let protocol = Protocol::Tcp(tcp::Config::default());
//! hosts[1].listen(Listening { protocol: protocol.clone(), port: 80, backlog: Backlog::default() })?;
//! let client = hosts[0].connect(Time::ZERO, &protocol, (&[[10, 0, 0, 2].into()], 80))?;
//!
//! let (mut now, mut written, mut received) = (Time::ZERO, 0, 0);
//! let mut server = None;
//! while received < 100_000 {
//!     let sent = hosts.each_mut().map(|host| Collected::from(host, now).packets);
//!     now += Duration::from_millis(1);
//!     for (host, packets) in hosts.iter_mut().zip(sent.into_iter().rev()) {
//!         for packet in packets {
//!             host.handle_packet(now, packet, &Pattern);
//!         }
//!         host.handle_timeout(now);
//!     }
//!     let endpoint = hosts[0].endpoint_mut(client).expect("the connection was opened");
//!     written += endpoint.write(now, Write::bytes(100_000 - written));
//!     server = server.or_else(|| hosts[1].accept(Transport::Tcp, 80));
//!     if let Some(endpoint) = server.and_then(|id| hosts[1].endpoint_mut(id)) {
//!         received += endpoint.read(now, u64::MAX).map_or(0, |delivery| delivery.len);
//!     }
//! }
//! assert_eq!(received, 100_000);
//! # Ok::<(), anabranch_host::HostError>(())
//! ```

mod arrival;
mod collected;
mod connections;
mod cookie;
mod history;
mod id;
mod limits;
mod listener;
mod names;
mod paths;
mod protocol;
#[cfg(test)]
mod tests;
mod time_wait;
mod turn;
pub mod udp;

/// The fixtures in `tests/hosts` are also a module of this crate, and use it under its public name.
#[cfg(test)]
extern crate self as anabranch_host;

pub use collected::Collected;
pub use id::ConnectionId;
pub use limits::{Backlog, Limits};
pub use listener::Listening;
pub use protocol::{Core, Protocol, Transport};
pub use turn::{ConnectionDriver, ConnectionRef, Output};

use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Endpoint, Event, NetworkEvent, Placement};
use anabranch_endpoint::{Address, Ends, Secrets};
use anabranch_sctp::ConfigError;
use anabranch_tcp::tcp::{State, Tcb};
use anabranch_wire::Packet;
use connections::{Connections, Slot, Stage};
use core::cmp::Reverse;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use history::History;
use listener::Listener;
use names::{AssociationNames, Names};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Receives the output of a host.
pub trait HostDriver {
    /// Stores a part of the last packet's payload at the given place.
    fn place(&mut self, connection: ConnectionId, placement: Placement);

    /// Placed fragments of a connection that will never be read: the first key and their number. A driver that keeps no
    /// fragments ignores them.
    fn forget(&mut self, connection: ConnectionId, run: (u64, u32)) {
        let _ = (connection, run);
    }

    /// Sends a packet. Its payload belongs to the connection's stream; packets of the host itself have no payload.
    fn transmit(&mut self, connection: Option<ConnectionId>, packet: Packet);

    /// Handles an event of a connection. [`Event::Connected`] of a connection that the peer opened means that its listener
    /// can [`accept`](Host::accept) it.
    fn event(&mut self, connection: ConnectionId, event: Event);
}

/// A host of many connections.
///
/// Drive it in this order: pass an input ([`handle_packet`](Self::handle_packet),
/// [`handle_timeout`](Self::handle_timeout), a change of its addresses, or an application's call by
/// [`endpoint_mut`](Self::endpoint_mut)), drain it with [`drive`](Self::drive), and sleep until
/// [`next_timeout`](Self::next_timeout) or the next input. Packets that have arrived together may be handled before `drive`,
/// if [`place`](Self::place) follows each. A connection that has ended stays readable until its
/// application calls [`forget`](Self::forget).
///
/// [`Limits`] and [`Backlog`] bound the memory of a host for any input.
#[derive(Debug)]
pub struct Host {
    secrets: Secrets,
    limits: Limits,
    addresses: Vec<Address>,
    connections: Connections,
    names: Names,
    listeners: BTreeMap<(Transport, u16), Listener>,
    answers: anabranch_base::RateLimit,
    /// Times at which connections have a timeout. An entry may be too early; the connection then has nothing to do.
    timers: BinaryHeap<Reverse<(Time, ConnectionId)>>,
    /// Connections that may have output.
    ready: VecDeque<ConnectionId>,
    out: VecDeque<Packet>,
    /// Number of associations created; each has separate secrets.
    associations: u64,
    /// Pairs of addresses on which connections were established.
    history: History,
}

/// The reason why a host refuses to create a connection or a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostError {
    /// The host has no address of the same family (IPv4 or IPv6) as the remote address.
    NoAddress,
    /// Every port towards this remote end is in use.
    NoPort,
    /// The port is in use.
    PortInUse(u16),
    /// The limit on connections is reached.
    TooMany,
    /// A setting is invalid.
    Config(ConfigError),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("the host has no address of the other end's family"),
            Self::NoPort => f.write_str("every port towards the remote end is in use"),
            Self::PortInUse(port) => write!(f, "port {port} is in use"),
            Self::TooMany => f.write_str("the limit on connections is reached"),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for HostError {}

impl Host {
    /// A host with these addresses. The secrets of its connections come from `secrets`.
    pub fn new(addresses: Vec<Address>, limits: Limits, secrets: Secrets) -> Self {
        Self {
            names: Names::new(limits.ephemeral_ports.clone(), limits.time_wait, secrets.clone()),
            answers: anabranch_base::RateLimit::per_second(limits.answers_per_second),
            secrets,
            limits,
            addresses,
            connections: Connections::default(),
            listeners: BTreeMap::new(),
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
            out: VecDeque::new(),
            associations: 0,
            history: History::default(),
        }
    }

    /// The addresses.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Opens a connection to a port of another host with these known addresses, the first of which is used first. The
    /// connection starts from the host's first address of the same family and from a free port.
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn connect(
        &mut self,
        now: Time,
        protocol: &Protocol,
        (remote, port): (&[IpAddr], u16),
    ) -> Result<ConnectionId, HostError> {
        let first = *remote.first().ok_or(HostError::NoAddress)?;
        let same = |address: &&Address| address.ip.is_ipv4() == first.is_ipv4();
        let (mut local, others): (Vec<_>, Vec<_>) = self.addresses.iter().partition(same);
        if local.is_empty() {
            return Err(HostError::NoAddress);
        }
        local.extend(others);
        let ends = Ends { local, local_port: 0, remote: remote.to_vec(), remote_port: port };
        self.connect_from(now, protocol, ends)
    }

    /// As [`connect`](Self::connect), from these addresses of the host, and from this port if it is not zero; it may have
    /// been [reserved](Self::reserve). Addresses that the host has lost start as down.
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn connect_from(
        &mut self,
        now: Time,
        protocol: &Protocol,
        mut ends: Ends,
    ) -> Result<ConnectionId, HostError> {
        if self.connections.len() >= self.limits.connections {
            return Err(HostError::TooMany);
        }
        let transport = protocol.transport();
        let worked = self.history.order(protocol, &mut ends);
        self.prefer_present_address(protocol, &mut ends);
        let (first, remote) = (ends.first_local().0.ip(), ends.first_remote());
        let asked = ends.local_port;
        self.names.reserved.remove(&(transport, asked));
        // If the token of the first key is taken, another port gives another key (RFC 8684 §3.1).
        loop {
            let locals: Vec<_> = match protocol {
                Protocol::Sctp(_) => ends.local.iter().map(|address| address.ip).collect(),
                _ => vec![first],
            };
            ends.local_port = match asked {
                0 => self.names.ephemeral(transport, &locals, remote).ok_or(HostError::NoPort)?,
                port if self.names.is_free(transport, port, &locals, remote) => port,
                port => return Err(HostError::PortInUse(port)),
            };
            let secrets = self.secrets_of(transport);
            let mut core = protocol.connecting(&ends, secrets).map_err(HostError::Config)?;
            if let Core::Mptcp(core) = &mut core {
                core.prefer(&worked);
            }
            let id = self.connections.insert(Slot::new(core, Stage::Owned));
            let tuple = (SocketAddr::new(first, ends.local_port), remote);
            if let Some(slot) = self.connections.get_mut(id) {
                slot.core.endpoint_mut().connect(now);
            }
            if self.take_names(id, tuple) {
                self.report_lost_addresses(now, id, &ends.local);
                self.wake(id);
                return Ok(id);
            }
            self.connections.remove(id);
            if asked != 0 {
                return Err(HostError::PortInUse(asked));
            }
        }
    }

    /// Listens on a port of all addresses.
    ///
    /// # Errors
    /// If the port has a listener, or a setting is invalid.
    pub fn listen(&mut self, listening: Listening) -> Result<(), HostError> {
        self.start_listening(listening, None)
    }

    /// As [`listen`](Self::listen), on these addresses alone. Their MTU and backup flags may differ from those of the host.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub fn listen_on(&mut self, listening: Listening, local: Vec<Address>) -> Result<(), HostError> {
        self.start_listening(listening, Some(local))
    }

    fn start_listening(
        &mut self,
        listening: Listening,
        local: Option<Vec<Address>>,
    ) -> Result<(), HostError> {
        let key = (listening.protocol.transport(), listening.port);
        if self.listeners.contains_key(&key) {
            return Err(HostError::PortInUse(listening.port));
        }
        let addresses = local.as_ref().unwrap_or(&self.addresses);
        let ends = Ends::listening(addresses.clone(), listening.port);
        let secrets = (self.secrets_of(key.0), &self.secrets);
        let listener = Listener::new((listening, local), &ends, secrets).map_err(HostError::Config)?;
        self.listeners.insert(key, listener);
        self.names.listening.insert(key);
        Ok(())
    }

    /// Closes a listener and aborts its connections that were not accepted.
    pub fn stop_listening(&mut self, now: Time, transport: Transport, port: u16) {
        self.names.listening.remove(&(transport, port));
        let Some(listener) = self.listeners.remove(&(transport, port)) else { return };
        let waiting: Vec<_> = self.connections.waiting_at((transport, port)).collect();
        for id in waiting.into_iter().chain(listener.queue) {
            if let Some(slot) = self.connections.get_mut(id) {
                slot.registered.stage = Stage::Orphan;
                slot.core.endpoint_mut().abort(now);
                self.wake(id);
            }
        }
    }

    /// The next established connection of a listener, if there is one. It may have ended already.
    pub fn accept(&mut self, transport: Transport, port: u16) -> Option<ConnectionId> {
        let id = self.listeners.get_mut(&(transport, port))?.queue.pop_front()?;
        self.connections.get_mut(id)?.registered.stage = Stage::Owned;
        Some(id)
    }

    /// A connection for reading its state.
    pub fn endpoint(&self, id: ConnectionId) -> Option<&dyn Endpoint> {
        self.connections.get(id).map(|slot| slot.core.endpoint())
    }

    /// A connection, for its application to write, read, close or abort. It is driven next.
    pub fn endpoint_mut(&mut self, id: ConnectionId) -> Option<&mut (dyn Endpoint + 'static)> {
        self.wake(id);
        self.connections.get_mut(id).map(|slot| slot.core.endpoint_mut())
    }

    /// Releases a connection and its data; aborts the connection if it has not ended.
    pub fn forget(&mut self, now: Time, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        let closed = slot.registered.closed;
        if !closed {
            slot.core.endpoint_mut().abort(now);
        }
        self.leave_listener(id);
        if closed {
            self.connections.remove(id);
        } else {
            self.wake(id);
        }
    }

    /// Reserves a port for a later connection.
    pub fn reserve(&mut self, transport: Transport, port: u16) {
        self.names.reserved.insert((transport, port));
    }

    /// Makes a connection an orphan and releases its slot in the listener's backlog.
    fn leave_listener(&mut self, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        match core::mem::replace(&mut slot.registered.stage, Stage::Orphan) {
            Stage::Handshake(at) => {
                if let Some(listener) = self.listeners.get_mut(&at) {
                    listener.incomplete -= 1;
                }
            }
            Stage::Complete(at) => {
                if let Some(listener) = self.listeners.get_mut(&at) {
                    listener.queue.retain(|waiting| *waiting != id);
                }
            }
            Stage::Owned | Stage::Orphan => {}
        }
    }

    /// If the host has lost the first local address, moves an address to the front that the host has and that reaches
    /// the remote end. Only Multipath TCP may begin on any address; other protocols begin on the requested one.
    fn prefer_present_address(&self, protocol: &Protocol, ends: &mut Ends) {
        let Protocol::Mptcp(config) = protocol else { return };
        let to = ends.first_remote().ip();
        let is_here = |ip: IpAddr| self.addresses.iter().any(|known| known.ip == ip);
        let reaches = |ip: IpAddr| ip.is_ipv4() == to.is_ipv4() && !config.unroutable.contains(&(ip, to));
        if !is_here(ends.local[0].ip)
            && let Some(at) = ends.local.iter().position(|own| is_here(own.ip) && reaches(own.ip))
        {
            ends.local[..=at].rotate_right(1);
        }
    }

    /// Reports to a connection those of its local addresses that the host has lost.
    fn report_lost_addresses(&mut self, now: Time, id: ConnectionId, local: &[Address]) {
        let lost = |address: &&Address| self.addresses.iter().all(|known| known.ip != address.ip);
        let lost: Vec<_> = local.iter().filter(lost).map(|address| address.ip).collect();
        let Some(slot) = self.connections.get_mut(id) else { return };
        for address in lost {
            slot.core.endpoint_mut().handle_network(now, NetworkEvent::AddressDown { address });
        }
    }

    /// Adds an address or changes its MTU, and reports the change to all connections.
    pub fn add_address(&mut self, now: Time, address: Address) {
        match self.addresses.iter_mut().find(|known| known.ip == address.ip) {
            Some(known) => *known = address,
            None => self.addresses.push(address),
        }
        self.report_to_all(now, NetworkEvent::AddressUp { address: address.ip, mtu: address.mtu });
    }

    /// Removes an address and reports the loss to all connections.
    pub fn remove_address(&mut self, now: Time, ip: IpAddr) {
        self.addresses.retain(|known| known.ip != ip);
        self.history.forget(ip);
        self.report_to_all(now, NetworkEvent::AddressDown { address: ip });
    }

    fn report_to_all(&mut self, now: Time, event: NetworkEvent) {
        for listener in self.listeners.values_mut() {
            listener.set_addresses(&self.addresses);
        }
        let all: Vec<_> = self.connections.ids().collect();
        for id in all {
            if let Some(slot) = self.connections.get_mut(id)
                && !slot.registered.closed
            {
                slot.core.endpoint_mut().handle_network(now, event);
                self.wake(id);
            }
        }
    }

    /// Latest time for the next [`handle_timeout`](Self::handle_timeout); `None` if no timer runs.
    pub fn next_timeout(&self) -> Option<Time> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        [timer, self.names.time_wait.next()].into_iter().flatten().min()
    }

    /// Handles the timers that have expired by `now`; early calls do no harm.
    pub fn handle_timeout(&mut self, now: Time) {
        self.names.time_wait.expire(now);
        while let Some(&Reverse((at, id))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let Some(slot) = self.connections.get_mut(id).filter(|slot| !slot.registered.closed) else {
                continue;
            };
            slot.registered.timer = Time::MAX;
            let endpoint = slot.core.endpoint_mut();
            if endpoint.next_timeout().is_some_and(|due| due <= now) {
                endpoint.handle_timeout(now);
                self.wake(id);
            } else {
                self.schedule(id);
            }
        }
    }

    /// Drains the output of the host and its connections.
    pub fn drive<D: HostDriver>(&mut self, now: Time, driver: &mut D) {
        while let Some(id) = self.ready.pop_front() {
            self.drain(now, id, driver);
        }
        while let Some(packet) = self.out.pop_front() {
            driver.transmit(None, packet);
        }
    }

    /// Number of connections, and number of names, those of connections in TIME-WAIT included.
    pub fn entries(&self) -> (usize, usize) {
        (self.connections.len(), self.names.len())
    }

    fn wake(&mut self, id: ConnectionId) {
        if let Some(slot) = self.connections.get_mut(id)
            && !slot.registered.ready
        {
            slot.registered.ready = true;
            self.ready.push_back(id);
        }
    }

    fn schedule(&mut self, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        if let Some(due) = slot.core.endpoint().next_timeout()
            && due < slot.registered.timer
        {
            slot.registered.timer = due;
            self.timers.push(Reverse((due, id)));
        }
    }

    /// The source of a connection's secrets. TCP derives its initial sequence numbers from the host's key and the two
    /// ends, so its connections share one source; each association has a separate one.
    fn secrets_of(&mut self, transport: Transport) -> Secrets {
        if transport == Transport::Sctp {
            self.associations += 1;
            return Secrets::new(self.secrets.keyed(&[b"association", &self.associations.to_be_bytes()]));
        }
        self.secrets.clone()
    }

    /// Registers the names of a new connection; false if another connection has its token.
    fn take_names(&mut self, id: ConnectionId, tuple: (SocketAddr, SocketAddr)) -> bool {
        let Some(slot) = self.connections.get_mut(id) else { return false };
        let transport = slot.core.transport();
        slot.registered.last_port = tuple.0.port();
        match &slot.core {
            Core::Mptcp(core) => {
                let token = core.token();
                if !self.names.add_token(token, id) {
                    return false;
                }
                slot.registered.token = Some(token);
            }
            Core::Sctp(_) => {
                self.rename(id);
                return true;
            }
            Core::Tcp(_) | Core::Udp(_) => {}
        }
        slot.registered.tuples.push(tuple);
        self.names.add_tuple(transport, tuple, id);
        true
    }

    /// Updates the names of a connection: the tag and the peer of an association, the subflows of Multipath TCP.
    fn rename(&mut self, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        match &slot.core {
            Core::Sctp(core) => {
                let mut peers: Vec<_> = core.peer_addresses().collect();
                peers.sort_unstable();
                peers.dedup();
                let names = AssociationNames { ports: core.ports(), tag: core.tag(), peers };
                if names != slot.registered.association {
                    self.names.rename(id, &slot.registered.association, &names);
                    slot.registered.association = names;
                }
            }
            Core::Mptcp(core) => {
                let over = |block: &Tcb| matches!(block.state(), State::Closed(_));
                let mut tuples: Vec<_> = (core.blocks().filter(|block| !over(block)))
                    .map(|block| (block.local(), block.remote()))
                    .collect();
                tuples.sort_unstable();
                tuples.dedup();
                for old in &slot.registered.tuples {
                    if !tuples.contains(old) {
                        self.names.remove_tuple(Transport::Tcp, *old, id);
                    }
                }
                for new in &tuples {
                    if !slot.registered.tuples.contains(new) {
                        self.names.add_tuple(Transport::Tcp, *new, id);
                    }
                }
                slot.registered.tuples = tuples;
            }
            Core::Tcp(_) | Core::Udp(_) => {}
        }
    }

    /// Handles the establishment of a connection: the application can then accept a listener's connection.
    fn connected(&mut self, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        if let Core::Mptcp(core) = &slot.core
            && let Some(pair) = core.opened_on()
        {
            self.history.note(pair, self.limits.pairs);
        }
        if let Stage::Handshake(at) = slot.registered.stage {
            slot.registered.stage = Stage::Complete(at);
            if let Some(listener) = self.listeners.get_mut(&at) {
                listener.incomplete -= 1;
                listener.queue.push_back(id);
            }
        }
    }

    /// Handles the end of a connection: releases its names and keeps an entry in TIME-WAIT if the protocol requires
    /// it.
    fn closed(&mut self, now: Time, id: ConnectionId) {
        let Some(slot) = self.connections.get_mut(id) else { return };
        if slot.registered.closed {
            return;
        }
        slot.registered.closed = true;
        let transport = slot.core.transport();
        for tuple in slot.registered.tuples.drain(..) {
            self.names.remove_tuple(transport, tuple, id);
        }
        if let Some(token) = slot.registered.token {
            self.names.remove_token(token, id);
        }
        self.names.rename(id, &slot.registered.association, &AssociationNames::default());
        slot.registered.association = AssociationNames::default();
        let remains: Vec<_> = match &slot.core {
            Core::Tcp(core) => core.block().remains().into_iter().collect(),
            Core::Mptcp(core) => core.blocks().filter_map(Tcb::remains).collect(),
            Core::Sctp(_) | Core::Udp(_) => Vec::new(),
        };
        for (tuple, remains) in remains {
            if self.names.of_tuple(Transport::Tcp, tuple).is_none() {
                self.names.time_wait.insert(now, tuple, remains);
            }
        }
        match slot.registered.stage {
            Stage::Handshake(at) => {
                if let Some(listener) = self.listeners.get_mut(&at) {
                    listener.incomplete -= 1;
                }
                self.connections.remove(id);
            }
            Stage::Orphan => self.connections.remove(id),
            Stage::Complete(_) | Stage::Owned => {}
        }
    }
}
