//! `MP_JOIN` (RFC 8684 §3.2). Its three forms differ in length.
//!
//! ```text
//! +---------------+---------------+-------+-----+-+---------------+
//! |     Kind      |    Length     |Subtype|     |B|   Address ID  |
//! +---------------+---------------+-------+-----+-+---------------+
//! SYN, 12 bytes:      token (4), nonce (4)
//! SYN/ACK, 16 bytes:  truncated HMAC (8), nonce (4)
//! ACK, 24 bytes:      HMAC (20); B and address ID are reserved
//! ```

use super::{head, subtype, wrong_length};
use crate::bytes::Reader;
use crate::error::{Header, ParseError};

const BACKUP: u8 = 0x01;

/// `MP_JOIN` in its three forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The form on a SYN.
    Syn {
        /// Use this subflow as a backup.
        backup: bool,
        /// Identifier of the sender's address.
        address_id: u8,
        /// Token of the receiver.
        token: u32,
        /// Nonce.
        nonce: u32,
    },
    /// The form on a SYN/ACK.
    SynAck {
        /// Use this subflow as a backup.
        backup: bool,
        /// Identifier of the sender's address.
        address_id: u8,
        /// Leftmost 64 bits of the HMAC.
        hmac: u64,
        /// Nonce.
        nonce: u32,
    },
    /// The form on the third segment.
    Ack {
        /// Leftmost 160 bits of the HMAC.
        hmac: [u8; 20],
    },
}

impl Join {
    /// Length of the option, bytes: 12, 16 or 24.
    pub const fn wire_len(&self) -> u32 {
        match self {
            Self::Syn { .. } => 12,
            Self::SynAck { .. } => 16,
            Self::Ack { .. } => 24,
        }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let head = |backup: bool| head(self.wire_len(), subtype::JOIN, u8::from(backup) * BACKUP);
        match *self {
            Self::Syn { backup, address_id, token, nonce } => {
                out.extend_from_slice(&head(backup));
                out.push(address_id);
                out.extend_from_slice(&token.to_be_bytes());
                out.extend_from_slice(&nonce.to_be_bytes());
            }
            Self::SynAck { backup, address_id, hmac, nonce } => {
                out.extend_from_slice(&head(backup));
                out.push(address_id);
                out.extend_from_slice(&hmac.to_be_bytes());
                out.extend_from_slice(&nonce.to_be_bytes());
            }
            Self::Ack { hmac } => {
                out.extend_from_slice(&head(false));
                out.push(0);
                out.extend_from_slice(&hmac);
            }
        }
    }

    pub(super) fn parse(option: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::Mptcp(subtype::JOIN), option);
        let [_, _, third, address_id] = reader.array()?;
        let backup = third & BACKUP != 0;
        match option.len() {
            12 => Ok(Self::Syn { backup, address_id, token: reader.u32()?, nonce: reader.u32()? }),
            16 => Ok(Self::SynAck { backup, address_id, hmac: reader.u64()?, nonce: reader.u32()? }),
            24 => Ok(Self::Ack { hmac: reader.array()? }),
            _ => Err(wrong_length(subtype::JOIN, option)),
        }
    }
}
