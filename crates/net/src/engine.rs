//! A host on real packets in one thread: its connections, their bytes, and their applications.

use crate::network::Network;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Bytes, Endpoint, Ends, Event, Placement, Report, Secrets, Socket};
use anabranch_host::{ConnectionId, HostDriver, HostError, Limits, Listening, Protocol, Transport};
use anabranch_replay::{PayloadDriver, RecordedHost, Recording};
use anabranch_wire::{Body, Buffer, Packet, Payload};
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

/// Maximum number of received packets before timers and commands are processed.
const MAX_BATCH: usize = 64;
/// Maximum number of packets with data of SCTP that wait for the next packet. One SACK then acknowledges all. They have
/// arrived on one path together, so the wait takes microseconds. RFC 9260 §6.2 recommends a SACK for every other packet. With
/// fewer of them, a sender sends fewer bursts, so fewer packets arrive together. Linux acknowledges a long packet of TCP once.
const MAX_WAITING_PACKETS: usize = 7;
/// After at most this many packets, applications rest before the answers are sent: a program that waits for a message is woken
/// sooner. After more, they rest when the next read finds no packet, so that a fast sender wakes them less often.
const MAX_PACKETS_BEFORE_REST: usize = 2;
/// Maximum number of events kept for a connection that is not accepted yet. Beyond it, only the last event is kept.
const MAX_MISSED_EVENTS: usize = 64;

/// Packets whose connection has not been driven since they arrived.
#[derive(Default)]
struct Waiting {
    packets: usize,
    /// Source and destination.
    pair: Option<(IpAddr, IpAddr)>,
}

impl Waiting {
    /// A SACK belongs to the path of the last packet.
    fn is_of_another_path(&self, pair: (IpAddr, IpAddr)) -> bool {
        self.pair.is_some_and(|waiting| waiting != pair)
    }
}

/// The application of a connection.
pub trait Application {
    /// Reports an event of the connection. A call of [`turn`](Self::turn) follows.
    fn event(&mut self, event: Event);

    /// Lets the application write, read and close; it must not block. The engine calls it after every event,
    /// until it returns false, that is, until it did nothing.
    fn turn(&mut self, socket: &mut Socket<'_>) -> bool;

    /// Called after turns: when at most two packets came or none is left, or after 100 µs, and before the connection is removed. So
    /// another thread need not be woken after each turn. An engine that is dropped does not call it.
    fn rest(&mut self) {}

    /// True if the engine may remove the connection. The engine calls this after [`Event::Closed`] and the following
    /// calls of [`turn`](Self::turn). While data is unread this returns false, and the engine calls it again after
    /// the next `turn`.
    fn is_done(&self) -> bool {
        true
    }
}

/// Creates the applications of the connections of a listener.
pub trait Acceptor {
    /// True if the acceptor has room for a connection now. Connections beyond it wait in the backlog of the listener.
    fn has_room(&self) -> bool {
        true
    }

    /// Creates the application of an established connection.
    fn accept(&mut self, id: ConnectionId, endpoint: &dyn Endpoint) -> Box<dyn Application>;
}

impl<F: FnMut() -> Box<dyn Application>> Acceptor for F {
    fn accept(&mut self, _: ConnectionId, _: &dyn Endpoint) -> Box<dyn Application> {
        self()
    }
}

/// Maximum time from a turn of an application to its [rest](Application::rest) while packets arrive.
const MAX_REST_DELAY: Duration = Duration::from_micros(100);

/// State of a connection, except its endpoint, which is in the host.
#[derive(Default)]
struct Connection {
    bytes: Bytes,
    /// `None` before the connection is accepted.
    application: Option<Box<dyn Application>>,
    /// Events before the connection was accepted.
    missed: Vec<Event>,
    /// True once the last event was reported.
    over: bool,
    /// True if the application had turns since it last rested.
    active: bool,
}

/// A host with its network, in user space. One thread runs it; [`Stack`](crate::Stack) is the handle for several.
pub struct Engine {
    host: RecordedHost,
    network: Network,
    connections: BTreeMap<ConnectionId, Connection>,
    listeners: BTreeMap<(Transport, u16), Box<dyn Acceptor>>,
    events: Vec<(ConnectionId, Event)>,
    /// Connections whose applications had turns since they last rested.
    active: Vec<ConnectionId>,
    /// Latest time at which these applications rest.
    rest_due: Time,
    buffer: Vec<u8>,
}

impl Engine {
    /// A host with the addresses of this network. Its `secrets` should be [the system's](crate::secrets).
    pub fn new(network: Network, limits: Limits, secrets: Secrets) -> Self {
        let host = RecordedHost::new(network.addresses().collect(), limits, secrets);
        Self::of(network, host)
    }

