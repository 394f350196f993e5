//! Forged packets of an attacker who does not see the connections.

use super::ip;
use anabranch_base::rng::Rng;
use anabranch_wire::icmp::{Message, Quote, Unreachable};
use anabranch_wire::sctp::{Abort, Chunk, CookieEcho, Init};
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{Capable, Control, Join};
use anabranch_wire::tcp::{Flags, Options, Segment, Timestamps};
use anabranch_wire::{Body, Ecn, Packet, Payload, udp};
use core::net::SocketAddr;

/// Port on which the second host listens with TCP and SCTP.
pub const PORT: u16 = 80;
/// Port on which the second host listens with Multipath TCP.
pub const MULTIPATH_PORT: u16 = 81;

/// Forges packets to the second host.
pub struct Forger<'a> {
    rng: &'a mut Rng,
    from: SocketAddr,
    to: SocketAddr,
}

impl<'a> Forger<'a> {
    /// Half of the packets carry the addresses and ports of a known connection, half come from a random source.
    pub fn new(rng: &'a mut Rng, known: &[(SocketAddr, SocketAddr)]) -> Self {
        let (from, to) = if rng.chance(0.5) {
            known[rng.below(known.len() as u64) as usize]
        } else {
            let source = [172, 16, rng.below(256) as u8, rng.below(256) as u8];
            let to = SocketAddr::new(ip(2, 1), PORT + rng.below(3) as u16);
            ((source, rng.below(65_536) as u16).into(), to)
        };
        Self { rng, from, to }
    }

    pub fn word(&mut self) -> u32 {
        self.rng.below(1 << 32) as u32
    }

    pub fn packet(&mut self) -> Packet {
        let body = match self.rng.below(9) {
            0..=2 => Body::Tcp(self.segment()),
            3 => Body::Tcp(self.multipath()),
            4 => {
                let init = Init { initiate_tag: 1 + self.rng.below(9) as u32, ..init() };
                self.association(Chunk::Init(init), 0)
            }
            5 => {
                let tag = self.word();
                self.association(Chunk::CookieEcho(CookieEcho { cookie: vec![7; 60].into() }), tag)
            }
            6 => {
                let (tag, reflected_tag) = (self.word(), self.rng.chance(0.5));
                self.association(Chunk::Abort(Abort { reflected_tag, causes: Vec::new() }), tag)
            }
            7 => Body::Udp(udp::Datagram {
                source_port: self.from.port(),
                destination_port: self.to.port(),
                payload: Payload::new(0, 100),
            }),
            _ => self.error(),
        };
        Packet { source: self.from.ip(), destination: self.to.ip(), ecn: Ecn::NotEct, body }
    }

    pub fn segment(&mut self) -> Segment {
        let (ack, fin, syn, rst) = (Flags::ACK, Flags::FIN, Flags::SYN, Flags::RST);
        let flags = [syn, rst, ack, ack | fin, syn | ack, rst | ack][self.rng.below(6) as usize];
        let mut segment = Segment {
            source_port: self.from.port(),
            destination_port: self.to.port(),
            seq: Serial(self.word()),
            ack: Serial(self.word()),
            flags,
            window: self.word() as u16,
            payload: Payload::new(0, self.rng.below(3) as u32 * 700),
            ..Segment::default()
        };
        if self.rng.chance(0.3) {
            segment.options.timestamps = Some(Timestamps { value: self.word(), echo: 0 });
        }
        segment
    }

    /// A SYN with `MP_JOIN` or `MP_CAPABLE`.
    pub fn multipath(&mut self) -> Segment {
        let mut syn = Segment { flags: Flags::SYN, payload: Payload::EMPTY, ..self.segment() };
        let control = if self.rng.chance(0.5) {
            Control::Join(Join::Syn { backup: false, address_id: 1, token: self.word(), nonce: 1 })
        } else {
            Control::Capable(Capable {
                version: 1,
                checksum_required: false,
                no_join_here: false,
                hmac_sha256: true,
                sender_key: None,
                receiver_key: None,
                data: None,
            })
        };
        syn.options = Options { mss: Some(1_460), ..Options::default() };
        syn.options.mptcp.others.push(control);
        syn
    }

    pub fn association(&self, chunk: Chunk, verification_tag: u32) -> Body {
        Body::Sctp(anabranch_wire::sctp::Packet {
            source_port: self.from.port(),
            destination_port: self.to.port(),
            verification_tag,
            chunks: chunk.into(),
            udp: None,
            may_fragment: false,
            zero_checksum: false,
        })
    }

    /// An ICMP error about a packet of the second host.
    pub fn error(&mut self) -> Body {
        let (source_port, destination_port) = (self.to.port(), self.from.port());
        let body = Body::Tcp(Segment { source_port, destination_port, ..self.segment() });
        let (source, destination) = (self.to.ip(), self.from.ip());
        let quote = Quote::of(&Packet { source, destination, ecn: Ecn::NotEct, body });
        Body::Icmp(Box::new(match self.rng.below(3) {
            0 => Message::PacketTooBig { mtu: 68 + self.rng.below(1_400) as u32, quote },
            1 => Message::Unreachable { what: Unreachable::Port, quote },
            _ => Message::Unreachable { what: Unreachable::Protocol, quote },
        }))
    }
}

pub fn init() -> Init {
    Init {
        initiate_tag: 1,
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Serial(1),
        parameters: Vec::new(),
    }
}
