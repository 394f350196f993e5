//! Encoding and decoding of messages.

use super::{Echo, Message, Quote, Unreachable};
use crate::bytes::Reader;
use crate::checksum::Checksum;
use crate::error::{EncodeError, Header, ParseError, Problem};
use crate::ip::{Addresses, protocol};

/// Message types of ICMP for IPv4 (RFC 792).
mod v4 {
    pub(super) const ECHO_REPLY: u8 = 0;
    pub(super) const UNREACHABLE: u8 = 3;
    pub(super) const ECHO_REQUEST: u8 = 8;
    pub(super) const TIME_EXCEEDED: u8 = 11;
    /// The code of "unreachable" for a packet that is too big.
    pub(super) const FRAGMENTATION_NEEDED: u8 = 4;
}

/// Message types of `ICMPv6` (RFC 4443).
mod v6 {
    pub(super) const UNREACHABLE: u8 = 1;
    pub(super) const PACKET_TOO_BIG: u8 = 2;
    pub(super) const TIME_EXCEEDED: u8 = 3;
    pub(super) const PARAMETER_PROBLEM: u8 = 4;
    pub(super) const ECHO_REQUEST: u8 = 128;
    pub(super) const ECHO_REPLY: u8 = 129;
    /// The code of "parameter problem" for an unsupported transport protocol.
    pub(super) const UNKNOWN_NEXT_HEADER: u8 = 1;
    /// Offset of the transport's number in the quoted packet.
    pub(super) const NEXT_HEADER_AT: u32 = 6;
}

/// The named codes of "unreachable" in IPv4 (RFC 792, RFC 1812 §5.2.7.1).
const CODES_V4: [(Unreachable, u8); 5] = [
    (Unreachable::Network, 0),
    (Unreachable::Host, 1),
    (Unreachable::Protocol, 2),
    (Unreachable::Port, 3),
    (Unreachable::Prohibited, 13),
];

/// The named codes of "unreachable" in IPv6 (RFC 4443 §3.1); an unsupported protocol has its own message
/// type.
const CODES_V6: [(Unreachable, u8); 4] =
    [(Unreachable::Network, 0), (Unreachable::Prohibited, 1), (Unreachable::Host, 3), (Unreachable::Port, 4)];

impl Unreachable {
    fn from_code(code: u8, codes: &[(Self, u8)]) -> Self {
        codes.iter().find(|(_, known)| *known == code).map_or(Self::Other(code), |(what, _)| *what)
    }

    fn code(self, codes: &[(Self, u8)]) -> u8 {
        match self {
            Self::Other(code) => code,
            named => codes.iter().find(|(what, _)| *what == named).map_or(0, |(_, code)| *code),
        }
    }
}

/// The first eight bytes of an ICMP message, without the checksum.
struct Fixed {
    kind: u8,
    code: u8,
    word: u32,
}

