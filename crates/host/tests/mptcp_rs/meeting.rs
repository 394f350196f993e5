//! A client of `mptcp-rs` and a server of this stack, which exchange encoded packets in virtual time.

use crate::transfer::network::{Faults, Network};
use crate::transfer::{Application, Contents, Load};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Address, Bytes, Event, Placement, Reason, Report, Secrets, Socket};
use anabranch_host::{Backlog, ConnectionId, Host, HostDriver, Limits, Listening, Protocol, Transport};
use anabranch_multipath::path_manager;
use anabranch_tcp::{mptcp, tcp};
use anabranch_testkit::paths;
use anabranch_wire::{Body, Buffer, Packet};
use core::convert::Infallible;
use core::net::{IpAddr, SocketAddr};
use mptcp_rs::{CloseReason, ConnectConfig, ConnectionHandle, Endpoint, Instant, ReadError, SubflowId};
use rand_core::{TryCryptoRng, TryRng};

pub const PORT: u16 = 5001;
/// Longest packet.
const MAX_PACKET_BYTES: usize = 1 << 16;
/// Maximum number of packets that an end sends at one moment; more would show an endless loop.
const MAX_PACKETS_AT_ONCE: usize = 20_000;

/// Reproducible secrets of the client.
pub struct Random(Rng);

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill_with(|| self.0.next_u32() as u8);
        Ok(())
    }
}

impl TryCryptoRng for Random {}

/// Loads of the two ends, and the network between them.
#[derive(Clone, Debug)]
pub struct Settings {
    pub ipv6: bool,
    /// Number of addresses of either end. The client joins from all of its addresses, to the first one of the server.
    pub paths: u8,
    pub mtu: u16,
    /// Bytes from the client and from the server.
    pub bytes: [u64; 2],
    /// Send and receive buffer of the server.
    pub buffers: [u64; 2],
    pub checksum: bool,
    /// Name of the path manager of the server.
    pub path_manager: &'static str,
    /// The server answers all SYNs with cookies.
    pub cookies: bool,
    pub faults: Faults,
    pub seed: u64,
}

impl Settings {
    pub fn new() -> Self {
        Self {
            ipv6: false,
            paths: 2,
            mtu: 1500,
            bytes: [1_000_000; 2],
            buffers: [1_000_000; 2],
            checksum: false,
            path_manager: "default",
            cookies: false,
            faults: Faults::default(),
            seed: 1,
        }
    }

    /// Address of an end (0 is the client) on a path.
    pub fn address(&self, end: u8, path: u8) -> IpAddr {
        paths::address(self.ipv6, end, path)
    }

    fn protocol(&self) -> Protocol {
        let [send_buffer, receive_buffer] = self.buffers;
        let tcp = tcp::Config::default().send_buffer(send_buffer).receive_buffer(receive_buffer);
        let config = mptcp::Config::default()
            .tcp(tcp.retries(30).syn_retries(30))
            .path_manager(path_manager::parse(self.path_manager).expect("listed"))
            .checksum(self.checksum);
        Protocol::Mptcp(config)
    }
}

/// The application of the client: it writes random bytes, reads those of the server, and closes after its last write.
struct Client {
    handle: ConnectionHandle,
    rng: Rng,
    left: u64,
    pending: Vec<u8>,
    written: Contents,
    read: Contents,
    /// A connection that is closed before would be deleted.
    is_connected: bool,
    /// The server has ended its direction.
    has_read_all: bool,
    has_closed: bool,
    /// The client does not close yet.
    stays_open: bool,
    /// The writes and reads of a connection that was reset fail.
    is_reset: bool,
}

impl Client {
    /// Returns true if it has done anything.
    fn turn(&mut self, connection: &mut mptcp_rs::Connection) -> bool {
        let mut busy = false;
        while !self.is_reset && self.left > 0 {
            if self.pending.is_empty() {
                let len = self.rng.between(1, 40_000).min(self.left) as usize;
                self.pending = (0..len).map(|_| self.rng.next_u32() as u8).collect();
            }
            let Ok(taken) = connection.write(&self.pending) else {
                self.is_reset = true;
                break;
            };
            if taken == 0 {
                break;
            }
            busy = true;
            self.written.take_bytes(&self.pending[..taken]);
            self.pending.drain(..taken);
            self.left -= taken as u64;
        }
        let mut bytes = vec![0; self.rng.between(1, 60_000) as usize];
        loop {
            match connection.read(&mut bytes) {
                Ok(0) => {
                    busy |= !core::mem::replace(&mut self.has_read_all, true);
                    break;
                }
                Ok(len) => {
                    self.read.take_bytes(&bytes[..len]);
                    busy = true;
                }
                Err(ReadError::WouldBlock) => break,
                Err(_) => {
                    self.is_reset = true;
                    break;
                }
            }
        }
        if self.left == 0 && self.is_connected && !self.stays_open && !self.has_closed {
            (self.has_closed, busy) = (true, true);
            connection.close();
        }
        busy
    }
}

/// The connection at the server, and its application.
struct Served {
    id: Option<ConnectionId>,
    bytes: Bytes,
    application: Application,
    closed: Option<Reason>,
}

