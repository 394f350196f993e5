//! Multipath TCP options (RFC 8684 §3). `Dss` is on nearly every segment of a subflow; the others are rare.
//!
//! Every option begins with kind 30, its length in bytes, and a subtype in the high four bits of the third byte.
//! Bits that the RFC reserves are written as zero and ignored on reading, as it requires; subtypes that it does not
//! define are skipped.

mod add_address;
mod capable;
mod dss;
mod join;
mod key;
#[cfg(test)]
mod proofs;
mod remove_address;
mod signals;
#[cfg(test)]
mod tests;

pub use add_address::AddAddress;
pub use capable::{Capable, CapableData};
pub use dss::{DataChecksum, DataNumber, Dss, Mapping, dss_checksum, dss_pseudo_header};
pub use join::Join;
pub use key::Key;

use crate::error::{EncodeError, Header, ParseError, Problem};
use crate::seldom::HasDefault;

/// The kind of every Multipath TCP option (RFC 8684 §8.1).
pub const KIND: u8 = 30;

/// Subtypes (RFC 8684 §8.2).
pub mod subtype {
    /// `MP_CAPABLE`.
    pub const CAPABLE: u8 = 0;
    /// `MP_JOIN`.
    pub const JOIN: u8 = 1;
    /// `DSS`.
    pub const DSS: u8 = 2;
    /// `ADD_ADDR`.
    pub const ADD_ADDRESS: u8 = 3;
    /// `REMOVE_ADDR`.
    pub const REMOVE_ADDRESS: u8 = 4;
    /// `MP_PRIO`.
    pub const PRIORITY: u8 = 5;
    /// `MP_FAIL`.
    pub const FAIL: u8 = 6;
    /// `MP_FASTCLOSE`.
    pub const FAST_CLOSE: u8 = 7;
    /// `MP_TCPRST`.
    pub const RESET: u8 = 8;
}

/// The Multipath TCP options of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Data sequence signal.
    pub dss: Option<Dss>,
    /// Every other Multipath TCP option, in order.
    pub others: Vec<Control>,
}

impl HasDefault for Options {
    fn shared_default() -> &'static Self {
        static NONE: Options = Options { dss: None, others: Vec::new() };
        &NONE
    }
}

impl Options {
    /// True if there are no options.
    pub const fn is_empty(&self) -> bool {
        self.dss.is_none() && self.others.is_empty()
    }

    /// Length with every option padded to whole words, bytes.
    pub(super) fn aligned_len(&self) -> u32 {
        let dss = self.dss.map_or(0, |dss| dss.wire_len().next_multiple_of(4));
        if self.others.is_empty() {
            return dss;
        }
        dss + self.others.iter().map(|option| option.wire_len().next_multiple_of(4)).sum::<u32>()
    }

    /// Length without padding, bytes.
    pub(super) fn dense_len(&self) -> u32 {
        self.dss.map_or(0, |dss| dss.wire_len()) + self.others.iter().map(Control::wire_len).sum::<u32>()
    }

    /// Checks that the values have an encoding.
    pub(super) fn validate(&self) -> Result<(), EncodeError> {
        self.others.iter().try_for_each(Control::validate)
    }

    /// The checksum that is computed from the segment's payload later, if there is one, and the subtype of
    /// its option.
    pub(super) fn pending_checksum(&mut self) -> Option<(u8, &mut DataChecksum)> {
        let dss = self.dss.as_mut().and_then(|dss| dss.mapping.as_mut()?.checksum.as_mut());
        let capable = self.others.iter_mut().find_map(|option| match option {
            Control::Capable(Capable { data: Some(data), .. }) => data.checksum.as_mut(),
            _ => None,
        });
        let all = [(subtype::DSS, dss), (subtype::CAPABLE, capable)];
        all.into_iter().find_map(|(subtype, found)| {
            Some((subtype, found.filter(|checksum| matches!(checksum, DataChecksum::Pending(_)))?))
        })
    }

    /// Appends all options, calling `pad` behind each.
    pub(super) fn emit(&self, out: &mut Vec<u8>, pad: impl Fn(&mut Vec<u8>)) {
        if let Some(dss) = &self.dss {
            dss.emit(out);
            pad(out);
        }
        for option in &self.others {
            option.emit(out);
            pad(out);
        }
    }

