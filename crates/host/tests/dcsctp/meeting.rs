//! An association between dcSCTP and this stack.

use crate::strangers::messages::{MessageApplication, STREAMS};
use crate::strangers::network::Faults;
use crate::strangers::ours::PORT;
use crate::strangers::sctp::{Association, IP_BYTES, THEIR_PORT, unwrap, wrap};
use crate::strangers::{self, Stranger};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_testkit::contents::Contents;
use dcsctp::api::{
    DcSctpSocket, Message, Options, PpId, SendOptions, SocketEvent, SocketState, SocketTime, StreamId,
};

pub type Meeting = strangers::Meeting<Dcsctp>;

/// Roles and loads of the two ends, and the faults between them.
#[derive(Clone, Debug)]
pub struct Settings {
    pub association: Association,
    pub faults: Faults,
    /// Neither end closes.
    pub stays_open: bool,
}

impl Settings {
    pub fn new() -> Self {
        Self { association: Association::new(), faults: Faults::default(), stays_open: false }
    }

    fn options(&self) -> Options {
        Options {
            local_port: THEIR_PORT,
            remote_port: PORT,
            mtu: usize::from(self.association.mtu) - IP_BYTES,
            enable_message_interleaving: self.association.i_data,
            max_retransmissions: Some(30),
            max_init_retransmits: Some(30),
            ..Options::default()
        }
    }

    /// Both ends.
    pub fn meet(self) -> Meeting {
        let rng = Rng::new(self.association.seed);
        let mut socket = dcsctp::new_socket("", &self.options());
        let Association { opens, bytes, lengths, unordered, .. } = self.association;
        if !opens {
            socket.connect();
        }
        let load = (lengths, unordered);
        let application = MessageApplication::new(bytes[0], load, &[], rng.fork("their application"));
        let (ours, faults) = (self.association.ours(&rng), self.faults);
        let dcsctp = Dcsctp { socket, events: Vec::new(), settings: self, application };
        Meeting::between(dcsctp, ours, (faults, &rng))
    }
}

/// Bytes that the other stack buffers for a stream. Beyond two megabytes in all, it reports each message as an error.
const MAX_BUFFERED: usize = 400_000;

/// The other stack, whose application sends messages, and shuts down once it has read all of this stack's.
pub struct Dcsctp {
    pub socket: Box<dyn DcSctpSocket>,
    /// Events, but packets.
    pub events: Vec<SocketEvent>,
    settings: Settings,
    application: MessageApplication,
}

impl Stranger for Dcsctp {
    fn next_timeout(&mut self, _: Time) -> Option<Time> {
        let due = self.socket.poll_timeout();
        (due < SocketTime::infinite_future()).then(|| {
            let since: core::time::Duration = due - SocketTime::zero();
            Time::ZERO + Duration::from_nanos(since.as_nanos() as u64)
        })
    }

    fn handle_timeout(&mut self, now: Time) {
        self.socket.advance_time(their_time(now));
    }

    fn receive(&mut self, now: Time, packet: &[u8]) {
        self.socket.advance_time(their_time(now));
        if let Some(packet) = unwrap(packet) {
            self.socket.handle_input(packet);
        }
    }

    fn turn(&mut self, _: Time, send: &mut dyn FnMut(&[u8])) -> bool {
        let mut busy = self.read() | self.write() | self.shut_down();
        while let Some(event) = self.socket.poll_event() {
            busy = true;
            match event {
                SocketEvent::SendPacket(packet) => send(&wrap(&packet)),
                event => self.events.push(event),
            }
        }
        busy
    }

    fn contents(&self) -> [&Contents; 2] {
        [&self.application.written, &self.application.read]
    }

    fn is_closed(&self) -> bool {
        let over =
            |event: &SocketEvent| matches!(event, SocketEvent::OnClosed() | SocketEvent::OnAborted(..));
        self.events.iter().any(over)
    }
}

impl Dcsctp {
    fn read(&mut self) -> bool {
        let mut busy = false;
        while let Some(message) = self.socket.get_next_message() {
            busy = true;
            self.application.take(message.stream_id.0, message.ppid.0, &message.payload);
        }
        busy
    }

    fn write(&mut self) -> bool {
        let Self { socket, application, settings, .. } = self;
        let options = SendOptions {
            unordered: settings.association.unordered,
            lifetime: None,
            max_retransmissions: None,
            lifecycle_id: None,
        };
        application.write(|message| {
            let stream = StreamId(message.stream);
            let has_room =
                socket.state() == SocketState::Connected && socket.buffered_amount(stream) <= MAX_BUFFERED;
            if has_room {
                let message = Message::new(stream, PpId(message.ppid), message.bytes.clone());
                socket.send(message, &options).expect("the buffer has room");
            }
            has_room
        })
    }

    fn shut_down(&mut self) -> bool {
        let (socket, application) = (&self.socket, &self.application);
        // It would send a SHUTDOWN while data waits for its retransmission.
        let is_acknowledged = socket.get_metrics().is_some_and(|metrics| metrics.unack_data_count == 0)
            && (0..STREAMS).all(|stream| socket.buffered_amount(StreamId(stream)) == 0);
        let has_all = application.read.bytes >= self.settings.association.bytes[1];
        let is_done = is_acknowledged && application.has_written_all() && has_all;
        let shuts_down = is_done
            && socket.state() == SocketState::Connected
            && !self.settings.stays_open
            && !application.has_shut_down;
        if shuts_down {
            self.application.has_shut_down = true;
            self.socket.shutdown();
        }
        shuts_down
    }
}

fn their_time(time: Time) -> SocketTime {
    SocketTime::zero() + core::time::Duration::from_nanos(time.as_nanos())
}