/// Takes the packets and events of the server.
struct Outlet<'a> {
    served: &'a mut Served,
    packet: Option<Buffer<'a>>,
    packets: Vec<Vec<u8>>,
    is_busy: bool,
}

impl HostDriver for Outlet<'_> {
    fn place(&mut self, _: ConnectionId, placement: Placement) {
        self.served.bytes.place(placement, self.packet.expect("only a received packet has payload to place"));
    }

    fn transmit(&mut self, _: Option<ConnectionId>, packet: Packet) {
        assert!(self.packets.len() < MAX_PACKETS_AT_ONCE, "a storm of packets: {packet:?}");
        let mut bytes = Vec::new();
        packet.emit_with(&mut bytes, |payload, out| self.served.bytes.fill(payload, out));
        self.packets.push(bytes);
    }

    fn event(&mut self, _: ConnectionId, event: Event) {
        self.is_busy = true;
        match event {
            Event::Closed(reason) => self.served.closed = Some(reason),
            Event::Finished => self.served.application.finished = true,
            _ => {}
        }
    }
}

/// Both ends and the network between them.
pub struct Meeting {
    pub now: Time,
    pub client: Endpoint<Random>,
    pub server: Host,
    /// Events of the client.
    pub events: Vec<mptcp_rs::Event>,
    /// Paths that lose all packets.
    pub cut: Vec<u8>,
    settings: Settings,
    network: Network,
    app: Client,
    served: Served,
}

impl Meeting {
    /// A client that connects from its first address to the server's. It stays open until [`close`](Self::close).
    pub fn new(settings: Settings) -> Self {
        let rng = Rng::new(settings.seed);
        let now = Time::ZERO;
        let addresses =
            (0..settings.paths).map(|path| Address::new(settings.address(1, path), settings.mtu.into()));
        let mut server =
            Host::new(addresses.collect(), Limits::default(), Secrets::simulated(&mut rng.fork("server")));
        let backlog = Backlog { incomplete: usize::from(!settings.cookies), ..Backlog::default() };
        server.listen(Listening { protocol: settings.protocol(), port: PORT, backlog }).expect("a free port");
        let mut client = Endpoint::new(Random(rng.fork("client")));
        let mut config = ConnectConfig::default();
        config.mtu = settings.mtu;
        let remote = SocketAddr::new(settings.address(1, 0), PORT);
        let handle = client
            .connect_mptcp(instant(now), settings.address(0, 0), remote, config)
            .expect("valid settings");
        let app = Client {
            handle,
            rng: rng.fork("application of the client"),
            left: settings.bytes[0],
            pending: Vec::new(),
            written: Contents::default(),
            read: Contents::default(),
            is_connected: false,
            has_read_all: false,
            has_closed: false,
            stays_open: true,
            is_reset: false,
        };
        let [near, far] = settings.bytes;
        let application =
            Application::new(Load::Stream { bytes: far }, near, rng.fork("application of the server"));
        let served = Served { id: None, bytes: Bytes::default(), application, closed: None };
        let network = Network::new(settings.faults, rng.fork("network"));
        let (events, cut) = (Vec::new(), Vec::new());
        Self { now, client, server, events, cut, settings, network, app, served }
    }

    /// The server's connection.
    pub fn id(&self) -> ConnectionId {
        self.served.id.expect("the server has accepted the connection")
    }

    /// Lets the client close as soon as it has written all of its data.
    pub fn close(&mut self) {
        self.app.stays_open = false;
        self.drain_client();
    }

    /// Adds a subflow from an address of the client to one of the server.
    pub fn join(&mut self, (from, to): (u8, u8), backup: bool) -> SubflowId {
        let remote = SocketAddr::new(self.settings.address(1, to), PORT);
        let (local, mtu) = (self.settings.address(0, from), self.settings.mtu);
        let joined = self.client.add_subflow(instant(self.now), self.app.handle, local, remote, mtu, backup);
        self.drain_client();
        joined.expect("a connection of Multipath TCP")
    }

    /// Acts on the server's connection.
    pub fn with_server(&mut self, act: impl FnOnce(&mut dyn anabranch_endpoint::Endpoint, Time)) {
        let id = self.id();
        act(self.server.endpoint_mut(id).expect("a connection"), self.now);
        self.drain_server(None);
    }

    /// Acts on the client.
    pub fn with_client(&mut self, act: impl FnOnce(&mut Endpoint<Random>, ConnectionHandle, Instant)) {
        act(&mut self.client, self.app.handle, instant(self.now));
        self.drain_client();
    }

    /// The server's state and counters.
    pub fn report(&self) -> Report {
        self.server.endpoint(self.id()).expect("a connection").report()
    }

    /// Bytes that the server has received and read.
    pub fn bytes_read(&self) -> u64 {
        self.served.application.read.bytes
    }

