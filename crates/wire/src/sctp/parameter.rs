//! Parameters of `INIT`, `INIT ACK`, `ASCONF` and `ASCONF ACK` (RFC 9260 §3.2.1, §3.3.2.1, §3.3.3.1; RFC 3758 §3.1;
//! RFC 5061 §4.2).

use super::{Action, Cause, cause, padded};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of a parameter's header, bytes: type, length.
pub const HEADER_LEN: u32 = 4;

/// Parameter type numbers.
pub mod kind {
    /// Heartbeat information, in `HEARTBEAT` and `HEARTBEAT ACK` alone.
    pub const HEARTBEAT_INFO: u16 = 1;
    /// IPv4 address.
    pub const IPV4: u16 = 5;
    /// IPv6 address.
    pub const IPV6: u16 = 6;
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
    /// Supported extensions.
    pub const SUPPORTED_EXTENSIONS: u16 = 0x8008;
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
    /// The state cookie of `INIT ACK`, opaque to all but the end that made it.
    StateCookie(Box<[u8]>),
    /// A whole parameter, header included and padding not, that the sender of `INIT ACK` did not recognise.
    Unrecognized(Box<[u8]>),
    /// Cookie preservative: the longer life that the sender of `INIT` suggests for its cookie, milliseconds.
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
    /// Chunk types beyond RFC 9260 that the sender understands (RFC 5061 §4.2.7), as in [`super::kind`].
    SupportedExtensions(Box<[u8]>),
    /// The sender understands `FORWARD TSN` (RFC 3758 §3.1).
    ForwardTsnSupported,
    /// Add an address to the association (RFC 5061 §4.2.1).
    AddAddress {
        /// Correlates the request with its answer.
        correlation: u32,
        /// The address; unspecified (all zero) stands for the packet's source address.
        address: IpAddr,
    },
    /// Delete an address from the association (RFC 5061 §4.2.2).
    DeleteAddress {
        /// Correlates the request with its answer.
        correlation: u32,
        /// The address; unspecified (all zero) stands for all but the packet's source address.
        address: IpAddr,
    },
    /// Asks the receiver to send to this address by preference (RFC 5061 §4.2.4).
    SetPrimary {
        /// Correlates the request with its answer; the sender's own in `INIT`.
        correlation: u32,
        /// The address; unspecified (all zero) stands for the packet's source address.
        address: IpAddr,
    },
    /// Answers a request with the reasons of its failure (RFC 5061 §4.2.3).
    ErrorCause {
        /// The correlation of the request.
        correlation: u32,
        /// Why it failed.
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
    /// Any other type, kept as it came; [`Action::of_parameter`] says what to do about it.
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

/// Length of an address parameter, header included.
pub(super) const fn address_length(address: &IpAddr) -> u32 {
    HEADER_LEN + if address.is_ipv4() { 4 } else { 16 }
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
            Self::SupportedExtensions(_) => kind::SUPPORTED_EXTENSIONS,
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

    /// What a receiver that does not know the parameter does about it (RFC 9260 §3.2.1).
    pub const fn action(&self) -> Action {
        Action::of_parameter(self.kind())
    }

    /// The parameter's length field: header and value in bytes, without the padding behind them.
    pub fn length(&self) -> u32 {
        HEADER_LEN
            + match self {
                Self::EcnCapable | Self::ForwardTsnSupported => 0,
                Self::Ipv4(_)
                | Self::CookiePreservative { .. }
                | Self::Success { .. }
                | Self::Adaptation { .. } => 4,
                Self::Ipv6(_) => 16,
                Self::SupportedAddressTypes(types) => 2 * types.len() as u32,
                Self::StateCookie(bytes)
                | Self::Unrecognized(bytes)
                | Self::HostName(bytes)
                | Self::SupportedExtensions(bytes)
                | Self::Unknown { value: bytes, .. } => bytes.len() as u32,
                Self::AddAddress { address, .. }
                | Self::DeleteAddress { address, .. }
                | Self::SetPrimary { address, .. } => 4 + address_length(address),
                Self::ErrorCause { causes, .. } => 4 + cause::list_length(causes),
            }
    }
}

/// Bytes that a list of parameters takes, without the padding of the last: chunk lengths leave that out
/// (RFC 9260 §3.2).
pub(super) fn list_length(parameters: &[Parameter]) -> u32 {
    let Some((last, rest)) = parameters.split_last() else { return 0 };
    rest.iter().map(|parameter| padded(parameter.length())).sum::<u32>() + last.length()
}