    /// Reads one option of kind 30, header included. A second DSS replaces the first.
    pub(super) fn parse_option(&mut self, option: &[u8]) -> Result<(), ParseError> {
        let Some(&[_, _, third]) = option.first_chunk() else {
            return Err(ParseError::new(Header::TcpOption(KIND), 1, Problem::Length(option.len())));
        };
        let control = match third >> 4 {
            subtype::DSS => {
                self.dss = Some(Dss::parse(option)?);
                return Ok(());
            }
            subtype::CAPABLE => match Capable::parse(option)? {
                Some(capable) => Control::Capable(capable),
                None => return Ok(()),
            },
            subtype::JOIN => Control::Join(Join::parse(option)?),
            subtype::ADD_ADDRESS => Control::AddAddress(AddAddress::parse(option)?),
            subtype::REMOVE_ADDRESS => remove_address::parse(option)?,
            subtype::PRIORITY => signals::parse_priority(option)?,
            subtype::FAIL => signals::parse_fail(option)?,
            subtype::FAST_CLOSE => signals::parse_fast_close(option)?,
            subtype::RESET => signals::parse_reset(option)?,
            _ => return Ok(()),
        };
        self.others.push(control);
        Ok(())
    }
}

/// Multipath TCP options other than DSS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// `MP_CAPABLE` (RFC 8684 §3.1).
    Capable(Capable),
    /// `MP_JOIN` (RFC 8684 §3.2).
    Join(Join),
    /// `ADD_ADDR` (RFC 8684 §3.4.1).
    AddAddress(AddAddress),
    /// `REMOVE_ADDR` (RFC 8684 §3.4.2): the address identifiers, at least one.
    RemoveAddress(Vec<u8>),
    /// `MP_PRIO` (RFC 8684 §3.3.8).
    Priority {
        /// The subflow becomes a backup (true) or regular (false).
        backup: bool,
    },
    /// `MP_FAIL` (RFC 8684 §3.7): the data sequence number of the failed mapping.
    Fail {
        /// Data sequence number at which the failure was found.
        dsn: u64,
    },
    /// `MP_FASTCLOSE` (RFC 8684 §3.5): the receiver's key.
    FastClose {
        /// Key of the host that receives the option.
        receiver_key: u64,
    },
    /// `MP_TCPRST` (RFC 8684 §3.6).
    Reset {
        /// The U, V, W and T bits, T lowest.
        flags: u8,
        /// Reason code.
        reason: u8,
    },
}

impl Control {
    /// Length of the option, bytes, without padding.
    pub const fn wire_len(&self) -> u32 {
        match self {
            Self::Capable(capable) => capable.wire_len(),
            Self::Join(join) => join.wire_len(),
            Self::AddAddress(add) => add.wire_len(),
            Self::RemoveAddress(ids) => 3 + ids.len() as u32,
            Self::Priority { .. } => 3,
            Self::Fail { .. } | Self::FastClose { .. } => 12,
            Self::Reset { .. } => 4,
        }
    }

    fn validate(&self) -> Result<(), EncodeError> {
        match self {
            Self::Capable(capable) => capable.validate(),
            Self::RemoveAddress(ids) if ids.is_empty() => {
                Err(EncodeError::Value("REMOVE_ADDR without an address identifier"))
            }
            Self::Reset { flags, .. } if *flags > 0x0f => {
                Err(EncodeError::Value("MP_TCPRST with more than four flags"))
            }
            _ => Ok(()),
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Capable(capable) => capable.emit(out),
            Self::Join(join) => join.emit(out),
            Self::AddAddress(add) => add.emit(out),
            Self::RemoveAddress(ids) => remove_address::emit(ids, out),
            Self::Priority { backup } => signals::emit_priority(*backup, out),
            Self::Fail { dsn } => signals::emit_fail(*dsn, out),
            Self::FastClose { receiver_key } => signals::emit_fast_close(*receiver_key, out),
            Self::Reset { flags, reason } => signals::emit_reset(*flags, *reason, out),
        }
    }
}

/// The first three bytes of an option; `low` contains the four bits behind the subtype.
fn head(len: u32, subtype: u8, low: u8) -> [u8; 3] {
    [KIND, len as u8, subtype << 4 | low & 0x0f]
}

/// The error for an option whose length matches none of its forms.
fn wrong_length(subtype: u8, option: &[u8]) -> ParseError {
    ParseError::new(Header::Mptcp(subtype), 1, Problem::Length(option.len()))
}
