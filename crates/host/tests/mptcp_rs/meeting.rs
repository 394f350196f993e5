//! A client of `mptcp-rs` and a server of this stack.

use crate::strangers::network::Faults;
use crate::strangers::ours::{Ours, PORT};
use crate::strangers::stream::StreamApplication;
use crate::strangers::{self, Stranger};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Address, Secrets};
use anabranch_host::{Backlog, Protocol};
use anabranch_multipath::path_manager;
use anabranch_tcp::{mptcp, tcp};
use anabranch_testkit::application::{Application, Load};
use anabranch_testkit::contents::Contents;
use anabranch_testkit::paths;
use core::convert::Infallible;
use core::net::{IpAddr, SocketAddr};
use mptcp_rs::{
    CloseReason, ConnectConfig, ConnectionHandle, Endpoint, Event, Instant, ReadError, SubflowId,
};
use rand_core::{TryCryptoRng, TryRng};

pub type Meeting = strangers::Meeting<Client>;

/// Longest packet.
const MAX_PACKET_BYTES: usize = 1 << 16;

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

    /// A client that connects from its first address to the server's. It stays open until [`close`](Meeting::close).
    pub fn meet(self) -> Meeting {
        let rng = Rng::new(self.seed);
        let [near, far] = self.bytes;
        let addresses = (0..self.paths).map(|path| Address::new(self.address(1, path), self.mtu.into()));
        let backlog = Backlog { incomplete: usize::from(!self.cookies), ..Backlog::default() };
        let application =
            Application::new(Load::Stream { bytes: far }, near, rng.fork("application of the server"));
        let secrets = Secrets::simulated(&mut rng.fork("server"));
        let server = Ours::listening((self.protocol(), backlog), addresses.collect(), secrets, application);
        let mut endpoint = Endpoint::new(Random(rng.fork("client")));
        let mut config = ConnectConfig::default();
        config.mtu = self.mtu;
        let remote = SocketAddr::new(self.address(1, 0), PORT);
        let handle = endpoint
            .connect_mptcp(instant(Time::ZERO), self.address(0, 0), remote, config)
            .expect("valid settings");
        let mut application = StreamApplication::new(near, rng.fork("application of the client"));
        application.stays_open = true;
        let faults = self.faults;
        let client = Client {
            endpoint,
            handle,
            application,
            events: Vec::new(),
            is_connected: false,
            is_reset: false,
            settings: self,
        };
        Meeting::between(client, server, (faults, &rng))
    }
}

/// The client and its application, which closes after its last write.
pub struct Client {
    pub endpoint: Endpoint<Random>,
    pub handle: ConnectionHandle,
    pub application: StreamApplication,
    pub events: Vec<Event>,
    /// A connection that is closed before would be deleted.
    is_connected: bool,
    /// The writes and reads of a connection that was reset fail.
    is_reset: bool,
    settings: Settings,
}

impl Stranger for Client {
    fn next_timeout(&mut self, _: Time) -> Option<Time> {
        self.endpoint.poll_timeout().map(time)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(instant(now));
    }

    fn receive(&mut self, now: Time, packet: &[u8]) {
        self.endpoint.handle_packet(instant(now), packet);
    }

    fn turn(&mut self, now: Time, send: &mut dyn FnMut(&[u8])) -> bool {
        let mut busy = self.write_and_close() | self.read();
        let mut bytes = vec![0; MAX_PACKET_BYTES];
        while let Some(len) = self.endpoint.poll_transmit(instant(now), &mut bytes) {
            send(&bytes[..len]);
        }
        while let Some((_, event)) = self.endpoint.poll_event() {
            busy = true;
            self.is_connected |= matches!(event, Event::Connected { .. });
            self.events.push(event);
        }
        busy
    }

    fn contents(&self) -> [&Contents; 2] {
        [&self.application.written, &self.application.read]
    }

    fn is_closed(&self) -> bool {
        self.closed().is_some()
    }
}

impl Client {
    fn write_and_close(&mut self) -> bool {
        let Self { endpoint, application, is_reset, .. } = self;
        let Some(connection) = endpoint.connection(self.handle) else { return false };
        let busy = !*is_reset
            && application.write(|bytes| {
                let taken = connection.write(bytes);
                *is_reset |= taken.is_err();
                taken.unwrap_or(0)
            });
        let closes = self.is_connected && application.closes();
        if closes {
            connection.close();
        }
        busy || closes
    }

    fn read(&mut self) -> bool {
        let Self { endpoint, application, is_reset, .. } = self;
        let Some(connection) = endpoint.connection(self.handle) else { return false };
        let (mut busy, mut bytes) = (false, application.buffer());
        loop {
            match connection.read(&mut bytes) {
                Ok(0) => return busy | !core::mem::replace(&mut application.has_read_all, true),
                Ok(len) => {
                    application.read.take_bytes(&bytes[..len]);
                    busy = true;
                }
                Err(ReadError::WouldBlock) => return busy,
                Err(_) => {
                    *is_reset = true;
                    return busy;
                }
            }
        }
    }

    /// The outcome, if the connection has ended.
    pub fn closed(&self) -> Option<CloseReason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed { reason } => Some(*reason),
            _ => None,
        })
    }
}

impl Meeting {
    /// Lets the client close as soon as it has written all of its data.
    pub fn close(&mut self) {
        self.with_stranger(|client, _| client.application.stays_open = false);
    }

    /// Adds a subflow from an address of the client to one of the server.
    pub fn join(&mut self, (from, to): (u8, u8), backup: bool) -> SubflowId {
        self.with_stranger(|client, now| {
            let Client { settings, endpoint, handle, .. } = client;
            let remote = SocketAddr::new(settings.address(1, to), PORT);
            let (local, mtu) = (settings.address(0, from), settings.mtu);
            let joined = endpoint.add_subflow(instant(now), *handle, local, remote, mtu, backup);
            joined.expect("a connection of Multipath TCP")
        })
    }

    /// True once either end has read all bytes of the other one.
    pub fn has_all_bytes(&self) -> bool {
        [self.bytes_read(), self.stranger.application.read.bytes] == self.stranger.settings.bytes
    }

    /// Checks that either end has read exactly the bytes of the other one.
    pub fn check_bytes(&self) {
        self.check_contents(self.stranger.settings.bytes);
    }

    /// Checks that either end has read the end of the other's direction.
    pub fn check_ends(&self) {
        let ends = (self.stranger.application.has_read_all, self.ours.application.finished);
        assert_eq!(ends, (true, true));
    }
}

pub const fn instant(time: Time) -> Instant {
    Instant::from_nanos(time.as_nanos())
}

/// The first time at or after an instant of the client.
fn time(instant: Instant) -> Time {
    Time::ZERO + Duration::from_nanos(instant.as_nanos())
}
