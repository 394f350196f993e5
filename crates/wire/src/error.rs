//! Errors of parsing and of encoding.

use core::fmt;

/// An error of parsing: the header, the offset of the byte, and the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseError {
    /// The header, option or chunk being read.
    pub header: Header,
    /// Offset of the invalid field from the start of the bytes that were passed to the called parser.
    pub at: usize,
    /// The problem at that byte.
    pub problem: Problem,
}

/// The header, option or chunk in which an error was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Header {
    /// The version nibble, before the version of IP is known.
    Ip,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// ICMP for IPv4.
    Icmpv4,
    /// `ICMPv6`.
    Icmpv6,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// The TCP option of this kind.
    TcpOption(u8),
    /// The Multipath TCP option of this subtype.
    Mptcp(u8),
    /// GRE.
    Gre,
    /// SCTP's common header.
    Sctp,
    /// The SCTP chunk of this type.
    SctpChunk(u8),
    /// The SCTP parameter or error cause of this type.
    SctpParameter(u16),
}

/// The problem with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end before the end of the field.
    Truncated {
        /// Bytes that the field or header needs from its start.
        needed: usize,
        /// Bytes that are available.
        available: usize,
    },
    /// A length field with an impossible value.
    Length(usize),
    /// An unknown version.
    Version(u8),
    /// An upper-layer protocol, IPv6 extension header or type that this crate does not support.
    Protocol(u8),
    /// A checksum that does not match.
    Checksum {
        /// Value in the header.
        found: u32,
        /// Value computed over the bytes.
        computed: u32,
    },
    /// A fragment: this crate does not reassemble.
    Fragment,
    /// A field whose value is forbidden.
    Value(u64),
}

impl ParseError {
    /// A new error.
    pub const fn new(header: Header, at: usize, problem: Problem) -> Self {
        Self { header, at, problem }
    }

    /// The error with its offset relative to an enclosing header, which starts `by` bytes earlier.
    #[must_use]
    pub const fn shifted(self, by: usize) -> Self {
        Self { at: self.at + by, ..self }
    }
}

/// A value that has no encoding: a bug in the code that made the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// Source and destination are of different families.
    MixedFamilies,
    /// The packet is longer than a length field can express, bytes.
    PacketTooLong(u32),
    /// TCP options that need more than 40 bytes.
    OptionsTooLong(u32),
    /// A field or combination of fields that has no encoding.
    Value(&'static str),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MixedFamilies => f.write_str("source and destination are of different address families"),
            Self::PacketTooLong(len) => write!(f, "a packet of {len} bytes cannot be expressed"),
            Self::OptionsTooLong(len) => write!(f, "TCP options need {len} bytes, there are 40"),
            Self::Value(what) => f.write_str(what),
        }
    }
}

impl core::error::Error for EncodeError {}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip => f.write_str("IP header"),
            Self::Ipv4 => f.write_str("IPv4 header"),
            Self::Ipv6 => f.write_str("IPv6 header"),
            Self::Icmpv4 => f.write_str("ICMP header"),
            Self::Icmpv6 => f.write_str("ICMPv6 header"),
            Self::Udp => f.write_str("UDP header"),
            Self::Tcp => f.write_str("TCP header"),
            Self::TcpOption(kind) => write!(f, "TCP option {kind}"),
            Self::Mptcp(subtype) => write!(f, "MPTCP option of subtype {subtype}"),
            Self::Gre => f.write_str("GRE header"),
            Self::Sctp => f.write_str("SCTP header"),
            Self::SctpChunk(kind) => write!(f, "SCTP chunk {kind}"),
            Self::SctpParameter(kind) => write!(f, "SCTP parameter or cause {kind}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, available } => {
                write!(f, "{needed} bytes needed, {available} available")
            }
            Self::Length(len) => write!(f, "impossible length {len}"),
            Self::Version(version) => write!(f, "unknown version {version}"),
            Self::Protocol(protocol) => write!(f, "protocol {protocol} is not supported"),
            Self::Checksum { found, computed } => {
                write!(f, "checksum is {found:#06x} but should be {computed:#06x}")
            }
            Self::Fragment => f.write_str("fragments are not supported"),
            Self::Value(value) => write!(f, "forbidden value {value}"),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.header, self.at, self.problem)
    }
}

impl core::error::Error for ParseError {}
