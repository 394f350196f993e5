//! A host on real packets: its connections, their bytes, and their applications.

use crate::network::Network;
use anabranch_base::time::Time;
use anabranch_endpoint::{Bytes, Endpoint, Event, Placement, Report, Secrets, Socket};
use anabranch_host::{ConnectionId, Host, HostDriver, HostError, Limits, Listening, Protocol, Transport};
use anabranch_wire::{Buffer, Packet};
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::io;

/// Maximum number of received packets before timers are processed.
const MAX_BATCH: usize = 64;

/// The application of a connection.
pub trait Application {
    /// Reports an event of the connection. A call of [`turn`](Self::turn) follows.
    fn event(&mut self, event: Event);

    /// Lets the application write, read and close; it must not block. The stack calls it after every event,
    /// until it returns false, that is, until it did nothing. After the calls that follow [`Event::Closed`],
    /// connection and application are removed.
    fn turn(&mut self, socket: &mut Socket<'_>) -> bool;
}

/// Creates an application for each connection that a listener accepts.
pub type Accept = Box<dyn FnMut() -> Box<dyn Application>>;

/// A connection without its endpoint, which the host has.
#[derive(Default)]
struct Connection {
    bytes: Bytes,
    /// `None` before the connection is accepted.
    application: Option<Box<dyn Application>>,
}

/// A host with its network, in user space.
pub struct Stack {
    host: Host,
    network: Network,
    connections: BTreeMap<ConnectionId, Connection>,
    listeners: BTreeMap<(Transport, u16), Accept>,
    events: Vec<(ConnectionId, Event)>,
}

impl Stack {
    /// A host with the addresses of this network. Its `secrets` should be [the system's](crate::secrets).
    pub fn new(network: Network, limits: Limits, secrets: Secrets) -> Self {
        let host = Host::new(network.addresses().collect(), limits, secrets);
        let (connections, listeners) = (BTreeMap::new(), BTreeMap::new());
        Self { host, network, connections, listeners, events: Vec::new() }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// State and counters of every connection.
    pub fn reports(&self) -> impl Iterator<Item = Report> + '_ {
        self.connections.keys().filter_map(|&id| self.host.endpoint(id)).map(Endpoint::report)
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
    ) -> Result<(), HostError> {
        let id = self.host.connect(self.network.now(), protocol, remote)?;
        let connection = Connection { bytes: Bytes::default(), application: Some(Box::new(application)) };
        self.connections.insert(id, connection);
        Ok(())
    }

    /// Listens on a port; every accepted connection gets an application of `accept`.
    ///
    /// # Errors
    /// As [`Host::listen`].
    pub fn listen(&mut self, listening: Listening, accept: Accept) -> Result<(), HostError> {
        let key = (listening.protocol.transport(), listening.port);
        self.host.listen(listening)?;
        self.listeners.insert(key, accept);
        Ok(())
    }

    /// Runs until `done`, which is called regularly, returns true, or until `limit`; returns its last result.
    ///
    /// # Errors
    ///
    /// If a device fails or was removed.
    pub fn run(&mut self, limit: Time, mut done: impl FnMut(&Self) -> bool) -> io::Result<bool> {
        let mut buffer = Vec::new();
        self.process_due(self.network.now(), None)?;
        while !done(self) {
            let now = self.network.now();
            if now >= limit {
                return Ok(false);
            }
            if self.host.next_timeout().is_some_and(|due| due <= now) {
                self.host.handle_timeout(now);
                self.process_due(now, None)?;
            }
            let mut received = 0;
            while received < MAX_BATCH
                && let Some(packet) = self.network.receive(&mut buffer)?
            {
                received += 1;
                let (now, content) = (self.network.now(), Buffer(&buffer));
                self.host.handle_packet(now, packet, &content);
                self.process_due(now, Some(content))?;
            }
            if received == 0 {
                self.network.wait(self.host.next_timeout().map_or(limit, |due| due.min(limit)))?;
            }
        }
        Ok(true)
    }

    /// Processes everything that is due; `packet` was just received.
    fn process_due(&mut self, now: Time, packet: Option<Buffer<'_>>) -> io::Result<()> {
        loop {
            let Self { host, network, connections, events, .. } = self;
            let mut outlet = Outlet { network, connections, events, packet, result: Ok(()) };
            host.drive(now, &mut outlet);
            outlet.result?;
            for (&(transport, port), accept) in &mut self.listeners {
                while let Some(id) = self.host.accept(transport, port) {
                    self.connections.entry(id).or_default().application = Some(accept());
                }
            }
            if self.events.is_empty() {
                return Ok(());
            }
            for (id, event) in core::mem::take(&mut self.events) {
                self.deliver_event(now, id, event);
            }
        }
    }

    /// Passes an event of a connection to its application, if it has one.
    fn deliver_event(&mut self, now: Time, id: ConnectionId, event: Event) {
        let over = matches!(event, Event::Closed(_));
        let Some(Connection { bytes, application }) = self.connections.get_mut(&id) else { return };
        if let (Some(application), Some(endpoint)) = (application, self.host.endpoint_mut(id)) {
            application.event(event);
            bytes.release(endpoint);
            while application.turn(&mut Socket { endpoint, bytes, now }) {}
        }
        if over {
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
    /// The first error of a device.
    result: io::Result<()>,
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
        let sent = self.network.send(&packet, &mut |payload, out| match bytes {
            Some(bytes) => bytes.fill(payload, out),
            None => assert!(payload.is_empty(), "a connection without data sent a payload: {payload:?}"),
        });
        if self.result.is_ok() {
            self.result = sent;
        }
    }

    fn event(&mut self, connection: ConnectionId, event: Event) {
        self.events.push((connection, event));
    }
}
