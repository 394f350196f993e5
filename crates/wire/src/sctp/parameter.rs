//! Parameters of `INIT`, `INIT ACK`, `ASCONF` and `ASCONF ACK` (RFC 9260 §3.2.1, §3.3.2.1, §3.3.3.1; RFC 3758 §3.1;
//! RFC 5061 §4.2).

use super::{Action, Cause, HmacId, address, cause, padded, tlv};
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of a parameter's header, bytes: type, length.
pub const HEADER_LEN: u32 = tlv::HEADER_LEN;

/// Parameter type numbers.
pub mod kind {
    /// Heartbeat information, in `HEARTBEAT` and `HEARTBEAT ACK` alone.
    pub const HEARTBEAT_INFO: u16 = 1;
    /// IPv4 address.
    pub use super::super::address::IPV4;
    /// IPv6 address.
    pub use super::super::address::IPV6;
    /// State cookie.
    pub const STATE_COOKIE: u16 = 7;
    /// Unrecognised parameter.
    pub const UNRECOGNIZED: u16 = 8;
    /// Cookie preservative.
    pub const COOKIE_PRESERVATIVE: u16 = 9;
    /// Host name address, withdrawn.
    pub const HOST_NAME: u16 = 11;
    /// Supported address types.
    pub const SUPPORTED_ADDRESS_TYPES: u16 = 12;
    /// ECN capable.
    pub const ECN_CAPABLE: u16 = 0x8000;
    /// Zero checksum acceptable.
    pub const ZERO_CHECKSUM: u16 = 0x8001;
    /// Random number of an endpoint that authenticates chunks.
    pub const RANDOM: u16 = 0x8002;
    /// Chunks that must be authenticated.
    pub const CHUNK_LIST: u16 = 0x8003;
    /// Supported algorithms of message authentication codes.
    pub const HMAC_ALGORITHMS: u16 = 0x8004;
    /// Supported extensions.
    pub const SUPPORTED_EXTENSIONS: u16 = 0x8008;
    /// Delayed acknowledgement for CMT. It has no registered number; its high bits let a receiver that
    /// does not support it skip it without a report.
    pub const DELAYED_ACK_FOR_CMT: u16 = 0xbdac;
    /// `FORWARD TSN` supported.
    pub const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
    /// Add IP address.
    pub const ADD_ADDRESS: u16 = 0xc001;
    /// Delete IP address.
    pub const DELETE_ADDRESS: u16 = 0xc002;
    /// Error cause indication.
    pub const ERROR_CAUSE: u16 = 0xc003;
    /// Set primary address.
    pub const SET_PRIMARY: u16 = 0xc004;
    /// Success indication.
    pub const SUCCESS: u16 = 0xc005;
    /// Adaptation layer indication.
    pub const ADAPTATION: u16 = 0xc006;
}

/// An address family that `Supported Address Types` lists: the type number of its address parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressType(pub u16);

