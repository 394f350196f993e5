//! The digest of a run: equal for equal runs, on any machine.

use anabranch_base::time::Time;
use anabranch_wire::ip::network_option::NetworkOption;
use anabranch_wire::ip::option::IpOption;
use anabranch_wire::sctp::{Chunk, GapBlock, Sack};
use anabranch_wire::tcp::Segment;
use anabranch_wire::tcp::mptcp::DataNumber;
use anabranch_wire::{Body, Packet, Payload, icmp};

/// An odd number with an even spread of bits: 2⁶⁴ divided by the golden ratio.
const MIX_FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;

/// A running hash over words of 64 bits: each is mixed by a full multiplication, as in wyhash. Not secure
/// against adversaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl Digest {
    /// The hash of no values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a 64-bit value.
    #[inline]
    pub fn word(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * MIX_FACTOR;
        // Adding the word again prevents a factor of zero from eliminating it.
        self.0 = ((product as u64) ^ ((product >> 64) as u64)).wrapping_add(word).rotate_left(23);
    }

    /// Adds the header fields of a packet of `len` bytes, and time and end of its arrival.
    pub fn packet(&mut self, at: Time, (place, len): (u32, u32), packet: &Packet) {
        debug_assert_eq!(len, packet.wire_len());
        self.word(at.as_nanos());
        self.word(u64::from(place) << 32 | u64::from(packet.ecn as u8) << 24 | u64::from(len));
        match &packet.body {
            Body::Tcp(segment) => self.segment(segment),
            Body::Udp(datagram) => {
                self.ports(datagram.source_port, datagram.destination_port, 0);
                self.payload(datagram.payload);
            }
            Body::Sctp(sctp) => {
                self.ports(sctp.source_port, sctp.destination_port, sctp.verification_tag);
                if let Some(udp) = sctp.udp {
                    self.ports(udp.source, udp.destination, 0);
                }
                for chunk in &sctp.chunks {
                    self.chunk(chunk);
                }
            }
            Body::Icmp(message) => self.message(message),
        }
    }

    /// Adds the quoted packet of an ICMP error; echoes are distinguished by their numbers.
    fn message(&mut self, message: &icmp::Message) {
        if let icmp::Message::EchoRequest(echo) | icmp::Message::EchoReply(echo) = message {
            self.ports(echo.identifier, echo.sequence, 0);
        }
        if let Some(quoted) = message.quote().and_then(icmp::Quote::parse) {
            self.ports(quoted.source.port(), quoted.destination.port(), quoted.number);
        }
    }

    /// The digest of all values added until now.
    pub const fn value(&self) -> u64 {
        self.0
    }

    fn ports(&mut self, source: u16, destination: u16, rest: u32) {
        self.word(u64::from(source) << 48 | u64::from(destination) << 32 | u64::from(rest));
    }

    fn payload(&mut self, payload: Payload) {
        self.word(payload.offset);
        self.word(u64::from(payload.len));
    }

    #[inline]
    fn segment(&mut self, segment: &Segment) {
        self.ports(
            segment.source_port,
            segment.destination_port,
            u32::from(segment.flags.0) << 16 | u32::from(segment.window),
        );
        self.word(u64::from(segment.seq.0) << 32 | u64::from(segment.ack.0));
        if !segment.payload.is_empty() {
            self.payload(segment.payload);
        }
        let options = &segment.options;
        if let Some(stamps) = options.timestamps {
            self.word(u64::from(stamps.value) << 32 | u64::from(stamps.echo));
        }
        for (left, right) in options.sack.as_slice() {
            self.word(u64::from(left.0) << 32 | u64::from(right.0));
        }
        if let Some(dss) = options.mptcp.dss {
            self.word(dss.data_ack.map_or(0, number) ^ u64::from(dss.data_fin));
            if let Some(mapping) = dss.mapping {
                self.word(number(mapping.dsn));
                self.word(u64::from(mapping.subflow_seq) << 32 | u64::from(mapping.len));
            }
        }
        for control in &options.mptcp.others {
            self.word(u64::from(control.wire_len()));
        }
        if let Some(option) = segment.ip_option.as_deref() {
            self.ip_option(option);
        }
    }

    #[cold]
    fn ip_option(&mut self, option: &IpOption) {
        match option {
            IpOption::NetworkControl(NetworkOption::Request(request)) => {
                self.word(u64::from(request.association) << 32 | u64::from(request.wanted_kbit_per_s));
            }
            IpOption::NetworkControl(NetworkOption::Invalid(_)) => {}
            IpOption::SourceRoute(route) => {
                for byte in route.data() {
                    self.word(u64::from(*byte));
                }
            }
        }
    }

    fn chunk(&mut self, chunk: &Chunk) {
        self.word(u64::from(chunk.wire_len()));
        if let Some(payload) = chunk.payload() {
            self.payload(payload);
        }
        match chunk {
            Chunk::Data(data) => self.word(u64::from(data.tsn.0) << 32 | u64::from(data.stream)),
            Chunk::IData(data) => self.word(u64::from(data.tsn.0) << 32 | u64::from(data.stream)),
            Chunk::Sack(sack) => self.sack(sack, &[]),
            Chunk::NrSack(nr) => self.sack(&nr.sack, &nr.nr_gaps),
            _ => {}
        }
    }

    fn sack(&mut self, sack: &Sack, nr_gaps: &[GapBlock]) {
        self.word(u64::from(sack.cumulative_tsn.0) << 32 | u64::from(sack.a_rwnd));
        for gap in sack.gaps.iter().chain(nr_gaps) {
            self.word(u64::from(gap.start) << 16 | u64::from(gap.end));
        }
    }
}

fn number(number: DataNumber) -> u64 {
    match number {
        DataNumber::Short(low) => u64::from(low),
        DataNumber::Long(all) => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_order_and_every_word() {
        let of = |words: &[u64]| {
            let mut digest = Digest::new();
            for &word in words {
                digest.word(word);
            }
            digest.value()
        };
        let all = [
            of(&[]),
            of(&[0]),
            of(&[0, 0]),
            of(&[1]),
            of(&[1, 2]),
            of(&[2, 1]),
            of(&[1, 2, 3]),
            of(&[u64::MAX]),
        ];
        for (at, value) in all.iter().enumerate() {
            assert!(!all[..at].contains(value), "{at}");
        }
    }
}