impl Message {
    /// Checks that the message has an encoding in this family.
    ///
    /// # Errors
    ///
    /// If a field has a value that cannot be encoded: that field.
    pub fn validate(&self, v4: bool) -> Result<(), EncodeError> {
        match self {
            Self::PacketTooBig { mtu, .. } if v4 && *mtu > 0xffff => {
                Err(EncodeError::Value("an MTU of more than 16 bits in an ICMP message for IPv4"))
            }
            Self::Unreachable { what: Unreachable::Other(code), .. } => {
                let codes = if v4 { &CODES_V4[..] } else { &CODES_V6[..] };
                let named = codes.iter().any(|(_, known)| known == code);
                if named || (v4 && *code == v4::FRAGMENTATION_NEEDED) {
                    Err(EncodeError::Value("an ICMP code that has a named variant is given as a number"))
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    fn fixed(&self, v4: bool) -> Fixed {
        let fixed = |kind, code, word| Fixed { kind, code, word };
        let echo = |echo: &Echo| u32::from(echo.identifier) << 16 | u32::from(echo.sequence);
        match self {
            Self::Unreachable { what, .. } if v4 => fixed(v4::UNREACHABLE, what.code(&CODES_V4), 0),
            Self::Unreachable { what: Unreachable::Protocol, .. } => {
                fixed(v6::PARAMETER_PROBLEM, v6::UNKNOWN_NEXT_HEADER, v6::NEXT_HEADER_AT)
            }
            Self::Unreachable { what, .. } => fixed(v6::UNREACHABLE, what.code(&CODES_V6), 0),
            Self::PacketTooBig { mtu, .. } if v4 => fixed(v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED, *mtu),
            Self::PacketTooBig { mtu, .. } => fixed(v6::PACKET_TOO_BIG, 0, *mtu),
            Self::TimeExceeded { reassembly, .. } => {
                fixed(if v4 { v4::TIME_EXCEEDED } else { v6::TIME_EXCEEDED }, u8::from(*reassembly), 0)
            }
            Self::EchoRequest(of) => fixed(if v4 { v4::ECHO_REQUEST } else { v6::ECHO_REQUEST }, 0, echo(of)),
            Self::EchoReply(of) => fixed(if v4 { v4::ECHO_REPLY } else { v6::ECHO_REPLY }, 0, echo(of)),
        }
    }

    /// Appends the message with the right checksum.
    pub fn emit(&self, addresses: Addresses, out: &mut Vec<u8>) {
        let start = out.len();
        let v4 = addresses.source.is_ipv4();
        let Fixed { kind, code, word } = self.fixed(v4);
        out.extend_from_slice(&[kind, code, 0, 0]);
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(self.rest());
        let sum = empty_sum(addresses, self.wire_len()).bytes(&out[start..]).finish();
        out[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    }

    /// Reads a message that takes all of `bytes`.
    ///
    /// # Errors
    ///
    /// Truncated bytes, a wrong checksum, or an unsupported type.
    pub fn parse(bytes: &[u8], addresses: Addresses) -> Result<Self, ParseError> {
        let v4 = addresses.source.is_ipv4();
        let header = if v4 { Header::Icmpv4 } else { Header::Icmpv6 };
        let mut reader = Reader::new(header, bytes);
        let [kind, code] = reader.array()?;
        let found = reader.u16()?;
        let word = reader.u32()?;
        let sum = empty_sum(addresses, bytes.len() as u32);
        if sum.bytes(bytes).finish() != 0 {
            let computed = sum.bytes(&bytes[..2]).bytes(&bytes[4..]).finish();
            let problem = Problem::Checksum { found: found.into(), computed: computed.into() };
            return Err(ParseError::new(header, 2, problem));
        }
        let fixed = Fixed { kind, code, word };
        let message = if v4 { fixed.read_v4(reader.rest()) } else { fixed.read_v6(reader.rest()) };
        message.ok_or(ParseError::new(header, 0, Problem::Protocol(kind)))
    }
}

impl Fixed {
    fn echo(&self, data: &[u8]) -> Echo {
        let (identifier, sequence) = ((self.word >> 16) as u16, self.word as u16);
        Echo { identifier, sequence, data: data.to_vec() }
    }

    fn read_v4(&self, rest: &[u8]) -> Option<Message> {
        let quote = || Quote::from_bytes(rest);
        Some(match (self.kind, self.code) {
            (v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED) => {
                Message::PacketTooBig { mtu: self.word & 0xffff, quote: quote() }
            }
            (v4::UNREACHABLE, code) => {
                Message::Unreachable { what: Unreachable::from_code(code, &CODES_V4), quote: quote() }
            }
            (v4::TIME_EXCEEDED, code) => Message::TimeExceeded { reassembly: code == 1, quote: quote() },
            (v4::ECHO_REQUEST, _) => Message::EchoRequest(self.echo(rest)),
            (v4::ECHO_REPLY, _) => Message::EchoReply(self.echo(rest)),
            _ => return None,
        })
    }

    fn read_v6(&self, rest: &[u8]) -> Option<Message> {
        let quote = || Quote::from_bytes(rest);
        Some(match (self.kind, self.code) {
            (v6::UNREACHABLE, code) => {
                Message::Unreachable { what: Unreachable::from_code(code, &CODES_V6), quote: quote() }
            }
            (v6::PARAMETER_PROBLEM, v6::UNKNOWN_NEXT_HEADER) => {
                Message::Unreachable { what: Unreachable::Protocol, quote: quote() }
            }
            (v6::PACKET_TOO_BIG, _) => Message::PacketTooBig { mtu: self.word, quote: quote() },
            (v6::TIME_EXCEEDED, code) => Message::TimeExceeded { reassembly: code == 1, quote: quote() },
            (v6::ECHO_REQUEST, _) => Message::EchoRequest(self.echo(rest)),
            (v6::ECHO_REPLY, _) => Message::EchoReply(self.echo(rest)),
            _ => return None,
        })
    }
}

/// The checksum before the message itself: with IPv6 it contains a pseudo-header.
fn empty_sum(addresses: Addresses, len: u32) -> Checksum {
    if addresses.source.is_ipv4() { Checksum::new() } else { addresses.pseudo_header(protocol::ICMPV6, len) }
}