    /// As [`new`](Self::new), with a recording for [`replay`](anabranch_replay::replay). The recording contains the `key` of
    /// the host's secrets, so the key must be new.
    ///
    /// # Errors
    /// If the recording cannot be written.
    pub fn recorded(
        network: Network,
        limits: Limits,
        key: [u8; 32],
        recording: Recording,
    ) -> io::Result<Self> {
        let host = RecordedHost::recorded(network.addresses().collect(), limits, key, recording)?;
        Ok(Self::of(network, host))
    }

    const fn of(network: Network, host: RecordedHost) -> Self {
        Self {
            host,
            network,
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            events: Vec::new(),
            active: Vec::new(),
            rest_due: Time::ZERO,
            buffer: Vec::new(),
        }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// The host, for commands that concern no bytes. A call of [`settle`](Self::settle) has to follow.
    pub const fn host(&mut self) -> &mut RecordedHost {
        &mut self.host
    }

    /// The devices. A call of [`settle`](Self::settle) has to follow.
    pub const fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// State and counters of every connection.
    pub fn reports(&self) -> impl Iterator<Item = Report> + '_ {
        self.connections.keys().filter_map(|&id| self.host.endpoint(id)).map(Endpoint::report)
    }

    /// Connections that have not ended or whose applications are not done.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.connections.keys().copied()
    }

    /// Opens a connection to a port of another host with these known addresses.
    ///
    /// # Errors
    /// As [`Host::connect`].
    pub fn connect(
        &mut self,
        protocol: &Protocol,
        remote: (&[IpAddr], u16),
        application: impl Application + 'static,
    ) -> Result<ConnectionId, HostError> {
        let id = self.host.connect(self.network.now(), protocol, remote)?;
        let application: Option<Box<dyn Application>> = Some(Box::new(application));
        self.connections.insert(id, Connection { application, ..Connection::default() });
        Ok(id)
    }

    /// As [`connect`](Self::connect), from these addresses.
    ///
    /// # Errors
    /// As [`Host::connect_from`].
    pub fn connect_from(
        &mut self,
        protocol: &Protocol,
        ends: Ends,
        application: impl Application + 'static,
    ) -> Result<ConnectionId, HostError> {
        let id = self.host.connect_from(self.network.now(), protocol, ends)?;
        let application: Option<Box<dyn Application>> = Some(Box::new(application));
        self.connections.insert(id, Connection { application, ..Connection::default() });
        Ok(id)
    }

    /// Listens on a port; every accepted connection gets an application of `acceptor`.
    ///
    /// # Errors
    /// As [`Host::listen`].
    pub fn listen(&mut self, listening: Listening, acceptor: Box<dyn Acceptor>) -> Result<(), HostError> {
        let key = (listening.protocol.transport(), listening.port);
        self.host.listen(listening)?;
        self.listeners.insert(key, acceptor);
        Ok(())
    }

    /// Closes a listener and aborts its connections that were not accepted.
    pub fn stop_listening(&mut self, transport: Transport, port: u16) {
        self.listeners.remove(&(transport, port));
        self.host.stop_listening(self.network.now(), transport, port);
    }

    /// Closes all listeners.
    pub fn stop_listening_all(&mut self) {
        let keys: Vec<_> = self.listeners.keys().copied().collect();
        for (transport, port) in keys {
            self.stop_listening(transport, port);
        }
    }

    /// Runs until `done`, which is called regularly, returns true, or until `limit`; returns its last result.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait for packets.
    pub fn run(&mut self, limit: Time, mut done: impl FnMut(&Self) -> bool) -> io::Result<bool> {
        self.settle();
        while !done(self) {
            if self.network.now() >= limit {
                return Ok(false);
            }
            self.step(limit, None)?;
        }
        Ok(true)
    }

