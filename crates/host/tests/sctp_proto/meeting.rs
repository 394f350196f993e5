//! An association between sctp-proto and this stack.

use crate::strangers::messages::{MessageApplication, STREAMS};
use crate::strangers::network::Faults;
use crate::strangers::ours::PORT;
use crate::strangers::sctp::{Association, IP_BYTES, THEIR_PORT, ip, unwrap, wrap};
use crate::strangers::{self, Stranger};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_testkit::contents::Contents;
use anabranch_wire::sctp::{Chunk, Chunks};
use anabranch_wire::{Body, Packet};
use bytes::Bytes;
use core::net::SocketAddr;
use sctp_proto::{
    AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload,
    PayloadProtocolIdentifier, ReliabilityType, ServerConfig, Stream, Transmit, TransportConfig,
};
use std::sync::Arc;
use std::time::Instant;

pub type Meeting = strangers::Meeting<SctpProto>;

/// Payload protocol identifiers that the other stack knows: strings and bytes of WebRTC (RFC 8831 §8).
const PPIDS: &[u32] = &[51, 53];
/// Length of the headers before the data of a packet.
const HEADERS_BYTES: usize = IP_BYTES + 12 + 16;
/// Bytes that the other stack buffers for a stream.
const MAX_BUFFERED: usize = 400_000;

/// Roles and loads of the two ends, and the faults between them.
#[derive(Clone, Debug)]
pub struct Settings {
    pub association: Association,
    /// Receive buffer of the other stack.
    pub receive_buffer: u32,
    pub faults: Faults,
    /// The other stack does not shut down.
    pub stays_open: bool,
}

impl Settings {
    pub fn new() -> Self {
        let association = Association { ppids: PPIDS, ..Association::new() };
        Self { association, receive_buffer: 1_000_000, faults: Faults::default(), stays_open: false }
    }

    fn transport(&self) -> Arc<TransportConfig> {
        let longest = self.association.lengths.1 as u32;
        let transport = TransportConfig::default()
            .with_max_receive_buffer_size(self.receive_buffer)
            .with_max_send_message_size(longest)
            .with_max_receive_message_size(longest)
            .with_max_init_retransmits(None)
            .with_local_port(THEIR_PORT)
            .with_remote_port(PORT);
        Arc::new(transport)
    }

    fn endpoint(&self) -> Endpoint {
        let mut config = EndpointConfig::new();
        config.max_payload_size(u32::from(self.association.mtu) - HEADERS_BYTES as u32);
        let mut server = ServerConfig::new();
        server.transport = self.transport();
        // An INIT for an endpoint without the settings of a server would end the program.
        Endpoint::new(Arc::new(config), Some(Arc::new(server)))
    }

    /// Both ends.
    pub fn meet(self) -> Meeting {
        let rng = Rng::new(self.association.seed);
        let (ours, faults) = (self.association.ours(&rng), self.faults);
        Meeting::between(SctpProto::new(self, &rng), ours, (faults, &rng))
    }
}

/// The other stack, whose application sends messages, and shuts down once it has read all of this stack's.
pub struct SctpProto {
    /// Beginning of virtual time.
    start: Instant,
    endpoint: Endpoint,
    association: Option<(AssociationHandle, sctp_proto::Association)>,
    pub events: Vec<Event>,
    settings: Settings,
    pub application: MessageApplication,
    /// Initiate tag of this stack's INIT.
    tag: Option<u32>,
    is_connected: bool,
    /// The stack has sent a SHUTDOWN COMPLETE. It does not report the end of an association that it shuts down itself.
    has_completed: bool,
}

impl Stranger for SctpProto {
    fn next_timeout(&mut self, _: Time) -> Option<Time> {
        let due = self.association.as_ref()?.1.poll_timeout()?;
        Some(Time::ZERO + Duration::from_nanos(due.saturating_duration_since(self.start).as_nanos() as u64))
    }

    fn handle_timeout(&mut self, now: Time) {
        let now = self.instant(now);
        if let Some((_, association)) = &mut self.association {
            association.handle_timeout(now);
        }
    }

    fn receive(&mut self, now: Time, packet: &[u8]) {
        if self.is_late_init(packet) {
            return;
        }
        let Some(packet) = unwrap(packet) else { return };
        let (now, remote, packet) = (self.instant(now), remote(), Bytes::copy_from_slice(packet));
        match self.endpoint.handle(now, remote, None, None, packet) {
            Some((handle, DatagramEvent::NewAssociation(association))) => {
                self.association = Some((handle, association));
            }
            Some((of, DatagramEvent::AssociationEvent(event))) => {
                if let Some((handle, association)) = &mut self.association
                    && *handle == of
                {
                    association.handle_event(event);
                }
            }
            None => {}
        }
    }

    fn turn(&mut self, now: Time, send: &mut dyn FnMut(&[u8])) -> bool {
        let mut busy = self.read() | self.write() | self.shut_down();
        let now = self.instant(now);
        let Some((_, association)) = &mut self.association else { return false };
        while let Some(Transmit { payload, .. }) = association.poll_transmit(now) {
            busy = true;
            let Payload::RawEncode(packets) = payload else { panic!("a packet to send is encoded") };
            for packet in packets {
                let packet = wrap(&packet);
                self.has_completed |= is_shutdown_complete(&packet);
                send(&packet);
            }
        }
        while let Some(event) = association.poll() {
            busy = true;
            if matches!(event, Event::Connected) {
                self.is_connected = true;
                open_streams(association, self.settings.association.unordered);
            }
            self.events.push(event);
        }
        busy
    }

