//! ICMP for IPv4 (RFC 792, RFC 1191) and IPv6 (RFC 4443): errors about a packet that was sent, and echoes.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |     Type      |     Code      |           Checksum            |
//! +---------------+---------------+-------------------------------+
//! |        MTU, identifier and sequence number, or unused         |
//! +---------------------------------------------------------------+
//! |        The packet that caused the error, or echo data         :
//! +---------------------------------------------------------------+
//! ```
//!
//! One value serves both families: type and code on the wire follow from the addresses of the packet that
//! carries it. With IPv6 the checksum covers a pseudo-header (RFC 4443 §2.3), with IPv4 it does not.

mod codec;
pub mod quote;
#[cfg(test)]
mod tests;

pub use quote::{Quote, Quoted};

use core::net::IpAddr;

/// An ICMP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A packet did not reach its destination.
    Unreachable {
        /// The object that is unreachable: network, host, protocol or port.
        what: Unreachable,
        /// The packet that did not arrive.
        quote: Quote,
    },
    /// A packet was longer than the next link carries and may not be fragmented (RFC 1191 §4, RFC 4443 §3.2).
    PacketTooBig {
        /// The largest IP packet that would have passed, bytes; 0 from a router older than RFC 1191.
        mtu: u32,
        /// The packet that was too long.
        quote: Quote,
    },
    /// The packet's hop limit reached zero, or its fragments did not arrive in time.
    TimeExceeded {
        /// True for fragments that did not arrive in time, false for the hop limit.
        reassembly: bool,
        /// The packet that was discarded.
        quote: Quote,
    },
    /// Requests an echo reply.
    EchoRequest(Echo),
    /// The answer, with the request's fields and data.
    EchoReply(Echo),
}

/// Identifier, sequence number and data of an echo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// Identifier of the sender.
    pub identifier: u16,
    /// Sequence number of the request.
    pub sequence: u16,
    /// Any bytes.
    pub data: Vec<u8>,
}

/// The reason why a packet did not reach its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The router has no route to the destination (IPv4: network unreachable).
    Network,
    /// The host does not answer on its link (IPv6: address unreachable).
    Host,
    /// The host does not support the protocol. IPv6 reports it with a parameter problem (RFC 4443 §3.4).
    Protocol,
    /// No endpoint uses the destination port.
    Port,
    /// An administrator's filter forbids the packet.
    Prohibited,
    /// Another code of the family.
    Other(u8),
}

impl Message {
    /// Length of the message without quote and data, bytes.
    pub const HEADER_LEN: u32 = 8;

    /// Exact length, bytes.
    pub fn wire_len(&self) -> u32 {
        Self::HEADER_LEN + self.rest().len() as u32
    }

    /// The packet that an error is about; `None` for echoes.
    pub const fn quote(&self) -> Option<&Quote> {
        match self {
            Self::Unreachable { quote, .. }
            | Self::PacketTooBig { quote, .. }
            | Self::TimeExceeded { quote, .. } => Some(quote),
            Self::EchoRequest(_) | Self::EchoReply(_) => None,
        }
    }

    /// The packet that an error message quotes, mutable; `None` for echo messages.
    pub const fn quote_mut(&mut self) -> Option<&mut Quote> {
        match self {
            Self::Unreachable { quote, .. }
            | Self::PacketTooBig { quote, .. }
            | Self::TimeExceeded { quote, .. } => Some(quote),
            Self::EchoRequest(_) | Self::EchoReply(_) => None,
        }
    }

    /// The bytes behind the header.
    fn rest(&self) -> &[u8] {
        match self {
            Self::Unreachable { quote, .. }
            | Self::PacketTooBig { quote, .. }
            | Self::TimeExceeded { quote, .. } => quote.bytes(),
            Self::EchoRequest(echo) | Self::EchoReply(echo) => &echo.data,
        }
    }
}

/// True if errors may be sent to this source address: it must belong to one host, and not be a broadcast, multicast
/// or unspecified address (RFC 1122 §3.2.2, RFC 4443 §2.4).
pub fn may_be_answered(source: IpAddr) -> bool {
    let broadcast = matches!(source, IpAddr::V4(address) if address.is_broadcast());
    !(broadcast || source.is_multicast() || source.is_unspecified())
}
