//! A host without input or output: it has addresses, one space of ports, listeners, and many connections.
//!
//! Which connection a packet belongs to is decided in `arrival.rs`, what nobody wants is answered there too; names and
//! ports are in `names.rs`, ended TCP connections in `time_wait.rs`, and a listener under flood falls back on the SYN
//! cookies of `cookie.rs`. The protocols know nothing of all this.

mod arrival;
mod connections;
mod cookie;
mod history;
mod id;
mod limits;
mod listener;
mod names;
mod protocol;
#[cfg(test)]
mod tests;
mod time_wait;
mod turn;

pub use id::ConnectionId;
pub use limits::{Backlog, Limits, RateLimit};
pub use listener::Listening;
pub use protocol::{Core, Protocol, Transport};
pub use time_wait::Remains;
pub use turn::{Alone, AnyDriver, Said};

use crate::endpoint::{Endpoint, Event, NetworkEvent, Placement};
use crate::sctp::ConfigError;
use crate::tcp::{State, Tcb};
use crate::{Address, Ends, Secrets};
use connections::{Connections, Slot, Stage};
use core::cmp::Reverse;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use history::History;
use listener::Listener;
use multipath::time::Time;
use names::{AssociationNames, Names};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use wire::Packet;

/// What becomes of all that comes out of a host.
pub trait HostDriver {
    /// A part of the packet that was handed in last is kept by a connection: its bytes belong there.
    fn place(&mut self, connection: ConnectionId, placement: Placement);

    /// Fragments that a connection has placed will never be read: the key of the first, and how many. A driver that keeps no
    /// fragments has nothing to forget.
    fn forget(&mut self, connection: ConnectionId, run: (u64, u32)) {
        let _ = (connection, run);
    }

    /// A packet is to be sent. The bytes of its payload are of the connection's stream; what the host says for itself has
    /// none.
    fn transmit(&mut self, connection: Option<ConnectionId>, packet: Packet);

    /// Something happened to a connection. [`Event::Connected`] of one that nobody here opened says that its listener has
    /// one to [`accept`](Host::accept).
    fn event(&mut self, connection: ConnectionId, event: Event);
}