    fn contents(&self) -> [&Contents; 2] {
        [&self.application.written, &self.application.read]
    }

    fn is_closed(&self) -> bool {
        let over = |event: &Event| matches!(event, Event::AssociationLost { .. });
        self.has_completed || self.events.iter().any(over)
    }
}

impl SctpProto {
    fn new(settings: Settings, rng: &Rng) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the other stack reads the clock, too; the time is virtual"
        )]
        let start = Instant::now();
        let Association { opens, bytes, lengths, unordered, .. } = settings.association;
        let load = (lengths, unordered);
        let application = MessageApplication::new(bytes[0], load, PPIDS, rng.fork("their application"));
        let mut this = Self {
            start,
            endpoint: settings.endpoint(),
            association: None,
            events: Vec::new(),
            settings,
            application,
            tag: None,
            is_connected: false,
            has_completed: false,
        };
        if !opens {
            this.connect();
        }
        this
    }

    /// True for a copy of the INIT of the established association, for which sctp-proto would close the association (RFC 9260
    /// §5.2.2 requires an INIT ACK).
    fn is_late_init(&mut self, packet: &[u8]) -> bool {
        let tag = chunks(packet).iter().find_map(|chunk| match chunk {
            Chunk::Init(init) => Some(init.initiate_tag),
            _ => None,
        });
        let is_known = tag.is_some() && self.tag == tag;
        self.tag = tag.or(self.tag);
        is_known && self.is_connected
    }

    /// Opens an association.
    fn connect(&mut self) {
        let mut config = ClientConfig::new();
        config.transport = self.settings.transport();
        self.association = Some(self.endpoint.connect(config, remote()).expect("valid settings"));
    }

    /// Forgets the association without a message to the peer, and opens another one.
    pub fn restart(&mut self) {
        self.endpoint = self.settings.endpoint();
        self.is_connected = false;
        self.events.clear();
        self.connect();
    }

    fn instant(&self, now: Time) -> Instant {
        self.start + core::time::Duration::from_nanos(now.as_nanos())
    }

    pub fn association(&mut self) -> &mut sctp_proto::Association {
        &mut self.association.as_mut().expect("an association").1
    }

    pub fn stream(&mut self, id: u16) -> Stream<'_> {
        self.association().stream(id).expect("an open stream")
    }

    fn read(&mut self) -> bool {
        let Some((_, association)) = &mut self.association else { return false };
        let (mut busy, mut bytes) = (false, Vec::new());
        if self.application.is_paused {
            return false;
        }
        for id in association.stream_ids() {
            let Ok(mut stream) = association.stream(id) else { continue };
            while let Ok(Some(message)) = stream.read() {
                busy = true;
                bytes.resize(message.len(), 0);
                message.read(&mut bytes).expect("the buffer has the length of the message");
                self.application.take(id, message.ppi as u32, &bytes);
            }
        }
        busy
    }

    fn write(&mut self) -> bool {
        let Some((_, association)) = &mut self.association else { return false };
        if !self.is_connected || association.is_closed() {
            return false;
        }
        self.application.write(|message| {
            let mut stream = association.stream(message.stream).expect("an open stream");
            let has_room = stream.buffered_amount().expect("an open stream") <= MAX_BUFFERED;
            if has_room {
                let sent = stream.write_with_ppi(&message.bytes, message.ppid.into());
                assert_eq!(sent.expect("the stream is open"), message.bytes.len());
            }
            has_room
        })
    }

    /// True if no data waits for an acknowledgement.
    fn is_idle(&mut self) -> bool {
        let Some((_, association)) = &mut self.association else { return true };
        let ids = association.stream_ids();
        ids.into_iter().all(|id| association.stream(id).is_ok_and(|stream| stream.buffered_amount() == Ok(0)))
    }

    /// Shuts down in the end. The stack would not send the rest of its data after a shutdown.
    fn shut_down(&mut self) -> bool {
        let has_all = self.application.read.bytes >= self.settings.association.bytes[1];
        let is_done = has_all && self.application.has_written_all() && !self.settings.stays_open;
        let shuts_down = self.is_connected && is_done && !self.application.has_shut_down && self.is_idle();
        if shuts_down {
            self.application.has_shut_down = true;
            self.association().shutdown().expect("an established association");
        }
        shuts_down
    }
}

/// Address of this stack's end. The other stack needs a port of UDP.
fn remote() -> SocketAddr {
    (ip(1), PORT).into()
}

/// Opens all streams that the peer has not opened yet.
fn open_streams(association: &mut sctp_proto::Association, unordered: bool) {
    for id in 0..STREAMS {
        if association.stream(id).is_err() {
            association.open_stream(id, PayloadProtocolIdentifier::Binary).expect("a new stream");
        }
        let mut stream = association.stream(id).expect("an open stream");
        stream.set_default_payload_type(PayloadProtocolIdentifier::Binary).expect("an open stream");
        stream.set_reliability_params(unordered, ReliabilityType::Reliable, 0).expect("an open stream");
    }
}

fn is_shutdown_complete(packet: &[u8]) -> bool {
    chunks(packet).iter().any(|chunk| matches!(chunk, Chunk::ShutdownComplete(_)))
}

/// The chunks of an IP packet; none if it is damaged.
fn chunks(packet: &[u8]) -> Chunks {
    match Packet::parse(packet) {
        Ok(Packet { body: Body::Sctp(packet), .. }) => packet.chunks,
        _ => Chunks::default(),
    }
}
