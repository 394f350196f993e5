//! An association between dcSCTP and this stack, which exchange encoded packets in virtual time.

use crate::transfer::network::{Faults, Network};
use crate::transfer::{Application, Contents, Load};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Address, Endpoint, Ends, Reason, Reliability, Secrets};
use anabranch_multipath::{congestion, scheduler};
use anabranch_sctp::{Association, Config};
use anabranch_testkit::end::{End, MAX_PACKETS_AT_ONCE};
use anabranch_wire::{Body, Buffer, Ecn, Packet};
use core::net::IpAddr;
use dcsctp::api::{DcSctpSocket, Message, Options, PpId, SendOptions, SocketEvent, SocketTime, StreamId};

const PORTS: [u16; 2] = [5000, 5001];
/// Bytes of the headers of IPv4 and of the longest packet.
const IP_BYTES: usize = 20;

/// Roles and loads of the two ends, and the faults between them. The other stack is end 0.
#[derive(Clone, Debug)]
pub struct Settings {
    /// True if this stack opens the association.
    pub opens: bool,
    pub mtu: u16,
    pub i_data: bool,
    /// Bytes of all messages from the other stack and from this one.
    pub bytes: [u64; 2],
    /// Shortest and longest message.
    pub lengths: (u64, u64),
    /// All messages are unordered, or none: dcSCTP has no such mark on received messages.
    pub unordered: bool,
    /// Send and receive buffer of this stack.
    pub buffers: [u64; 2],
    pub faults: Faults,
    pub seed: u64,
    /// Neither end closes.
    pub stays_open: bool,
}

impl Settings {
    pub fn new() -> Self {
        Self {
            opens: false,
            mtu: 1500,
            i_data: false,
            bytes: [1_000_000; 2],
            lengths: (1, 9_000),
            unordered: false,
            buffers: [1_000_000; 2],
            faults: Faults::default(),
            seed: 1,
            stays_open: false,
        }
    }

    fn config(&self) -> Config {
        let congestion = congestion::Choice::find("reno").expect("listed");
        let [send_buffer, receive_buffer] = self.buffers;
        Config::new(congestion, scheduler::find("round-robin").expect("listed"))
            .send_buffer(send_buffer)
            .receive_buffer(receive_buffer)
            .streams(STREAMS)
            .i_data(self.i_data)
            .reconfiguration(true)
            .association_max_retrans(30)
            .path_max_retrans(30)
            .init_max_retrans(30)
    }

    fn options(&self) -> Options {
        Options {
            local_port: PORTS[0],
            remote_port: PORTS[1],
            mtu: usize::from(self.mtu) - IP_BYTES,
            enable_message_interleaving: self.i_data,
            max_retransmissions: Some(30),
            max_init_retransmits: Some(30),
            ..Options::default()
        }
    }
}

/// Bytes that the other stack buffers for a stream. Beyond two megabytes in all, it reports each message as an error.
const MAX_BUFFERED: usize = 400_000;
/// Number of streams of either end.
const STREAMS: u16 = 4;

const fn ip(end: u8) -> IpAddr {
    IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, end + 1))
}

/// The application of the other stack: it sends messages, and shuts down once it has read all of this stack's.
struct Theirs {
    rng: Rng,
    left: u64,
    /// Stream, PPID and bytes of the next message.
    next: Option<(u16, u32, Vec<u8>)>,
    written: Contents,
    read: Contents,
    has_shut_down: bool,
}

/// Both ends and the network between them.
pub struct Meeting {
    pub now: Time,
    pub socket: Box<dyn DcSctpSocket>,
    /// Events of the other stack, but packets.
    pub events: Vec<SocketEvent>,
    settings: Settings,
    network: Network,
    theirs: Theirs,
    ours: End,
}