/// A host of many connections.
///
/// Drive it so: tell it what happened ([`handle_packet`](Self::handle_packet), [`handle_timeout`](Self::handle_timeout), a
/// change of its addresses, or an application's call to a connection by [`endpoint_mut`](Self::endpoint_mut)), each time
/// empty it with [`drive`](Self::drive), and sleep until [`next_timeout`](Self::next_timeout) or the next thing that
/// happens. A connection that has ended stays readable until its application lets go of it with
/// [`forget`](Self::forget).
///
/// What it keeps is bounded by [`Limits`] and [`Backlog`], whatever it is sent.
#[derive(Debug)]
pub struct Host {
    secrets: Secrets,
    limits: Limits,
    addresses: Vec<Address>,
    connections: Connections,
    names: Names,
    listeners: BTreeMap<(Transport, u16), Listener>,
    answers: RateLimit,
    /// When connections may have something to do; one that has moved on to a later time is looked at for nothing.
    timers: BinaryHeap<Reverse<(Time, ConnectionId)>>,
    /// Connections that may have something to say.
    ready: VecDeque<ConnectionId>,
    out: VecDeque<Packet>,
    /// Associations begun so far: each has secrets of its own.
    associations: u64,
    /// On which pairs of addresses connections came about.
    history: History,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostError {
    /// No address of the host is of the family of the other end's.
    NoAddress,
    /// Every port is in use towards this end.
    NoPort,
    /// The port is in use.
    PortInUse(u16),
    /// There are as many connections as there may be.
    TooMany,
    /// A setting that cannot work.
    Config(ConfigError),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("the host has no address of the other end's family"),
            Self::NoPort => f.write_str("every port is in use towards this end"),
            Self::PortInUse(port) => write!(f, "port {port} is in use"),
            Self::TooMany => f.write_str("there are as many connections as there may be"),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for HostError {}

impl Host {
    /// A host with these addresses. Everything secret about its connections comes from `secrets`.
    pub fn new(addresses: Vec<Address>, limits: Limits, secrets: Secrets) -> Self {
        Self {
            names: Names::new(limits.ephemeral_ports.clone(), limits.time_wait, secrets.clone()),
            answers: RateLimit::per_second(limits.answers_per_second),
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

    /// Opens a connection to a port of another host, of which these addresses are known, the one to begin with in front.
    /// It leaves from the first address of the same family, and from a port that nobody else uses.
    ///
    /// # Errors
    /// As [`HostError`] says.
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
    /// been [reserved](Self::reserve). Of addresses that the host has lost the connection is told.
    ///
    /// # Errors
    /// As [`HostError`] says.
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
        self.begin_on_living(protocol, &mut ends);
        let (first, remote) = (ends.first_local().0.ip(), ends.first_remote());
        let asked = ends.local_port;
        self.names.reserved.remove(&(transport, asked));
        // Another port brings another key, should the first one's token be taken (RFC 8684 §3.1).
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
                self.tell_of_lost(now, id, &ends.local);
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
    /// If somebody listens there already, or a setting cannot work.
    pub fn listen(&mut self, listening: Listening) -> Result<(), HostError> {
        self.start_listening(listening, None)
    }

    /// As [`listen`](Self::listen), on these addresses alone. How large packets may be and which paths are backups may
    /// differ from what the host says of them.
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

    /// Listens no more; connections that wait there are aborted.
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

    /// The next connection that came to a listener and is up, if there is one. It may have ended already.
    pub fn accept(&mut self, transport: Transport, port: u16) -> Option<ConnectionId> {
        let id = self.listeners.get_mut(&(transport, port))?.queue.pop_front()?;
        self.connections.get_mut(id)?.registered.stage = Stage::Owned;
        Some(id)
    }

    /// A connection, to look at.
    pub fn endpoint(&self, id: ConnectionId) -> Option<&dyn Endpoint> {
        self.connections.get(id).map(|slot| slot.core.endpoint())
    }

    /// A connection, for its application to write, read, close or abort. It is driven next.
    pub fn endpoint_mut(&mut self, id: ConnectionId) -> Option<&mut (dyn Endpoint + 'static)> {
        self.wake(id);
        self.connections.get_mut(id).map(|slot| slot.core.endpoint_mut())
    }

    /// The application has done with a connection. One that has not ended is aborted.
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

    /// Keeps a port for a connection to come: nobody else gets it.
    pub fn reserve(&mut self, transport: Transport, port: u16) {
        self.names.reserved.insert((transport, port));
    }

    /// A connection is nobody's from now on, and its listener counts it no more.
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

    /// Puts an address that the host has in front if it has lost the first: Multipath TCP may begin on any that reaches the other
    /// end. All other protocols begin where they are asked to.
    fn begin_on_living(&self, protocol: &Protocol, ends: &mut Ends) {
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

    /// Tells a connection which of its addresses the host has no longer.
    fn tell_of_lost(&mut self, now: Time, id: ConnectionId, local: &[Address]) {
        let lost = |address: &&Address| self.addresses.iter().all(|known| known.ip != address.ip);
        let lost: Vec<_> = local.iter().filter(lost).map(|address| address.ip).collect();
        let Some(slot) = self.connections.get_mut(id) else { return };
        for address in lost {
            slot.core.endpoint_mut().handle_network(now, NetworkEvent::AddressDown { address });
        }
    }

    /// The host has this address from now on, or its interface has another MTU: all connections learn of it.
    pub fn add_address(&mut self, now: Time, address: Address) {
        match self.addresses.iter_mut().find(|known| known.ip == address.ip) {
            Some(known) => *known = address,
            None => self.addresses.push(address),
        }
        self.tell_all(now, NetworkEvent::AddressUp { address: address.ip, mtu: address.mtu });
    }

    /// The host no longer has this address: all connections learn of it.
    pub fn remove_address(&mut self, now: Time, ip: IpAddr) {
        self.addresses.retain(|known| known.ip != ip);
        self.history.forget(ip);
        self.tell_all(now, NetworkEvent::AddressDown { address: ip });
    }

    fn tell_all(&mut self, now: Time, event: NetworkEvent) {
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

    /// When [`handle_timeout`](Self::handle_timeout) is due at the latest, if at all.
    pub fn next_timeout(&self) -> Option<Time> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        [timer, self.names.time_wait.next()].into_iter().flatten().min()
    }

    /// Time has come; early calls do no harm.
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

    /// Empties the host of all that it and its connections have to say.
    pub fn drive<D: HostDriver>(&mut self, now: Time, driver: &mut D) {
        while let Some(id) = self.ready.pop_front() {
            self.empty(now, id, driver);
        }
        while let Some(packet) = self.out.pop_front() {
            driver.transmit(None, packet);
        }
    }

    /// How many connections, names and ended connections are remembered.
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

    /// TCP's numbers follow from the host's secrets and the two ends; an association draws from a source of its own.
    fn secrets_of(&mut self, transport: Transport) -> Secrets {
        if transport == Transport::Sctp {
            self.associations += 1;
            return Secrets::new(self.secrets.keyed(&[b"association", &self.associations.to_be_bytes()]));
        }
        self.secrets.clone()
    }

    /// A connection that has begun takes its names; false if its token is another's.
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

    /// Brings the names of a connection up to date: the tag and the peer of an association, the subflows of Multipath TCP.
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

    /// A connection is up: one that came to a listener waits to be accepted.
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

    /// A connection is over: its names are free again, but for what strays on the way.
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
