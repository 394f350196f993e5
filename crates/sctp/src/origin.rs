//! The origin of a packet, and the replies to it.

use anabranch_endpoint::endpoint::Arrival;
use anabranch_wire::sctp::encapsulation::Ports;
use anabranch_wire::sctp::{self, Abort, Cause, Chunk, ShutdownComplete};
use anabranch_wire::{Body, Ecn, Packet};
use core::net::{IpAddr, SocketAddr};

/// Source and destination of a received packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub source_port: u16,
    pub destination_port: u16,
    /// UDP ports of the packet, if encapsulated.
    pub udp: Option<Ports>,
    /// True if a router has marked it (ECN).
    pub marked: bool,
}

impl Origin {
    /// The origin of an SCTP packet, and its contents after the IP header.
    pub fn of(packet: &Packet) -> Option<(Self, &sctp::Packet)> {
        let Body::Sctp(body) = &packet.body else { return None };
        let origin = Self {
            source: packet.source,
            destination: packet.destination,
            source_port: body.source_port,
            destination_port: body.destination_port,
            udp: body.udp,
            marked: packet.ecn == Ecn::Ce,
        };
        Some((origin, body))
    }

    /// Adds new payload to the bytes received between these addresses.
    pub fn count(&self, arrivals: &mut Vec<Arrival>, new: u64) {
        let between = |known: &&mut Arrival| {
            (known.local.port(), known.remote.port()) == (self.destination_port, self.source_port)
                && known.local.ip() == self.destination
                && known.remote.ip() == self.source
        };
        if let Some(known) = arrivals.iter_mut().find(between) {
            known.new += new;
            return;
        }
        let local = SocketAddr::new(self.destination, self.destination_port);
        let remote = SocketAddr::new(self.source, self.source_port);
        arrivals.push(Arrival { local, remote, new });
    }

    /// A packet with one chunk, sent back to the source of this packet with the same encapsulation (RFC 6951 §5.4).
    pub fn reply(&self, tag: u32, chunk: Chunk) -> Packet {
        Packet {
            source: self.destination,
            destination: self.source,
            ecn: Ecn::NotEct,
            body: Body::Sctp(sctp::Packet {
                source_port: self.destination_port,
                destination_port: self.source_port,
                verification_tag: tag,
                chunks: chunk.into(),
                udp: self.udp.map(back),
                may_fragment: false,
                zero_checksum: false,
            }),
        }
    }

    /// Response to chunks that belong to no association here (RFC 9260 §8.4); `None` if it could cause an endless
    /// exchange of responses.
    pub fn out_of_the_blue(&self, tag: u32, chunks: &[Chunk]) -> Option<Packet> {
        let chunks = behind_auth(chunks);
        // A packet with tag zero may contain only an INIT; others are ignored (§8.5.1 A).
        if tag == 0 && !matches!(chunks, [Chunk::Init(_)]) {
            return None;
        }
        for chunk in chunks {
            match chunk {
                Chunk::Abort(_) | Chunk::ShutdownComplete(_) | Chunk::CookieAck | Chunk::CookieEcho(_) => {
                    return None;
                }
                Chunk::Error(error)
                    if error.causes.iter().any(|c| matches!(c, Cause::StaleCookie { .. })) =>
                {
                    return None;
                }
                Chunk::ShutdownAck => {
                    let complete = ShutdownComplete { reflected_tag: true };
                    return Some(self.reply(tag, Chunk::ShutdownComplete(complete)));
                }
                // The response has the tag that the peer expects (§8.4 3).
                Chunk::Init(init) if tag == 0 => {
                    let abort = Abort { reflected_tag: false, causes: Vec::new() };
                    return (init.initiate_tag != 0)
                        .then(|| self.reply(init.initiate_tag, Chunk::Abort(abort)));
                }
                _ => {}
            }
        }
        let abort = Abort { reflected_tag: true, causes: Vec::new() };
        (!chunks.is_empty()).then(|| self.reply(tag, Chunk::Abort(abort)))
    }
}

/// The chunks that determine the association of a packet: all except a preceding AUTH (RFC 4895 §6.3).
pub fn behind_auth(chunks: &[Chunk]) -> &[Chunk] {
    match chunks {
        [Chunk::Auth(_), rest @ ..] => rest,
        all => all,
    }
}

/// Source and destination port exchanged, for a reply.
pub(super) const fn back(ports: Ports) -> Ports {
    Ports { source: ports.destination, destination: ports.source }
}

/// Response to a packet of no association and no listener (RFC 9260 §8.4); `None` if it is not SCTP, or if the response
/// could cause an endless exchange.
pub fn out_of_the_blue(packet: &Packet) -> Option<Packet> {
    let (origin, body) = Origin::of(packet).filter(|(_, body)| !body.zero_checksum)?;
    origin.out_of_the_blue(body.verification_tag, &body.chunks)
}
