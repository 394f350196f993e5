//! A connection between smoltcp and this stack.

use crate::strangers::network::Faults;
use crate::strangers::ours::{Ours, PORT};
use crate::strangers::stream::StreamApplication;
use crate::strangers::{self, Stranger};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Address, Secrets};
use anabranch_host::{Backlog, Protocol};
use anabranch_multipath::congestion;
use anabranch_tcp::tcp;
use anabranch_testkit::application::{Application, Load};
use anabranch_testkit::contents::Contents;
use anabranch_testkit::paths;
use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};
use std::collections::VecDeque;

pub type Meeting = strangers::Meeting<Smoltcp>;

/// Port of smoltcp.
pub const THEIR_PORT: u16 = 5000;

/// The end that opens the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    Smoltcp,
    Ours,
    /// Both ends at the same time.
    Both,
    /// This stack connects to a port without a listener.
    Refused,
}

/// Roles and loads of the two ends, and the network between them.
#[derive(Clone, Debug)]
pub struct Settings {
    pub opener: Opener,
    pub ipv6: bool,
    /// MTU of smoltcp and of this stack.
    pub mtus: [u16; 2],
    /// Bytes from smoltcp and from this stack.
    pub bytes: [u64; 2],
    /// Send and receive buffer of smoltcp.
    pub theirs: [usize; 2],
    /// Send and receive buffer of this stack.
    pub buffers: [u64; 2],
    pub control: CongestionControl,
    /// smoltcp and this stack use timestamps.
    pub timestamps: [bool; 2],
    /// This stack uses SACK.
    pub sack: bool,
    /// smoltcp delays acknowledgements and uses Nagle's algorithm.
    pub delays: bool,
    pub faults: Faults,
    pub seed: u64,
}

impl Settings {
    pub fn new() -> Self {
        Self {
            opener: Opener::Smoltcp,
            ipv6: false,
            mtus: [1500; 2],
            bytes: [1_000_000; 2],
            theirs: [300_000; 2],
            buffers: [1_000_000; 2],
            control: CongestionControl::Cubic,
            timestamps: [true; 2],
            sack: true,
            delays: true,
            faults: Faults::default(),
            seed: 1,
        }
    }

    fn address(&self, end: u8) -> IpAddr {
        paths::address(self.ipv6, end, 0)
    }

    fn ours(&self, rng: &Rng) -> Ours {
        let [send_buffer, receive_buffer] = self.buffers;
        let config = tcp::Config::default()
            .congestion(congestion::Choice::find("cubic").expect("listed"))
            .send_buffer(send_buffer)
            .receive_buffer(receive_buffer)
            .sack(self.sack)
            .timestamps(self.timestamps[1])
            .retries(30)
            .syn_retries(30);
        let load = Load::Stream { bytes: self.bytes[1] };
        let application = Application::new(load, self.bytes[0], rng.fork("our application"));
        let secrets = Secrets::simulated(&mut rng.fork("secrets"));
        let (protocol, local) =
            (Protocol::Tcp(config), vec![Address::new(self.address(1), self.mtus[1].into())]);
        match self.opener {
            Opener::Smoltcp => Ours::listening((protocol, Backlog::default()), local, secrets, application),
            Opener::Ours | Opener::Both | Opener::Refused => {
                let remote = SocketAddr::new(self.address(0), THEIR_PORT);
                Ours::connecting(&protocol, (local, remote), secrets, application)
            }
        }
    }

    fn socket(&self) -> Socket<'static> {
        let [send, receive] = self.theirs.map(|len| SocketBuffer::new(vec![0; len]));
        let mut socket = Socket::new(receive, send);
        socket.set_congestion_control(self.control);
        socket.set_tsval_generator(self.timestamps[0].then_some(milliseconds as _));
        if !self.delays {
            socket.set_ack_delay(None);
            socket.set_nagle_enabled(false);
        }
        socket
    }

    /// Both ends. They stay open until [`close`](Meeting::close).
    pub fn meet(self) -> Meeting {
        let rng = Rng::new(self.seed);
        let mut wire = Wire { mtu: self.mtus[0].into(), ..Wire::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = rng.fork("smoltcp").next_u64();
        let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
        let [local, remote] = [0, 1].map(|end| self.address(end));
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(local.into(), if self.ipv6 { 64 } else { 24 })).expect("room for one");
        });
        let mut socket = self.socket();
        match self.opener {
            Opener::Ours => socket.listen(THEIR_PORT).expect("a new socket"),
            Opener::Smoltcp | Opener::Both => {
                socket.connect(interface.context(), (remote, PORT), THEIR_PORT).expect("a new socket");
            }
            Opener::Refused => {}
        }
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        let mut application = StreamApplication::new(self.bytes[0], rng.fork("their application"));
        application.stays_open = true;
        let mut ours = self.ours(&rng);
        ours.application.stays_open = true;
        let faults = self.faults;
        let was_open = false;
        let smoltcp = Smoltcp { interface, sockets, handle, wire, application, was_open, polled: Time::ZERO };
        Meeting::between(smoltcp, ours, (faults, &rng))
    }
}

