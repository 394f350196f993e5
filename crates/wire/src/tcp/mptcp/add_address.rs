//! `ADD_ADDR` (RFC 8684 §3.4.1). Family, port and HMAC follow from the option's length.
//!
//! ```text
//! +---------------+---------------+-------+-----+-+---------------+
//! |     Kind      |    Length     |Subtype|     |E|   Address ID  |
//! +---------------+---------------+-------+-----+-+---------------+
//! | Address (4 or 16)                                             |
//! | Port (2, optional)                                            |
//! | Truncated HMAC (8, unless E, the echo)                        |
//! +---------------------------------------------------------------+
//! ```

use super::{head, subtype, wrong_length};
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ECHO: u8 = 0x01;

/// `ADD_ADDR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddAddress {
    /// Identifier of the address.
    pub address_id: u8,
    /// The address.
    pub address: IpAddr,
    /// Port of the address; `None` if it is the connection's port.
    pub port: Option<u16>,
    /// Rightmost 64 bits of the HMAC; `None` marks the echo.
    pub hmac: Option<u64>,
}

impl AddAddress {
    /// Length of the option, bytes: 8 to 30.
    pub const fn wire_len(&self) -> u32 {
        let address = match self.address {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 16,
        };
        4 + address + 2 * self.port.is_some() as u32 + 8 * self.hmac.is_some() as u32
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let echo = u8::from(self.hmac.is_none()) * ECHO;
        out.extend_from_slice(&head(self.wire_len(), subtype::ADD_ADDRESS, echo));
        out.push(self.address_id);
        match self.address {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
        if let Some(port) = self.port {
            out.extend_from_slice(&port.to_be_bytes());
        }
        if let Some(hmac) = self.hmac {
            out.extend_from_slice(&hmac.to_be_bytes());
        }
    }

    pub(super) fn parse(option: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::Mptcp(subtype::ADD_ADDRESS), option);
        let [_, _, third, address_id] = reader.array()?;
        let echo = third & ECHO != 0;
        let (v6, port) = match (option.len(), echo) {
            (8, true) | (16, false) => (false, false),
            (10, true) | (18, false) => (false, true),
            (20, true) | (28, false) => (true, false),
            (22, true) | (30, false) => (true, true),
            _ => return Err(wrong_length(subtype::ADD_ADDRESS, option)),
        };
        let address = if v6 {
            IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?))
        } else {
            IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?))
        };
        let port = if port { Some(reader.u16()?) } else { None };
        let hmac = if echo { None } else { Some(reader.u64()?) };
        Ok(Self { address_id, address, port, hmac })
    }
}