impl AddressType {
    /// IPv4.
    pub const IPV4: Self = Self(kind::IPV4);
    /// IPv6.
    pub const IPV6: Self = Self(kind::IPV6);
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// An IPv4 address of the sender.
    Ipv4(Ipv4Addr),
    /// An IPv6 address of the sender.
    Ipv6(Ipv6Addr),
    /// The state cookie of `INIT ACK`, opaque to all hosts except the endpoint that created it.
    StateCookie(Box<[u8]>),
    /// A whole parameter, header included, that the sender of `INIT ACK` did not recognise;
    /// [`Parameter::to_bytes`] makes it.
    Unrecognized(Box<[u8]>),
    /// Cookie preservative: the longer cookie life that the sender of `INIT` suggests, milliseconds.
    CookiePreservative {
        /// Suggested increment, milliseconds.
        increment_ms: u32,
    },
    /// Host name address. RFC 9260 §3.3.2.1.4 withdrew it: the receiver answers with `ABORT` and
    /// [`Cause::UnresolvableAddress`].
    HostName(Box<[u8]>),
    /// Address families that the sender can use.
    SupportedAddressTypes(Box<[AddressType]>),
    /// The sender understands ECN (RFC 4960 appendix A).
    EcnCapable,
    /// The sender accepts packets without a checksum if this alternate method detects their errors (RFC 9653
    /// §4): 1 for SCTP over DTLS.
    ZeroChecksumAcceptable {
        /// Error Detection Method Identifier.
        method: u32,
    },
    /// Random number for the keys of authentication (RFC 4895 §3.1), 32 bytes.
    Random(Box<[u8]>),
    /// Chunk types that the sender accepts only with authentication (RFC 4895 §3.2), as in [`super::kind`].
    ChunkList(Box<[u8]>),
    /// Message authentication codes that the sender supports, in order of preference (RFC 4895 §3.3).
    HmacAlgorithms(Box<[HmacId]>),
    /// Chunk types beyond RFC 9260 that the sender understands (RFC 5061 §4.2.7), as in [`super::kind`].
    SupportedExtensions(Box<[u8]>),
    /// The sender counts missing reports by the number of packets that a `SACK` acknowledges
    /// ([`super::SackFlags`]). So the receiver may delay the acknowledgement of out-of-order data (DAC of Iyengar,
    /// Amer and Stewart 2006, which does not define the negotiation).
    DelayedAckForCmt,
    /// The sender understands `FORWARD TSN` (RFC 3758 §3.1).
    ForwardTsnSupported,
    /// Add an address to the association (RFC 5061 §4.2.1).
    AddAddress {
        /// Correlates the request with its answer.
        correlation: u32,
        /// The address; unspecified (all zero) means the packet's source address.
        address: IpAddr,
    },
    /// Delete an address from the association (RFC 5061 §4.2.2).
    DeleteAddress {
        /// Correlates the request with its answer.
        correlation: u32,
        /// The address; unspecified (all zero) means all addresses except the packet's source address.
        address: IpAddr,
    },
    /// Asks the receiver to send to this address by preference (RFC 5061 §4.2.4).
    SetPrimary {
        /// Correlates the request with its answer; in `INIT`, the sender's own number.
        correlation: u32,
        /// The address; unspecified (all zero) means the packet's source address.
        address: IpAddr,
    },
    /// Answers a request with the reasons of its failure (RFC 5061 §4.2.3).
    ErrorCause {
        /// The correlation of the request.
        correlation: u32,
        /// The reasons of the failure.
        causes: Vec<Cause>,
    },
    /// Answers a request that was carried out (RFC 5061 §4.2.5).
    Success {
        /// The correlation of the request.
        correlation: u32,
    },
    /// Adaptation layer indication (RFC 5061 §4.2.6), the upper layer's.
    Adaptation {
        /// Code point.
        code: u32,
    },
    /// Any other type, kept unchanged; [`Action::of_parameter`] returns its treatment.
    Unknown {
        /// Type number.
        kind: u16,
        /// Value, without header and padding.
        value: Box<[u8]>,
    },
}

impl From<IpAddr> for Parameter {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::Ipv4(address),
            IpAddr::V6(address) => Self::Ipv6(address),
        }
    }
}

impl Parameter {
    /// The parameter's type number, as in [`kind`].
    pub const fn kind(&self) -> u16 {
        match self {
            Self::Ipv4(_) => kind::IPV4,
            Self::Ipv6(_) => kind::IPV6,
            Self::StateCookie(_) => kind::STATE_COOKIE,
            Self::Unrecognized(_) => kind::UNRECOGNIZED,
            Self::CookiePreservative { .. } => kind::COOKIE_PRESERVATIVE,
            Self::HostName(_) => kind::HOST_NAME,
            Self::SupportedAddressTypes(_) => kind::SUPPORTED_ADDRESS_TYPES,
            Self::EcnCapable => kind::ECN_CAPABLE,
            Self::ZeroChecksumAcceptable { .. } => kind::ZERO_CHECKSUM,
            Self::Random(_) => kind::RANDOM,
            Self::ChunkList(_) => kind::CHUNK_LIST,
            Self::HmacAlgorithms(_) => kind::HMAC_ALGORITHMS,
            Self::SupportedExtensions(_) => kind::SUPPORTED_EXTENSIONS,
            Self::DelayedAckForCmt => kind::DELAYED_ACK_FOR_CMT,
            Self::ForwardTsnSupported => kind::FORWARD_TSN_SUPPORTED,
            Self::AddAddress { .. } => kind::ADD_ADDRESS,
            Self::DeleteAddress { .. } => kind::DELETE_ADDRESS,
            Self::SetPrimary { .. } => kind::SET_PRIMARY,
            Self::ErrorCause { .. } => kind::ERROR_CAUSE,
            Self::Success { .. } => kind::SUCCESS,
            Self::Adaptation { .. } => kind::ADAPTATION,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The address of an address parameter.
    pub const fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Ipv4(address) => Some(IpAddr::V4(*address)),
            Self::Ipv6(address) => Some(IpAddr::V6(*address)),
            _ => None,
        }
    }

