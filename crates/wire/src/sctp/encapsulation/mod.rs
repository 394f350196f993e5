//! SCTP over UDP (RFC 6951): the whole SCTP packet is the payload of a UDP datagram.
//!
//! ```text
//! +-----------------------------+
//! |      IPv4 or IPv6 header    |
//! +-----------------------------+
//! |         UDP header          |
//! +-----------------------------+
//! |     SCTP common header      |
//! :           chunks            :
//! +-----------------------------+
//! ```
//!
//! A packet with [`udp`](super::Packet::udp) set is carried in UDP; it is then [`OVERHEAD`] bytes longer.

mod parse;

pub use parse::parse;

use super::UDP_PORT;
use crate::ip::Addresses;
use crate::payload::Payload;
use crate::udp::Datagram;

/// Bytes that the encapsulation adds to a packet.
pub const OVERHEAD: u32 = Datagram::HEADER_LEN;

/// The UDP ports around an SCTP packet. They are independent of SCTP's own ports; an address translator may
/// change them, so that answers are sent to the source port of the last received packet (RFC 6951 §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self { source: UDP_PORT, destination: UDP_PORT }
    }
}

/// Appends a UDP datagram that carries an SCTP packet, with payload bytes from `fill`; see
/// [`super::Packet::emit_with`].
pub(crate) fn emit(
    packet: &super::Packet,
    (ports, addresses): (Ports, Addresses),
    out: &mut Vec<u8>,
    fill: &mut dyn FnMut(Payload, &mut [u8]),
) {
    let mut inner = Vec::new();
    packet.emit_with(&mut inner, fill);
    let datagram = Datagram {
        source_port: ports.source,
        destination_port: ports.destination,
        payload: Payload::new(0, inner.len() as u32),
    };
    datagram.emit_with(addresses, out, |bytes| bytes.copy_from_slice(&inner));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::content::Buffer;
    use crate::packet::{Body, Packet};
    use crate::sctp::{self, Chunk, Data};
    use crate::seq::Serial;
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn packet(source: IpAddr, destination: IpAddr, udp: Option<Ports>) -> Packet {
        let data = Data { payload: Payload::new(5, 10), ..Data::default() };
        let chunks = Chunk::Data(data).into();
        let sctp = sctp::Packet {
            source_port: 1,
            destination_port: 2,
            verification_tag: 3,
            chunks,
            udp,
            may_fragment: false,
            zero_checksum: false,
        };
        Packet { source, destination, ecn: Ecn::Ect0, body: Body::Sctp(sctp) }
    }

    fn local(udp: Option<Ports>) -> Packet {
        packet(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into(), udp)
    }

    /// RFC 9260 §7.3 and RFC 6864 §4.1: such a packet has no DF and a distinct identification. IPv6 has neither
    /// field.
    #[test]
    fn packet_without_df_may_be_fragmented() {
        for udp in [None, Some(Ports::default())] {
            let mut packet = local(udp);
            packet.let_routers_fragment();
            assert!(packet.may_fragment());
            if let Body::Sctp(sctp) = &mut packet.body {
                sctp.chunks = Chunk::Data(Data { tsn: Serial(0x0001_0203), ..Data::default() }).into();
            }
            let mut bytes = Vec::new();
            packet.emit(&mut bytes);
            assert_eq!(bytes[4..8], [2, 3, 0, 0], "identification, no DF");
            assert!(parse(&bytes, UDP_PORT).unwrap().may_fragment());
            let mut scratch = Vec::new();
            crate::check(&packet, &mut scratch).unwrap();
        }
        let mut v6 = packet(Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), None);
        v6.let_routers_fragment();
        assert!(!v6.may_fragment());
    }

    #[test]
    fn encapsulated_packets_round_trip() {
        let ports = Some(Ports { source: 40_000, destination: UDP_PORT });
        let v4 = packet(Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into(), ports);
        let v6 = packet(Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into(), ports);
        for packet in [v4, v6] {
            let mut bytes = Vec::new();
            packet.emit(&mut bytes);
            assert_eq!(bytes.len() as u32, packet.wire_len());
            assert_eq!(crate::check(&packet, &mut Vec::new()), Ok(()));
            let mut parsed = parse(&bytes, UDP_PORT).unwrap();
            parsed.for_each_payload(|payload| {
                assert_eq!(Payload::new(5, 10).first_difference(Buffer(&bytes).bytes(*payload)), None);
                payload.offset = 5;
            });
            assert_eq!(parsed, packet);
            // SCTP is recognised by either of the two UDP ports.
            assert!(matches!(parse(&bytes, 40_000).unwrap().body, Body::Sctp(_)));
            assert!(matches!(parse(&bytes, 4_000).unwrap().body, Body::Udp(_)));
        }
    }

    #[test]
    fn plain_packets_are_parsed() {
        let mut bytes = Vec::new();
        local(None).emit(&mut bytes);
        assert_eq!(local(None).wire_len() + OVERHEAD, local(Some(Ports::default())).wire_len());
        let Body::Sctp(sctp) = parse(&bytes, UDP_PORT).unwrap().body else { panic!("SCTP") };
        assert_eq!(sctp.udp, None);
    }

    #[test]
    fn bad_inner_checksum_is_refused() {
        let packet = local(None);
        let Body::Sctp(sctp) = &packet.body else { panic!("SCTP") };
        let mut inner = Vec::new();
        sctp.emit(&mut inner);
        inner[20] ^= 1;
        let datagram = Datagram {
            source_port: UDP_PORT,
            destination_port: 7,
            payload: Payload::new(0, inner.len() as u32),
        };
        let outer = Packet { body: Body::Udp(datagram), ..packet };
        let mut bytes = Vec::new();
        outer.emit_with(&mut bytes, |_, bytes| bytes.copy_from_slice(&inner));
        assert!(parse(&bytes, UDP_PORT).is_err());
    }
}