impl Meeting {
    pub fn new(settings: Settings) -> Self {
        let rng = Rng::new(settings.seed);
        let secrets = Secrets::simulated(&mut rng.fork("secrets"));
        let local = vec![Address::new(ip(1), settings.mtu.into())];
        let endpoint = if settings.opens {
            let ends = Ends { local, local_port: PORTS[1], remote: vec![ip(0)], remote_port: PORTS[0] };
            Association::connecting(settings.config(), &ends, secrets)
        } else {
            Association::listening(settings.config(), &Ends::listening(local, PORTS[1]), secrets)
        };
        let [theirs, ours] = settings.bytes;
        let load = Load::Messages {
            bytes: ours,
            lengths: settings.lengths,
            streams: STREAMS,
            unordered: f64::from(u8::from(settings.unordered)),
            reliability: Reliability::Full,
        };
        // The other stack closes first: in answer to a SHUTDOWN, it closes while data waits for its retransmission.
        let application = Application::new(load, u64::MAX, rng.fork("our application"));
        let ours = End::new(Box::new(endpoint.expect("valid settings")), application);
        let theirs = Theirs {
            rng: rng.fork("their application"),
            left: theirs,
            next: None,
            written: Contents::default(),
            read: Contents::default(),
            has_shut_down: false,
        };
        let mut socket = dcsctp::new_socket("", &settings.options());
        if !settings.opens {
            socket.connect();
        }
        let network = Network::new(settings.faults, rng.fork("network"));
        let mut meeting =
            Self { now: Time::ZERO, socket, events: Vec::new(), settings, network, theirs, ours };
        meeting.ours.endpoint.connect(Time::ZERO);
        meeting.drain_ours(None);
        meeting.drain_theirs();
        meeting
    }

    fn drain_ours(&mut self, packet: Option<Buffer<'_>>) {
        let (now, network) = (self.now, &mut self.network);
        self.ours.settle(now, packet, &mut |packet, bytes| {
            let Body::Sctp(body) = &packet.body else { panic!("{packet:?}") };
            let mut out = Vec::new();
            body.emit_with(&mut out, &mut |payload, out| bytes.fill(payload, out));
            network.send(now, (0, 0), &out);
        });
    }

    fn drain_theirs(&mut self) {
        let mut sent = 0;
        loop {
            let mut busy = self.theirs.turn(&mut *self.socket, &self.settings);
            while let Some(event) = self.socket.poll_event() {
                busy = true;
                match event {
                    SocketEvent::SendPacket(packet) => {
                        sent += 1;
                        assert!(sent < MAX_PACKETS_AT_ONCE, "a storm of packets");
                        self.network.send(self.now, (0, 1), &packet);
                    }
                    event => self.events.push(event),
                }
            }
            if !busy {
                return;
            }
        }
    }

    /// Advances to the next arrival or timer; false if there is none before `limit`.
    fn step(&mut self, limit: Time) -> bool {
        let due = self.their_timeout();
        let timers = [self.ours.endpoint.next_timeout(), due, self.network.next()];
        let Some(next) = timers.into_iter().flatten().min().filter(|&at| at <= limit) else { return false };
        self.now = self.now.max(next);
        self.socket.advance_time(their_time(self.now));
        self.drain_theirs();
        while let Some((to, bytes)) = self.network.pop(self.now) {
            if to == 0 {
                self.socket.handle_input(&bytes);
                self.drain_theirs();
            } else if let Ok(body) = anabranch_wire::sctp::Packet::parse(&bytes) {
                let packet =
                    Packet { source: ip(0), destination: ip(1), ecn: Ecn::NotEct, body: Body::Sctp(body) };
                let content = Buffer(&bytes);
                self.ours.endpoint.handle_packet(self.now, packet, &content);
                self.drain_ours(Some(content));
            }
        }
        if self.ours.endpoint.next_timeout().is_some_and(|due| due <= self.now) {
            self.ours.endpoint.handle_timeout(self.now);
            self.drain_ours(None);
        }
        true
    }

    fn their_timeout(&self) -> Option<Time> {
        let due = self.socket.poll_timeout();
        (due < SocketTime::infinite_future()).then(|| {
            let since: core::time::Duration = due - SocketTime::zero();
            Time::ZERO + Duration::from_nanos(since.as_nanos() as u64)
        })
    }

    /// Runs until `done` or the limit in seconds of virtual time; returns the last result of `done`.
    pub fn run_until(&mut self, seconds: f64, done: impl Fn(&Self) -> bool) -> bool {
        let limit = Time::from_secs_f64(seconds);
        while !done(self) {
            if !self.step(limit) {
                return false;
            }
        }
        true
    }