    /// The treatment by a receiver that does not support the parameter (RFC 9260 §3.2.1).
    pub const fn action(&self) -> Action {
        Action::of_parameter(self.kind())
    }

    /// The parameter's length field: header and value in bytes, without the padding behind them.
    pub fn length(&self) -> u32 {
        HEADER_LEN
            + match self {
                Self::EcnCapable | Self::DelayedAckForCmt | Self::ForwardTsnSupported => 0,
                Self::Ipv4(_)
                | Self::CookiePreservative { .. }
                | Self::ZeroChecksumAcceptable { .. }
                | Self::Success { .. }
                | Self::Adaptation { .. } => 4,
                Self::Ipv6(_) => 16,
                Self::SupportedAddressTypes(types) => 2 * types.len() as u32,
                Self::HmacAlgorithms(algorithms) => 2 * algorithms.len() as u32,
                Self::StateCookie(bytes)
                | Self::Unrecognized(bytes)
                | Self::HostName(bytes)
                | Self::Random(bytes)
                | Self::ChunkList(bytes)
                | Self::SupportedExtensions(bytes)
                | Self::Unknown { value: bytes, .. } => bytes.len() as u32,
                Self::AddAddress { address, .. }
                | Self::DeleteAddress { address, .. }
                | Self::SetPrimary { address, .. } => 4 + address::length(address),
                Self::ErrorCause { causes, .. } => 4 + cause::list_length(causes),
            }
    }
}

/// Bytes that a list of parameters takes, without the padding of the last: chunk lengths exclude it (RFC 9260
/// §3.2).
pub(super) fn list_length(parameters: &[Parameter]) -> u32 {
    tlv::list_length(parameters.iter().map(Parameter::length))
}

/// A list of parameters as bytes, each but the last padded, as [`Cause::UnrecognizedParameters`] contains it.
pub fn to_bytes(parameters: &[Parameter]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(list_length(parameters) as usize);
    emit_list(parameters, &mut out);
    out.into_boxed_slice()
}

pub(super) fn emit_list(parameters: &[Parameter], out: &mut Vec<u8>) {
    tlv::emit_list(parameters, out, Parameter::emit);
}

/// Reads parameters up to the end of `reader`, which reads `value`.
pub(super) fn parse_list(value: &[u8], reader: &Reader<'_>) -> Result<Vec<Parameter>, ParseError> {
    let rest = reader.rest();
    tlv::parse_list(rest, Parameter::parse).map_err(|error| error.shifted(value.len() - rest.len()))
}

impl Parameter {
    /// The parameter as bytes, as [`Parameter::Unrecognized`] contains it. It is padded: RFC 9260 §3.3.3.1
    /// leaves this open, Linux does so, and tshark reports one without padding as malformed.
    pub fn to_bytes(&self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(padded(self.length()) as usize);
        self.emit(&mut out);
        tlv::pad(&mut out, 0);
        out.into_boxed_slice()
    }