    /// Processes timeouts and received packets; without any, waits for the next one, for `wake` to be readable, or until
    /// `limit`.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait for packets.
    pub fn step(&mut self, limit: Time, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let now = self.network.now();
        if self.host.next_timeout().is_some_and(|due| due <= now) {
            self.host.handle_timeout(now);
            self.process_due(now, None);
        }
        let mut buffer = core::mem::take(&mut self.buffer);
        let mut received = 0;
        let mut waiting = Waiting::default();
        while received < MAX_BATCH
            && let Some(packet) = self.network.receive(&mut buffer)
        {
            received += 1;
            let (now, content) = (self.network.now(), Buffer(&buffer));
            let pair = (packet.source, packet.destination);
            if waiting.is_of_another_path(pair) {
                waiting = Waiting::default();
                self.process_due(now, None);
            }
            let has_only_data = matches!(&packet.body, Body::Sctp(body) if body.has_only_data());
            let connection = self.host.handle_packet(now, packet, content);
            if let Some(id) = connection
                && has_only_data
                && waiting.packets < MAX_WAITING_PACKETS
                && self.host.may_wait(id)
            {
                waiting = Waiting { packets: waiting.packets + 1, pair: Some(pair) };
                self.place(id, content);
            } else {
                waiting = Waiting::default();
                self.process_due(now, Some(content));
            }
            if now >= self.rest_due {
                self.let_rest();
            }
        }
        if waiting.packets > 0 {
            self.process_due(self.network.now(), None);
        }
        self.buffer = buffer;
        if received <= MAX_PACKETS_BEFORE_REST {
            self.let_rest();
        }
        self.network.flush();
        if received == 0 {
            let due = self.host.next_timeout().map_or(limit, |due| due.min(limit));
            self.network.wait(due, wake)?;
        }
        self.follow_addresses();
        Ok(())
    }

    /// Processes the consequences of commands.
    pub fn settle(&mut self) {
        self.follow_addresses();
        self.process_due(self.network.now(), None);
        self.network.flush();
    }

    /// Lets the applications rest that had turns.
    fn let_rest(&mut self) {
        for id in self.active.drain(..) {
            if let Some(Connection { application: Some(application), active, .. }) =
                self.connections.get_mut(&id)
            {
                *active = false;
                application.rest();
            }
        }
    }

    /// Lets the application of a connection act.
    pub fn turn(&mut self, id: ConnectionId) {
        let now = self.network.now();
        self.let_act(now, id, &[]);
        self.process_due(now, None);
        self.network.flush();
    }

    /// Passes changes of the usable addresses to the host.
    fn follow_addresses(&mut self) {
        let Some(usable) = self.network.changed_addresses() else { return };
        let now = self.network.now();
        let known: Vec<_> = self.host.addresses().to_vec();
        for lost in known.iter().filter(|known| usable.iter().all(|address| address.ip != known.ip)) {
            self.host.remove_address(now, lost.ip);
        }
        for new in usable.into_iter().filter(|address| !known.contains(address)) {
            self.host.add_address(now, new);
        }
        self.process_due(now, None);
        self.network.flush();
    }

    /// Stores the payload of a packet that was just received, before the connection acts on it.
    fn place(&mut self, id: ConnectionId, packet: Buffer<'_>) {
        let Self { host, network, connections, events, .. } = self;
        host.place(id, &mut Outlet { network, connections, events, packet: Some(packet) });
    }

    /// Processes everything that is due; `packet` was just received.
    fn process_due(&mut self, now: Time, packet: Option<Buffer<'_>>) {
        loop {
            let Self { host, network, connections, events, .. } = self;
            host.drive(now, &mut Outlet { network, connections, events, packet });
            self.accept(now);
            if self.events.is_empty() {
                return;
            }
            for (id, event) in core::mem::take(&mut self.events) {
                self.deliver_event(now, id, event);
            }
        }
    }

