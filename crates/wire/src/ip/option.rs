//! Options of IP headers that hosts and routers here use. A packet has at most one of them; other options are dropped on
//! reading.

use super::network_option::NetworkOption;
use super::source_route::SourceRoute;
use crate::error::EncodeError;
use core::net::IpAddr;

/// An option of an IP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpOption {
    /// Network control.
    NetworkControl(NetworkOption),
    /// A loose source route.
    SourceRoute(SourceRoute),
}

impl IpOption {
    /// Bytes that the option takes in an IP header, padding included.
    pub fn wire_len(&self, is_ipv4: bool) -> u32 {
        match self {
            Self::NetworkControl(option) => option.wire_len(is_ipv4),
            Self::SourceRoute(route) => route.wire_len(),
        }
    }

    /// The destination of a packet whose header has the destination `header`.
    pub(crate) fn destination(&self, header: IpAddr) -> IpAddr {
        match (self, header) {
            (Self::SourceRoute(route), IpAddr::V4(header)) => route.destination(header).into(),
            _ => header,
        }
    }

    /// Checks that the option has an encoding.
    pub(crate) fn validate(&self, is_ipv4: bool) -> Result<(), EncodeError> {
        match self {
            Self::NetworkControl(option) => option.validate(is_ipv4),
            Self::SourceRoute(_) if is_ipv4 => Ok(()),
            Self::SourceRoute(_) => Err(EncodeError::Value("a source route is an option of IPv4")),
        }
    }

    /// Appends the options of an IPv4 header.
    pub(crate) fn emit_ipv4(&self, out: &mut Vec<u8>) {
        match self {
            Self::NetworkControl(option) => option.emit_ipv4(out),
            Self::SourceRoute(route) => route.emit(out),
        }
    }

    /// Appends a hop-by-hop options header, before a header of the type `next`.
    ///
    /// # Panics
    ///
    /// If the option has no form in IPv6.
    pub(crate) fn emit_ipv6(&self, next: u8, out: &mut Vec<u8>) {
        match self {
            Self::NetworkControl(option) => option.emit_ipv6(next, out),
            Self::SourceRoute(_) => panic!("a source route is an option of IPv4"),
        }
    }

    /// The option among those of an IPv4 header; `None` if there is none. A source route precedes network control,
    /// because the transport's checksum depends on it.
    pub(crate) fn find_ipv4(options: &[u8]) -> Option<Self> {
        let route = SourceRoute::find(options).map(Self::SourceRoute);
        route.or_else(|| NetworkOption::find(true, options).map(Self::NetworkControl))
    }

    /// The option among those of a hop-by-hop options header.
    pub(crate) fn find_ipv6(options: &[u8]) -> Option<Self> {
        NetworkOption::find(false, options).map(Self::NetworkControl)
    }
}