    /// Lets the client act, and sends its packets.
    pub fn drain_client(&mut self) {
        let mut bytes = vec![0; MAX_PACKET_BYTES];
        let mut sent = 0;
        loop {
            let handle = self.app.handle;
            let mut busy = self.client.connection(handle).is_some_and(|connection| self.app.turn(connection));
            while let Some(len) = self.client.poll_transmit(instant(self.now), &mut bytes) {
                sent += 1;
                assert!(sent < MAX_PACKETS_AT_ONCE, "a storm of packets");
                self.carry(1, &bytes[..len]);
            }
            while let Some((_, event)) = self.client.poll_event() {
                busy = true;
                self.app.is_connected |= matches!(event, mptcp_rs::Event::Connected { .. });
                self.events.push(event);
            }
            if !busy {
                return;
            }
        }
    }

    /// Lets the server act, and sends its packets; `packet` was just received.
    pub fn drain_server(&mut self, packet: Option<Buffer<'_>>) {
        loop {
            let mut outlet = Outlet { served: &mut self.served, packet, packets: Vec::new(), is_busy: false };
            self.server.drive(self.now, &mut outlet);
            let (packets, mut busy) = (outlet.packets, outlet.is_busy);
            for packet in packets {
                self.carry(0, &packet);
            }
            self.served.id = self.served.id.or_else(|| self.server.accept(Transport::Tcp, PORT));
            if let Some(endpoint) = self.served.id.and_then(|id| self.server.endpoint_mut(id)) {
                let Served { bytes, application, .. } = &mut self.served;
                bytes.release(endpoint);
                busy |= application.turn(&mut Socket { endpoint, bytes, now: self.now });
            }
            if !busy {
                return;
            }
        }
    }

    /// Sends a packet on the path of the client's address in it.
    fn carry(&mut self, to: usize, bytes: &[u8]) {
        let packet = Packet::parse(bytes).expect("both ends send valid packets");
        assert!(matches!(packet.body, Body::Tcp(_)), "{packet:?}");
        let client = if to == 1 { packet.source } else { packet.destination };
        let path = (0..self.settings.paths).find(|&path| self.settings.address(0, path) == client);
        let path = path.expect("the client has this address");
        if !self.cut.contains(&path) {
            self.network.send(self.now, (path, to), bytes);
        }
    }

    /// Advances to the next arrival or timer; false if there is none before `limit`.
    pub fn step(&mut self, limit: Time) -> bool {
        let timers = [self.server.next_timeout(), self.client.poll_timeout().map(time), self.network.next()];
        let Some(next) = timers.into_iter().flatten().min().filter(|&at| at <= limit) else { return false };
        self.now = self.now.max(next);
        while let Some((to, bytes)) = self.network.pop(self.now) {
            if to == 0 {
                self.client.handle_packet(instant(self.now), &bytes);
                self.drain_client();
            } else if let Ok(packet) = Packet::parse(&bytes) {
                let content = Buffer(&bytes);
                self.server.handle_packet(self.now, packet, &content);
                self.drain_server(Some(content));
            }
        }
        if self.server.next_timeout().is_some_and(|due| due <= self.now) {
            self.server.handle_timeout(self.now);
            self.drain_server(None);
        }
        if self.client.poll_timeout().is_some_and(|due| time(due) <= self.now) {
            self.client.handle_timeout(instant(self.now));
            self.drain_client();
        }
        true
    }

    /// Runs until `done` or the limit in seconds of virtual time; returns the last result of `done`.
    pub fn run_until(&mut self, seconds: f64, done: impl Fn(&Self) -> bool) -> bool {
        self.drain_client();
        let limit = Time::from_secs_f64(seconds);
        while !done(self) {
            if !self.step(limit) {
                return false;
            }
        }
        true
    }

    /// The outcome at the client, if its connection has ended.
    pub fn client_closed(&self) -> Option<CloseReason> {
        self.events.iter().find_map(|event| match event {
            mptcp_rs::Event::Closed { reason } => Some(*reason),
            _ => None,
        })
    }

    /// The outcome at the server, if its connection has ended.
    pub fn server_closed(&self) -> Option<Reason> {
        self.served.closed
    }

    /// True once both ends have ended their connection.
    pub fn is_over(&self) -> bool {
        self.client_closed().is_some() && self.served.closed.is_some()
    }

    /// True once either end has read all bytes of the other one.
    pub fn has_all_bytes(&self) -> bool {
        [self.served.application.read.bytes, self.app.read.bytes] == self.settings.bytes
    }

    /// Checks that either end has read exactly the bytes of the other one.
    pub fn check_bytes(&self) {
        let (app, application) = (&self.app, &self.served.application);
        assert!(self.has_all_bytes(), "{} {} {:?}", application.read.bytes, app.read.bytes, self.events);
        assert_eq!(application.read.digests(), app.written.digests(), "from the client");
        assert_eq!(app.read.digests(), application.written.digests(), "from the server");
    }

    /// Checks that either end has read the end of the other's direction.
    pub fn check_ends(&self) {
        assert_eq!((self.app.has_read_all, self.served.application.finished), (true, true));
    }
}

const fn instant(time: Time) -> Instant {
    Instant::from_nanos(time.as_nanos())
}

/// The first time at or after an instant of the client.
fn time(instant: Instant) -> Time {
    Time::ZERO + Duration::from_nanos(instant.as_nanos())
}