    /// True once both ends have closed.
    pub fn is_over(&self) -> bool {
        let over =
            |event: &SocketEvent| matches!(event, SocketEvent::OnClosed() | SocketEvent::OnAborted(..));
        self.ours.closed.is_some() && self.events.iter().any(over)
    }

    /// The reason for which this stack's end has closed.
    pub fn closed(&self) -> Option<Reason> {
        self.ours.closed
    }

    /// Bytes of the other stack's messages that this one has read.
    pub fn bytes_read(&self) -> u64 {
        self.ours.application.read.bytes
    }

    /// Acts on this stack's end.
    pub fn with_ours(&mut self, act: impl FnOnce(&mut (dyn Endpoint + 'static), Time)) {
        act(&mut *self.ours.endpoint, self.now);
        self.drain_ours(None);
    }

    /// Aborts at the other stack.
    pub fn close_theirs(&mut self) {
        self.socket.close();
        self.drain_theirs();
    }

    /// Resets outgoing streams of the other stack.
    pub fn reset_theirs(&mut self, streams: &[StreamId]) {
        self.socket.reset_streams(streams).expect("both ends support it");
        self.drain_theirs();
    }

    /// Checks that either end has read exactly the messages of the other one.
    pub fn check_messages(&self) {
        let (theirs, ours) = (&self.theirs, &self.ours.application);
        let [near, far] = self.settings.bytes;
        let read = [ours.read.bytes, theirs.read.bytes];
        assert!(read[0] >= near && read[1] >= far, "{read:?} {:?} {:?}", self.events, self.ours.closed);
        assert_eq!(ours.read.digests(), theirs.written.digests(), "from the other stack");
        assert_eq!(theirs.read.digests(), ours.written.digests(), "from this stack");
    }
}

impl Theirs {
    /// Returns true if it has done anything.
    fn turn(&mut self, socket: &mut dyn DcSctpSocket, settings: &Settings) -> bool {
        let mut busy = false;
        while let Some(message) = socket.get_next_message() {
            busy = true;
            let key = (message.stream_id.0, settings.unordered);
            self.read.take_message(key, message.ppid.0, &message.payload);
        }
        if socket.state() != dcsctp::api::SocketState::Connected {
            return busy;
        }
        while self.next.is_some() || self.left > 0 {
            let (stream, ppid, bytes) = self.next.take().unwrap_or_else(|| self.generate(settings));
            let options = SendOptions {
                unordered: settings.unordered,
                lifetime: None,
                max_retransmissions: None,
                lifecycle_id: None,
            };
            if socket.buffered_amount(StreamId(stream)) > MAX_BUFFERED {
                self.next = Some((stream, ppid, bytes));
                break;
            }
            let message = Message::new(StreamId(stream), PpId(ppid), bytes.clone());
            socket.send(message, &options).expect("the buffer has room");
            busy = true;
            self.written.take_message((stream, settings.unordered), ppid, &bytes);
        }
        // It would send a SHUTDOWN while data waits for its retransmission.
        let is_acknowledged = socket.get_metrics().is_some_and(|metrics| metrics.unack_data_count == 0)
            && (0..STREAMS).all(|stream| socket.buffered_amount(StreamId(stream)) == 0);
        let has_written_all =
            self.left == 0 && self.next.is_none() && is_acknowledged && !settings.stays_open;
        if has_written_all && self.read.bytes >= settings.bytes[1] && !self.has_shut_down {
            (self.has_shut_down, busy) = (true, true);
            socket.shutdown();
        }
        busy
    }

    fn generate(&mut self, settings: &Settings) -> (u16, u32, Vec<u8>) {
        let len = self.rng.between(settings.lengths.0, settings.lengths.1);
        self.left = self.left.saturating_sub(len);
        let bytes = (0..len).map(|_| self.rng.next_u32() as u8).collect();
        (self.rng.below(STREAMS.into()) as u16, self.rng.next_u32(), bytes)
    }
}

fn their_time(time: Time) -> SocketTime {
    SocketTime::zero() + core::time::Duration::from_nanos(time.as_nanos())
}