    /// Accepts waiting connections while the acceptors of their ports have room.
    fn accept(&mut self, now: Time) {
        let mut accepted = Vec::new();
        for (&(transport, port), acceptor) in &mut self.listeners {
            while acceptor.has_room()
                && let Some(id) = self.host.accept(transport, port)
                && let Some(endpoint) = self.host.endpoint(id)
            {
                let connection = self.connections.entry(id).or_default();
                connection.application = Some(acceptor.accept(id, endpoint));
                accepted.push((id, core::mem::take(&mut connection.missed)));
            }
        }
        for (id, missed) in accepted {
            self.let_act(now, id, &missed);
        }
    }

    /// Passes an event of a connection to its application, or keeps it until the connection is accepted.
    fn deliver_event(&mut self, now: Time, id: ConnectionId, event: Event) {
        if self.host.endpoint(id).is_none() {
            // The connection ended before it was established, or its listener was closed.
            self.connections.remove(&id);
            return;
        }
        let connection = self.connections.entry(id).or_default();
        let is_last = matches!(event, Event::Finished | Event::Closed(_));
        if connection.application.is_some() {
            self.let_act(now, id, &[event]);
        } else if is_last || connection.missed.len() < MAX_MISSED_EVENTS {
            // The application gets a turn after the acceptance and then reads and writes, so these events
            // need no turn.
            connection.missed.extend((!matches!(event, Event::Readable | Event::Writable)).then_some(event));
        }
    }

    /// Passes events to an application and lets it act; then removes the connection if both are done.
    fn let_act(&mut self, now: Time, id: ConnectionId, events: &[Event]) {
        let Some(Connection { bytes, application, over, active, .. }) = self.connections.get_mut(&id) else {
            return;
        };
        let Some(application) = application else { return };
        let acted = self.host.with_endpoint(id, |endpoint| {
            bytes.release(endpoint);
            for &event in events {
                *over |= matches!(event, Event::Closed(_));
                application.event(event);
                while application.turn(&mut Socket { endpoint, bytes, now }) {}
            }
            if events.is_empty() {
                while application.turn(&mut Socket { endpoint, bytes, now }) {}
            }
        });
        if acted.is_none() {
            return;
        }
        self.host.record_data(id, &bytes.sent);
        if self.active.is_empty() {
            self.rest_due = now + MAX_REST_DELAY;
        }
        if !core::mem::replace(active, true) {
            self.active.push(id);
        }
        if *over && application.is_done() {
            application.rest();
            self.host.forget(now, id);
            self.connections.remove(&id);
        }
    }
}

/// Destinations of the host's output.
struct Outlet<'a> {
    network: &'a mut Network,
    connections: &'a mut BTreeMap<ConnectionId, Connection>,
    events: &'a mut Vec<(ConnectionId, Event)>,
    packet: Option<Buffer<'a>>,
}

impl PayloadDriver for Outlet<'_> {
    fn fill(&self, connection: Option<ConnectionId>, payload: Payload, out: &mut [u8]) {
        let bytes = connection.and_then(|id| self.connections.get(&id)).map(|connection| &connection.bytes);
        fill(bytes, payload, out);
    }
}

/// Writes the bytes of a payload of a connection with these bytes; other packets have none.
fn fill(bytes: Option<&Bytes>, payload: Payload, out: &mut [u8]) {
    match bytes {
        Some(bytes) => bytes.fill(payload, out),
        None => assert!(payload.is_empty(), "a connection without data sent a payload: {payload:?}"),
    }
}

impl HostDriver for Outlet<'_> {
    fn place(&mut self, connection: ConnectionId, placement: Placement) {
        let packet = self.packet.expect("only packets contain payload to place");
        self.connections.entry(connection).or_default().bytes.place(placement, packet);
    }

    fn forget(&mut self, connection: ConnectionId, run: (u64, u32)) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.bytes.fragments.forget(run);
        }
    }

    fn transmit(&mut self, connection: Option<ConnectionId>, packet: Packet) {
        let bytes = connection.and_then(|id| self.connections.get(&id)).map(|connection| &connection.bytes);
        self.network.send(&packet, &mut |payload, out| fill(bytes, payload, out));
    }

    fn event(&mut self, connection: ConnectionId, event: Event) {
        self.events.push((connection, event));
    }
}
