//! smoltcp as a peer of itself, over a link in memory: a thread for each end, which runs the stack and the application.

use super::{CHUNK_BYTES, MTU, PORT};
use anabranch_net::Clock;
use core::num::NonZeroUsize;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Send buffer and receive buffer of an end.
const BUFFER_BYTES: usize = 4 << 20;
/// Maximum number of packets that wait for an end. The other one sends no further ones.
const MAX_WAITING: usize = 1024;
/// Maximum number of packets of a batch.
const MAX_TOGETHER: usize = 64;
/// Longest packet with segmentation offload.
const LONG_PACKET_BYTES: usize = (1 << 16) - 1;

/// Packets to an end, and used buffers on the way back.
#[derive(Default)]
struct Waiting {
    packets: Vec<Vec<u8>>,
    used: Vec<Vec<u8>>,
}

/// One direction of the link.
#[derive(Default)]
struct Direction {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

/// One end of the link.
struct Wire {
    incoming: Arc<Direction>,
    outgoing: Arc<Direction>,
    /// Received packets, the next one last.
    received: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    used: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// Number of packets that wait for the other end.
    behind: usize,
    offload: bool,
}

impl Wire {
    fn pair(offload: bool) -> [Self; 2] {
        let directions = [Arc::<Direction>::default(), Arc::default()];
        [0, 1].map(|end| Self {
            incoming: Arc::clone(&directions[end]),
            outgoing: Arc::clone(&directions[1 - end]),
            received: Vec::new(),
            sent: Vec::new(),
            used: Vec::new(),
            spare: Vec::new(),
            behind: 0,
            offload,
        })
    }

    /// Takes all packets that have arrived; waits for them for at most `patience`.
    fn fill(&mut self, patience: Option<Duration>) {
        if !self.received.is_empty() {
            return;
        }
        let Direction { waiting, arrived } = &*self.incoming;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(patience) = patience
            && waiting.packets.is_empty()
        {
            waiting = arrived.wait_timeout(waiting, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.used.append(&mut self.used);
        core::mem::swap(&mut self.received, &mut waiting.packets);
        drop(waiting);
        self.received.reverse();
    }

    /// Passes the sent packets to the other end.
    fn flush(&mut self) {
        let Direction { waiting, arrived } = &*self.outgoing;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let wakes = waiting.packets.is_empty() && !self.sent.is_empty();
        waiting.packets.append(&mut self.sent);
        self.behind = waiting.packets.len();
        self.spare.append(&mut waiting.used);
        drop(waiting);
        if wakes {
            arrived.notify_one();
        }
    }
}

struct Received<'a>(Vec<u8>, &'a mut Vec<Vec<u8>>);

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        let result = take(&self.0);
        self.1.push(self.0);
        result
    }
}

struct Sending<'a>(&'a mut Vec<Vec<u8>>, &'a mut Vec<Vec<u8>>);

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut packet = self.1.pop().unwrap_or_default();
        packet.resize(len, 0);
        let result = fill(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Sending<'_>)> {
        let packet = self.received.pop()?;
        Some((Received(packet, &mut self.used), Sending(&mut self.sent, &mut self.spare)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        if self.sent.len() == MAX_TOGETHER {
            self.flush();
        }
        let has_room = self.behind + self.sent.len() < MAX_WAITING;
        has_room.then_some(Sending(&mut self.sent, &mut self.spare))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU as usize;
        capabilities.checksum = ChecksumCapabilities::ignored();
        if self.offload {
            capabilities.segmentation.tcpv4 = NonZeroUsize::new(LONG_PACKET_BYTES);
        }
        capabilities
    }
}

/// One end of the connection.
struct End {
    clock: Clock,
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

impl End {
    fn new(mut wire: Wire, number: u8) -> Self {
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut wire, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::v4(10, 0, 0, number), 24)).expect("room for one");
        });
        let buffer = || SocketBuffer::new(vec![0; BUFFER_BYTES]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_congestion_control(CongestionControl::Cubic);
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Self { clock: Clock::new(), wire, interface, sockets, handle }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Handles the packets that have arrived, and sends the next ones. Waits for packets if `is_idle`.
    fn poll(&mut self, is_idle: bool) {
        let now = Instant::from_micros(self.clock.elapsed().as_micros() as i64);
        let patience = is_idle.then(|| {
            let delay = self.interface.poll_delay(now, &self.sockets).map(Into::into);
            delay.unwrap_or(Duration::from_millis(100)).min(Duration::from_millis(100))
        });
        self.wire.fill(patience);
        let now = Instant::from_micros(self.clock.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.wire, &mut self.sockets);
        self.wire.flush();
    }

    /// Connects, and writes until the time is over.
    fn write_for(mut self, time: Duration) {
        let Self { interface, sockets, handle, .. } = &mut self;
        let socket = sockets.get_mut::<Socket>(*handle);
        let remote = (IpAddress::v4(10, 0, 0, 2), PORT);
        socket.connect(interface.context(), remote, 49_152).expect("a new socket");
        let (chunk, mut is_idle) = (vec![0x5a; CHUNK_BYTES], false);
        loop {
            self.poll(is_idle);
            let over = self.clock.elapsed() >= time;
            let socket = self.socket();
            if over {
                socket.close();
            }
            is_idle = !socket.can_send() || socket.send_slice(&chunk).expect("connected") == 0;
            if socket.state() == State::TimeWait {
                return self.poll(false);
            }
        }
    }

    /// Listens, and reads to the end of the stream. Returns the number of bytes.
    fn read_all(mut self) -> u64 {
        self.socket().listen(PORT).expect("a new socket");
        let (mut bytes, mut chunk, mut is_idle) = (0, vec![0; CHUNK_BYTES], false);
        loop {
            self.poll(is_idle);
            let socket = self.socket();
            if socket.state() == State::Closed {
                return bytes;
            }
            is_idle = true;
            match socket.recv_slice(&mut chunk) {
                Ok(len) => {
                    bytes += len as u64;
                    is_idle = len == 0;
                }
                Err(RecvError::Finished) => socket.close(),
                Err(RecvError::InvalidState) => {}
            }
        }
    }
}

/// Transfers bytes until the time is over, with packets of [`MTU`] bytes, or with segmentation offload; returns their number.
pub fn transfer(offload: bool, time: Duration) -> u64 {
    let [near, far] = Wire::pair(offload);
    let reader = std::thread::spawn(move || End::new(far, 2).read_all());
    End::new(near, 1).write_for(time);
    reader.join().expect("the reader succeeds")
}