thread_local! {
    /// Time of smoltcp for its timestamps, in milliseconds.
    static MILLISECONDS: Cell<u32> = const { Cell::new(0) };
}

fn milliseconds() -> u32 {
    MILLISECONDS.get()
}

/// smoltcp and its application.
pub struct Smoltcp {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    wire: Wire,
    pub application: StreamApplication,
    /// A connection was established.
    was_open: bool,
    /// Time of the last poll.
    polled: Time,
}

impl Stranger for Smoltcp {
    fn next_timeout(&mut self, now: Time) -> Option<Time> {
        let due = self.interface.poll_at(instant(now), &self.sockets)?;
        let due = Time::ZERO + Duration::from_micros(due.total_micros() as u64);
        // It may be due now although the last poll did all there was to do.
        Some(due.max(self.polled + Duration::from_micros(1)))
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn receive(&mut self, _: Time, packet: &[u8]) {
        self.wire.received.push_back(packet.to_vec());
    }

    fn turn(&mut self, now: Time, send: &mut dyn FnMut(&[u8])) -> bool {
        MILLISECONDS.set((now.as_nanos() / 1_000_000) as u32);
        self.polled = now;
        let is_busy = self.act();
        let polled = self.interface.poll(instant(now), &mut self.wire, &mut self.sockets);
        for packet in self.wire.sent.drain(..) {
            send(&packet);
        }
        is_busy || polled == PollResult::SocketStateChanged
    }

    fn contents(&self) -> [&Contents; 2] {
        [&self.application.written, &self.application.read]
    }

    fn is_closed(&self) -> bool {
        self.was_open && self.state() == State::Closed
    }
}

impl Smoltcp {
    pub fn state(&self) -> State {
        self.sockets.get::<Socket>(self.handle).state()
    }

    pub fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Lets the application write, read and close.
    fn act(&mut self) -> bool {
        let Self { sockets, handle, application, was_open, .. } = self;
        let socket = sockets.get_mut::<Socket>(*handle);
        *was_open |= socket.may_send();
        let mut is_busy = socket.may_send()
            && application.write(|bytes| socket.send_slice(bytes).expect("the connection is open"));
        // smoltcp deletes unread data at the end of TIME-WAIT.
        let reads = !application.is_paused || socket.state() == State::TimeWait;
        if *was_open && reads {
            let mut bytes = application.buffer();
            loop {
                match socket.recv_slice(&mut bytes) {
                    Ok(0) | Err(RecvError::InvalidState) => break,
                    Ok(len) => application.read.take_bytes(&bytes[..len]),
                    Err(RecvError::Finished) => {
                        is_busy |= !core::mem::replace(&mut application.has_read_all, true);
                        break;
                    }
                }
                is_busy = true;
            }
        }
        if *was_open && application.closes() {
            socket.close();
            is_busy = true;
        }
        is_busy
    }
}

impl Meeting {
    /// Lets both ends close as soon as they have written all of their data.
    pub fn close(&mut self) {
        self.stranger.application.stays_open = false;
        self.ours.application.stays_open = false;
        self.drain_stranger();
        self.drain_ours(None);
    }

    /// Checks that either end has read the end of the other's direction.
    pub fn check_ends(&self) {
        let ends = (self.stranger.application.has_read_all, self.ours.application.finished);
        assert_eq!(ends, (true, true));
    }
}

/// The device of smoltcp: packets that have arrived, and packets to send.
#[derive(Default)]
struct Wire {
    mtu: usize,
    received: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Received(Vec<u8>);

struct Sending<'a>(&'a mut Vec<Vec<u8>>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut packet = vec![0; len];
        let result = fill(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let packet = self.received.pop_front()?;
        Some((Received(packet), Sending(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

fn instant(time: Time) -> Instant {
    Instant::from_micros_const((time.as_nanos() / 1_000) as i64)
}
