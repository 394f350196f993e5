//! This stack's end: a host with one connection and its application.

use super::MAX_PACKETS_AT_ONCE;
use anabranch_base::time::Time;
use anabranch_endpoint::{Address, Bytes, Endpoint, Ends, Event, Placement, Reason, Report, Secrets, Socket};
use anabranch_host::{Backlog, ConnectionId, Host, HostDriver, Limits, Listening, Protocol, Transport};
use anabranch_testkit::application::Application;
use anabranch_wire::{Buffer, Packet};
use core::fmt;
use core::net::SocketAddr;

/// Port of this stack's end.
pub const PORT: u16 = 5001;

pub struct Ours {
    pub host: Host,
    pub application: Application,
    /// The reason for which the connection has ended.
    pub closed: Option<Reason>,
    /// Events of the connection, but those of data.
    pub events: Vec<Event>,
    id: Option<ConnectionId>,
    listens: Option<Transport>,
    bytes: Bytes,
}

impl fmt::Debug for Ours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, written) = (&self.application.read, &self.application.written);
        let data = (read.bytes, read.messages, written.bytes, written.messages);
        write!(f, "{data:?} {:?} {:?}", self.closed, self.events)
    }
}

impl Ours {
    fn new(addresses: Vec<Address>, secrets: Secrets, application: Application) -> Self {
        let host = Host::new(addresses, Limits::default(), secrets);
        let (bytes, events) = (Bytes::default(), Vec::new());
        Self { host, application, closed: None, events, id: None, listens: None, bytes }
    }

    /// A host that listens on [`PORT`] and accepts the first connection.
    pub fn listening(
        (protocol, backlog): (Protocol, Backlog),
        addresses: Vec<Address>,
        secrets: Secrets,
        application: Application,
    ) -> Self {
        let mut ours = Self::new(addresses, secrets, application);
        ours.listens = Some(protocol.transport());
        ours.host.listen(Listening { protocol, port: PORT, backlog }).expect("a free port");
        ours
    }

    /// A host that connects from [`PORT`].
    pub fn connecting(
        protocol: &Protocol,
        (addresses, remote): (Vec<Address>, SocketAddr),
        secrets: Secrets,
        application: Application,
    ) -> Self {
        let mut ours = Self::new(addresses.clone(), secrets, application);
        let (remote, remote_port) = (vec![remote.ip()], remote.port());
        let ends = Ends { local: addresses, local_port: PORT, remote, remote_port };
        ours.id = Some(ours.host.connect_from(Time::ZERO, protocol, ends).expect("valid settings"));
        ours
    }

    /// The connection.
    pub fn id(&self) -> ConnectionId {
        self.id.expect("the host has accepted the connection")
    }

    pub fn endpoint_mut(&mut self) -> &mut (dyn Endpoint + 'static) {
        self.host.endpoint_mut(self.id.expect("a connection")).expect("it is kept")
    }

    /// The connection with its bytes, for the test to write and read.
    pub fn socket(&mut self, now: Time) -> Socket<'_> {
        let endpoint = self.host.endpoint_mut(self.id.expect("a connection")).expect("it is kept");
        Socket { endpoint, bytes: &mut self.bytes, now }
    }

    /// State and counters of the connection.
    pub fn report(&self) -> Report {
        self.host.endpoint(self.id()).expect("it is kept").report()
    }

    /// Handles everything that the host and the application have to do at this moment; `packet` was just received.
    pub fn settle(&mut self, now: Time, packet: Option<Buffer<'_>>, send: &mut dyn FnMut(&[u8])) {
        let mut sent = 0;
        loop {
            let Self { host, application, closed, events, id, bytes, .. } = self;
            let mut outlet =
                Outlet { application, closed, events, bytes, packet, send, sent, is_busy: false };
            host.drive(now, &mut outlet);
            let mut is_busy = outlet.is_busy;
            sent = outlet.sent;
            *id = id.or_else(|| self.listens.and_then(|transport| host.accept(transport, PORT)));
            if let Some(endpoint) = id.and_then(|id| host.endpoint_mut(id)) {
                bytes.release(endpoint);
                is_busy |= application.turn(&mut Socket { endpoint, bytes, now });
            }
            if !is_busy {
                return;
            }
        }
    }
}

/// Takes the packets and events of the host.
struct Outlet<'a> {
    application: &'a mut Application,
    closed: &'a mut Option<Reason>,
    events: &'a mut Vec<Event>,
    bytes: &'a mut Bytes,
    packet: Option<Buffer<'a>>,
    send: &'a mut dyn FnMut(&[u8]),
    sent: usize,
    is_busy: bool,
}

impl HostDriver for Outlet<'_> {
    fn place(&mut self, _: ConnectionId, placement: Placement) {
        self.bytes.place(placement, self.packet.expect("only a received packet has payload to place"));
    }

    fn forget(&mut self, _: ConnectionId, run: (u64, u32)) {
        self.bytes.fragments.forget(run);
    }

    fn transmit(&mut self, _: Option<ConnectionId>, packet: Packet) {
        self.sent += 1;
        assert!(self.sent < MAX_PACKETS_AT_ONCE, "a storm of packets: {packet:?}");
        let mut bytes = Vec::new();
        packet.emit_with(&mut bytes, |payload, out| self.bytes.fill(payload, out));
        (self.send)(&bytes);
    }

    fn event(&mut self, _: ConnectionId, event: Event) {
        self.is_busy = true;
        assert_eq!(*self.closed, None, "event after the connection closed: {event:?}");
        match event {
            Event::Readable | Event::Writable => return,
            Event::Connected => self.application.is_connected = true,
            Event::Closed(reason) => *self.closed = Some(reason),
            Event::Finished => self.application.finished = true,
            _ => {}
        }
        self.events.push(event);
    }
}
