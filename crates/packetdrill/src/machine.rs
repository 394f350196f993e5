//! A host with sockets, a virtual clock, and packets in memory.

use crate::connection::Connection;
use crate::push::{self, Pace};
use crate::settings::Settings;
use crate::socket::Socket;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Endpoint, Event, Placement, Secrets};
use anabranch_host::{ConnectionId, Host, HostDriver, Limits};
use anabranch_wire::{Buffer, Packet};
use std::collections::{BTreeMap, VecDeque};

/// The time at which a machine starts. It is not zero, so that no time of a script is before it.
const START: Time = Time::from_nanos(1_000_000_000_000);
/// Key of the machine's secrets. Scripts learn initial numbers and keys from packets, so any key does.
const KEY: [u8; 32] = *b"a script repeats with these keys";

/// A host with sockets, a virtual clock, and packets in memory.
pub struct Machine {
    pub(crate) host: Host,
    pub(crate) settings: Settings,
    pub(crate) now: Time,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    pub(crate) sockets: BTreeMap<i32, Socket>,
    /// Packets that the caller has not received, with the times at which they were sent.
    outbox: VecDeque<(Vec<u8>, Time)>,
}

impl Machine {
    /// A machine without sockets.
    pub fn new(settings: Settings) -> Self {
        let host = Host::new(settings.addresses.clone(), Limits::default(), Secrets::new(KEY));
        Self {
            host,
            settings,
            now: START,
            connections: BTreeMap::new(),
            sockets: BTreeMap::new(),
            outbox: VecDeque::new(),
        }
    }

    /// The time now.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// The time of the next timer.
    pub fn next_timeout(&self) -> Option<Time> {
        self.host.next_timeout()
    }

    /// Lets time pass: handles the timers that expire in it.
    pub fn sleep(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(due) = self.host.next_timeout().filter(|due| *due <= end) {
            self.expire(due);
        }
        self.now = end;
    }

    /// True if a packet was sent that the caller has not taken.
    pub fn has_packet(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Takes the next packet that the machine sends, with the time at which it was sent. Lets time pass until it is
    /// sent. `None` if no timer runs, so that there will be none.
    pub fn next_packet(&mut self) -> Option<(Vec<u8>, Time)> {
        while self.outbox.is_empty() {
            let due = self.host.next_timeout()?;
            self.expire(due);
        }
        self.outbox.pop_front()
    }

    /// Handles the next timer.
    fn expire(&mut self, due: Time) {
        self.now = self.now.max(due);
        self.host.handle_timeout(self.now);
        self.settle();
    }

    /// Handles a packet of the peer. Bytes that are no packet are dropped, as an interface would.
    pub fn receive(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let content = Buffer(bytes);
        self.host.handle_packet(self.now, packet, &content);
        self.process(Some(content));
    }

    /// Processes the consequences of a call.
    pub(crate) fn settle(&mut self) {
        self.process(None);
    }

    fn process(&mut self, packet: Option<Buffer<'_>>) {
        loop {
            let mut outlet =
                Outlet { connections: &mut self.connections, packet, sent: Vec::new(), events: Vec::new() };
            self.host.drive(self.now, &mut outlet);
            let Outlet { sent, events, .. } = outlet;
            self.dispatch(sent);
            if events.is_empty() {
                return;
            }
            for (id, event) in events {
                self.note(id, event);
            }
        }
    }

    /// Records an event of a connection, and acts for an application that has closed its socket.
    fn note(&mut self, id: ConnectionId, event: Event) {
        if self.host.endpoint(id).is_none() {
            self.connections.remove(&id);
            return;
        }
        let connection = self.connections.entry(id).or_default();
        connection.note(event);
        if !connection.orphan {
            return;
        }
        match event {
            // The application cannot read the data any more (RFC 1122 §4.2.2.13).
            Event::Readable => self.with(id, |_, endpoint, now| endpoint.abort(now)).unwrap_or_default(),
            Event::Closed(_) => self.forget(id),
            _ => {}
        }
    }

    /// Releases a connection.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.host.forget(self.now, id);
        self.connections.remove(&id);
    }

    /// Calls a function with a connection and its endpoint; `None` if the connection does not exist.
    pub(crate) fn with<T>(
        &mut self,
        id: ConnectionId,
        act: impl FnOnce(&mut Connection, &mut (dyn Endpoint + 'static), Time) -> T,
    ) -> Option<T> {
        let connection = self.connections.entry(id).or_default();
        let endpoint = self.host.endpoint_mut(id)?;
        connection.bytes.release(endpoint);
        connection.release(endpoint.released());
        Some(act(connection, endpoint, self.now))
    }

    /// Writes packets to the outbox, with PSH as Linux sets it.
    fn dispatch(&mut self, mut sent: Vec<(Option<ConnectionId>, Packet)>) {
        let min_run = self.settings.min_run();
        let mut at = 0;
        while at < sent.len() {
            let id = sent[at].0;
            let end = at + sent[at..].iter().take_while(|(other, _)| *other == id).count();
            if let Some(id) = id
                && let (Some(connection), Some(endpoint)) =
                    (self.connections.get(&id), self.host.endpoint(id))
                && let [path] = endpoint.report().paths.as_slice()
            {
                let mut packets: Vec<_> = sent[at..end].iter_mut().map(|(_, packet)| packet).collect();
                push::mark(&mut packets, connection, Pace::of(path, min_run));
            }
            at = end;
        }
        for (id, packet) in sent {
            let bytes = id.and_then(|id| self.connections.get(&id)).map(|connection| &connection.bytes);
            let mut out = Vec::new();
            packet.emit_with(&mut out, |payload, out| {
                if let Some(bytes) = bytes {
                    bytes.fill(payload, out);
                }
            });
            self.outbox.push_back((out, self.now));
        }
    }
}

/// Receives the output of the host.
struct Outlet<'a> {
    connections: &'a mut BTreeMap<ConnectionId, Connection>,
    packet: Option<Buffer<'a>>,
    sent: Vec<(Option<ConnectionId>, Packet)>,
    events: Vec<(ConnectionId, Event)>,
}

impl HostDriver for Outlet<'_> {
    fn place(&mut self, connection: ConnectionId, placement: Placement) {
        let packet = self.packet.expect("only packets contain payload to place");
        self.connections.entry(connection).or_default().bytes.place(placement, packet);
    }

    fn transmit(&mut self, connection: Option<ConnectionId>, packet: Packet) {
        self.sent.push((connection, packet));
    }

    fn event(&mut self, connection: ConnectionId, event: Event) {
        self.events.push((connection, event));
    }
}