    /// Appends the parameter without padding.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        tlv::emit_header(self.kind(), self.length(), out);
        match self {
            Self::EcnCapable | Self::DelayedAckForCmt | Self::ForwardTsnSupported => {}
            Self::Ipv4(address) => out.extend_from_slice(&address.octets()),
            Self::Ipv6(address) => out.extend_from_slice(&address.octets()),
            Self::CookiePreservative { increment_ms: number }
            | Self::ZeroChecksumAcceptable { method: number }
            | Self::Success { correlation: number }
            | Self::Adaptation { code: number } => out.extend_from_slice(&number.to_be_bytes()),
            Self::SupportedAddressTypes(types) => {
                out.extend(types.iter().flat_map(|address_type| address_type.0.to_be_bytes()));
            }
            Self::HmacAlgorithms(algorithms) => {
                out.extend(algorithms.iter().flat_map(|algorithm| algorithm.0.to_be_bytes()));
            }
            Self::StateCookie(bytes)
            | Self::Unrecognized(bytes)
            | Self::HostName(bytes)
            | Self::Random(bytes)
            | Self::ChunkList(bytes)
            | Self::SupportedExtensions(bytes)
            | Self::Unknown { value: bytes, .. } => out.extend_from_slice(bytes),
            Self::AddAddress { correlation, address }
            | Self::DeleteAddress { correlation, address }
            | Self::SetPrimary { correlation, address } => {
                out.extend_from_slice(&correlation.to_be_bytes());
                address::emit(*address, out);
            }
            Self::ErrorCause { correlation, causes } => {
                out.extend_from_slice(&correlation.to_be_bytes());
                cause::emit_list(causes, out);
            }
        }
    }

    /// Reads the value of a parameter.
    pub(super) fn parse(kind: u16, value: &[u8]) -> Result<Self, ParseError> {
        let header = Header::SctpParameter(kind);
        let number = || tlv::fixed_value(header, value).map(u32::from_be_bytes);
        // Reads a request: a correlation and one address.
        let request = || {
            let mut reader = Reader::new(header, value);
            let correlation = reader.u32()?;
            let addresses = address::parse_list(reader.rest()).map_err(|error| error.shifted(4))?;
            match addresses[..] {
                [address] => Ok((correlation, address)),
                _ => Err(tlv::wrong_length(header, value)),
            }
        };
        Ok(match kind {
            kind::IPV4 => Self::Ipv4(tlv::fixed_value(header, value)?.into()),
            kind::IPV6 => Self::Ipv6(tlv::fixed_value::<16>(header, value)?.into()),
            kind::STATE_COOKIE => Self::StateCookie(value.into()),
            kind::UNRECOGNIZED => Self::Unrecognized(value.into()),
            kind::COOKIE_PRESERVATIVE => Self::CookiePreservative { increment_ms: number()? },
            kind::HOST_NAME => Self::HostName(value.into()),
            kind::SUPPORTED_ADDRESS_TYPES => {
                let (types, []) = value.as_chunks() else { return Err(tlv::wrong_length(header, value)) };
                Self::SupportedAddressTypes(
                    types.iter().map(|&n| AddressType(u16::from_be_bytes(n))).collect(),
                )
            }
            kind::ECN_CAPABLE => tlv::fixed_value::<0>(header, value).map(|_| Self::EcnCapable)?,
            kind::ZERO_CHECKSUM => Self::ZeroChecksumAcceptable { method: number()? },
            kind::DELAYED_ACK_FOR_CMT => {
                tlv::fixed_value::<0>(header, value).map(|_| Self::DelayedAckForCmt)?
            }
            kind::RANDOM => Self::Random(value.into()),
            kind::CHUNK_LIST => Self::ChunkList(value.into()),
            kind::HMAC_ALGORITHMS => {
                let (ids, []) = value.as_chunks() else { return Err(tlv::wrong_length(header, value)) };
                Self::HmacAlgorithms(ids.iter().map(|&n| HmacId(u16::from_be_bytes(n))).collect())
            }
            kind::SUPPORTED_EXTENSIONS => Self::SupportedExtensions(value.into()),
            kind::FORWARD_TSN_SUPPORTED => {
                tlv::fixed_value::<0>(header, value).map(|_| Self::ForwardTsnSupported)?
            }
            kind::ADD_ADDRESS => {
                request().map(|(correlation, address)| Self::AddAddress { correlation, address })?
            }
            kind::DELETE_ADDRESS => {
                request().map(|(correlation, address)| Self::DeleteAddress { correlation, address })?
            }
            kind::SET_PRIMARY => {
                request().map(|(correlation, address)| Self::SetPrimary { correlation, address })?
            }
            kind::ERROR_CAUSE => {
                let mut reader = Reader::new(header, value);
                let correlation = reader.u32()?;
                let causes = cause::parse_list(reader.rest()).map_err(|error| error.shifted(4))?;
                Self::ErrorCause { correlation, causes }
            }
            kind::SUCCESS => Self::Success { correlation: number()? },
            kind::ADAPTATION => Self::Adaptation { code: number()? },
            _ => Self::Unknown { kind, value: value.into() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Problem;
    use crate::sctp::testing::hex;

    /// Checks encoding and parsing of one parameter.
    fn check(parameter: &Parameter, bytes: &str) {
        let bytes = hex(bytes);
        assert_eq!(parameter.length() as usize, bytes.len());
        let mut out = Vec::new();
        parameter.emit(&mut out);
        assert_eq!(out, bytes, "{parameter:?}");
        let read = tlv::parse_list(&bytes, Parameter::parse).unwrap();
        assert_eq!(read, std::slice::from_ref(parameter));
        for cut in 1..bytes.len() {
            assert!(tlv::parse_list(&bytes[..cut], Parameter::parse).is_err(), "{parameter:?} cut at {cut}");
        }
    }

    #[test]
    fn encodings_equal_vectors() {
        check(&Parameter::Ipv4(Ipv4Addr::new(192, 0, 2, 1)), "0005 0008 c0000201");
        check(
            &Parameter::Ipv6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
            "0006 0014 20010db8000000000000000000000001",
        );
        check(&Parameter::StateCookie(Box::new([1, 2, 3])), "0007 0007 010203");
        check(&Parameter::CookiePreservative { increment_ms: 1000 }, "0009 0008 000003e8");
        check(&Parameter::HostName(b"h\0".as_slice().into()), "000b 0006 6800");
        check(
            &Parameter::SupportedAddressTypes([AddressType::IPV4, AddressType::IPV6].into()),
            "000c 0008 0005 0006",
        );
        check(&Parameter::EcnCapable, "8000 0004");
        check(&Parameter::SupportedExtensions(Box::new([0x10, 0x40, 0xc1])), "8008 0007 1040c1");
        check(&Parameter::ForwardTsnSupported, "c000 0004");
        check(&Parameter::Adaptation { code: 6 }, "c006 0008 00000006");
        check(&Parameter::ZeroChecksumAcceptable { method: 1 }, "8001 0008 00000001");
        check(&Parameter::Random(Box::new([9; 5])), "8002 0009 0909090909");
        check(&Parameter::ChunkList(Box::new([0xc1, 0x80])), "8003 0006 c180");
        check(&Parameter::HmacAlgorithms(Box::new([HmacId::SHA256, HmacId::SHA1])), "8004 0008 0003 0001");
        check(&Parameter::Unknown { kind: 0x8006, value: Box::new([9; 5]) }, "8006 0009 0909090909");
    }

    #[test]
    fn unrecognised_parameter_is_returned_whole() {
        let unknown = Parameter::Unknown { kind: 0xc123, value: Box::new([7]) };
        assert_eq!(unknown.action(), Action::SkipAndReport);
        check(&Parameter::Unrecognized(unknown.to_bytes()), "0008 000c c123 0005 07000000");
        let list = [unknown.clone(), Parameter::EcnCapable, unknown];
        assert_eq!(to_bytes(&list)[..], hex("c123 0005 07000000 8000 0004 c123 0005 07"));
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for bytes in [
            "0005 0007 c00002 00",
            "0005 0009 c000020100 000000",
            "0006 0008 c0000201",
            "0009 0004",
            "000c 0005 00 000000",
            "8000 0005 00 000000",
            "c000 0008 00000000",
            "c001 0008 00000001",
            "c001 0018 00000001 0005 0008 0a000001 0005 0008 0a000002",
            "c001 000c 00000001 8000 0004",
            "c001 000c 00000001 0005 0008",
            "c003 0006 0000 0000",
            "c005 0004",
            "c006 000c 00000000 00000000",
        ] {
            assert!(tlv::parse_list(&hex(bytes), Parameter::parse).is_err(), "{bytes}");
        }
    }

    #[test]
    fn errors_name_the_parameter_and_the_byte() {
        let error = tlv::parse_list(&hex("8000 0004 0005 0007 c00002 00"), Parameter::parse).unwrap_err();
        assert_eq!(error, ParseError::new(Header::SctpParameter(5), 8, Problem::Length(7)));
        let error = tlv::parse_list(&hex("8000 0004 0005 0003"), Parameter::parse).unwrap_err();
        assert_eq!(error, ParseError::new(Header::SctpParameter(5), 6, Problem::Length(3)));
    }
}
