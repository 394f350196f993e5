//! mptcp-rs as a peer of Linux over TUN interfaces, in one thread with the application. Its interface has single packets.

use super::{CHUNK_BYTES, MTU, PORT, Transfer, kernel, measure, route};
use anabranch_net::Clock;
use core::net::{IpAddr, SocketAddr};
use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use mptcp_rs::{ConnectConfig, ConnectionHandle, Endpoint, Event, Instant, ReadError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Send and receive buffer.
const BUFFER_BYTES: u32 = 4 << 20;
/// Number of paths.
const PATHS: u8 = 2;
/// Maximum number of packets of an interface before the application acts.
const MAX_TOGETHER: usize = 64;

/// Maximum time between two looks at the peer.
const MAX_WAIT_NANOS: u64 = 10_000_000;

/// The client, its interfaces and its application.
struct Client {
    clock: Clock,
    tuns: Vec<SyncDevice>,
    endpoint: Endpoint<UnwrapErr<SysRng>>,
    handle: ConnectionHandle,
    packet: Vec<u8>,
    chunk: Vec<u8>,
    /// The application writes for this time; it reads if there is none.
    writes: Option<Duration>,
    read: u64,
    is_connected: bool,
    is_finished: bool,
}

impl Client {
    fn new(tuns: Vec<SyncDevice>, writes: Option<Duration>) -> Self {
        let mut endpoint = Endpoint::new(UnwrapErr(SysRng));
        let mut config = ConnectConfig::default();
        (config.mtu, config.send_buffer, config.recv_buffer) = (MTU as u16, BUFFER_BYTES, BUFFER_BYTES);
        let handle = endpoint
            .connect_mptcp(Instant::from_nanos(0), own(0), machine(0), config)
            .expect("valid settings");
        let (packet, chunk) = (vec![0; 1 << 16], vec![0x5a; CHUNK_BYTES]);
        Self {
            clock: Clock::new(),
            tuns,
            endpoint,
            handle,
            packet,
            chunk,
            writes,
            read: 0,
            is_connected: false,
            is_finished: false,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.elapsed().as_nanos() as u64)
    }

    /// Receives the packets that have arrived. Returns true if there were any.
    fn receive(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.tuns.len() {
            for _ in 0..MAX_TOGETHER {
                let Ok(len) = self.tuns[at].recv(&mut self.packet) else { break };
                any = true;
                self.endpoint.handle_packet(self.now(), &self.packet[..len]);
            }
        }
        any
    }

    /// Sends all packets, each to the interface of its source address.
    fn send(&mut self) {
        let now = self.now();
        self.endpoint.handle_timeout(now);
        while let Some(len) = self.endpoint.poll_transmit(now, &mut self.packet) {
            let path = usize::from(self.packet[14]);
            // A full queue of the interface loses the packet.
            let _ = self.tuns[path].send(&self.packet[..len]);
        }
    }

    /// Lets the application act. Returns true if it has done anything.
    fn act(&mut self) -> bool {
        while let Some((handle, event)) = self.endpoint.poll_event() {
            if matches!(event, Event::Connected { .. }) {
                self.is_connected = true;
                let now = self.now();
                let joined = self.endpoint.add_subflow(now, handle, own(1), machine(1), MTU as u16, false);
                joined.expect("a connection of Multipath TCP");
            }
        }
        let Some(connection) = self.endpoint.connection(self.handle).filter(|_| self.is_connected) else {
            return false;
        };
        match self.writes {
            Some(time) if self.clock.elapsed() < time => {
                connection.write(&self.chunk).is_ok_and(|taken| taken > 0)
            }
            _ => {
                if self.writes.is_some() {
                    connection.close();
                }
                match connection.read(&mut self.chunk) {
                    Ok(0) => {
                        self.is_finished = true;
                        connection.close();
                    }
                    Ok(len) => self.read += len as u64,
                    Err(ReadError::WouldBlock) => return false,
                    Err(error) => panic!("the connection ended: {error:?}"),
                }
                true
            }
        }
    }

    /// Waits for a packet or a timer.
    fn wait(&self) {
        let due = self.endpoint.poll_timeout().map_or(u64::MAX, Instant::as_nanos);
        let left = due.saturating_sub(self.now().as_nanos()).min(MAX_WAIT_NANOS);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left as i64 };
        let mut fds: Vec<_> = self.tuns.iter().map(|tun| PollFd::new(tun, PollFlags::IN)).collect();
        poll(&mut fds, Some(&timeout)).expect("descriptors of interfaces");
    }

    /// Transfers until the stream has ended and the peer is done.
    fn run(&mut self, is_done: impl Fn() -> bool) -> u64 {
        while !self.is_finished || !is_done() {
            let has_received = self.receive();
            let has_acted = !self.is_finished && self.act();
            self.send();
            if !has_received && !has_acted {
                self.wait();
            }
        }
        self.read
    }
}

/// Address of the client on a path.
fn own(path: u8) -> IpAddr {
    [10, 0, path, 2].into()
}

/// Address of Linux on a path.
fn machine(path: u8) -> SocketAddr {
    ([10, 0, path, 1], PORT).into()
}

/// A transfer between mptcp-rs and Linux.
pub fn transfer(is_upload: bool, time: Duration) -> Transfer {
    let tuns = (0..PATHS).map(|path| {
        let builder = DeviceBuilder::new().name(format!("tun{path}")).mtu(MTU as u16);
        let tun = builder.ipv4(machine(path).ip(), 24, None).build_sync().expect("root");
        tun.set_nonblocking(true).expect("a TUN interface");
        tun
    });
    let tuns = tuns.collect();
    route(PATHS);
    let peer = kernel::serve(true, machine(0), (!is_upload).then_some(time));
    let mut client = Client::new(tuns, is_upload.then_some(time));
    measure(|| {
        let read = client.run(|| peer.is_finished());
        let (received, busy) = peer.join().expect("the peer succeeds");
        (if is_upload { received } else { read }, busy)
    })
}
