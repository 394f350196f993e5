//! `AUTH`: authenticates the chunks behind it in the packet (RFC 4895 §4.1).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |  Type = 0x0F  |   Flags = 0   |            Length             |
//! +---------------+---------------+-------------------------------+
//! |     Shared Key Identifier     |        HMAC Identifier        |
//! +-------------------------------+-------------------------------+
//! :                             HMAC                              :
//! +---------------------------------------------------------------+
//! ```

use super::{CHUNK_HEADER_LEN, kind};
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use core::fmt;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use std::sync::Arc;

/// The algorithm of a message authentication code (RFC 4895 §8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HmacId(pub u16);

impl HmacId {
    /// HMAC-SHA-1, which every implementation has.
    pub const SHA1: Self = Self(1);
    /// HMAC-SHA-256.
    pub const SHA256: Self = Self(3);

    /// Length of a code, bytes; `None` for an unknown algorithm.
    pub const fn code_len(self) -> Option<u32> {
        match self {
            Self::SHA1 => Some(20),
            Self::SHA256 => Some(32),
            _ => None,
        }
    }

    /// The code over these bytes; `None` for an unknown algorithm.
    pub fn code(self, key: &[u8], covered: &[u8]) -> Option<Box<[u8]>> {
        Some(match self {
            Self::SHA1 => mac::<Hmac<Sha1>>(key, covered).finalize().into_bytes()[..].into(),
            Self::SHA256 => mac::<Hmac<Sha256>>(key, covered).finalize().into_bytes()[..].into(),
            _ => return None,
        })
    }

    /// Returns whether `code` is the code over these bytes; `None` for an unknown algorithm. The comparison takes
    /// constant time.
    pub fn verifies(self, key: &[u8], covered: &[u8], code: &[u8]) -> Option<bool> {
        Some(match self {
            Self::SHA1 => mac::<Hmac<Sha1>>(key, covered).verify_slice(code).is_ok(),
            Self::SHA256 => mac::<Hmac<Sha256>>(key, covered).verify_slice(code).is_ok(),
            _ => return None,
        })
    }
}

/// A code over these bytes.
fn mac<M: Mac + KeyInit>(key: &[u8], covered: &[u8]) -> M {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(covered);
    mac
}

/// The key of message authentication codes. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Arc<[u8]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// An `AUTH` chunk.
#[derive(Clone, Debug, Default)]
pub struct Auth {
    /// Identifier of the endpoints' shared key.
    pub key: u16,
    /// The algorithm.
    pub algorithm: HmacId,
    /// The message authentication code.
    pub code: Box<[u8]>,
    /// The bytes that the code covers: this chunk with zeros for the code, and the rest of the packet. The bytes are
    /// those of the packet; two chunks that differ only in them are equal.
    pub covered: Box<[u8]>,
    /// The key, if the sender has no payload bytes: the code is then computed when the packet is written, or
    /// by [`Packet::settle`](crate::Packet::settle). Until then the code is zeros, and `covered` is empty.
    pub secret: Option<Secret>,
}

impl PartialEq for Auth {
    fn eq(&self, other: &Self) -> bool {
        (self.key, self.algorithm, &self.code) == (other.key, other.algorithm, &other.code)
    }
}

impl Eq for Auth {}

impl Auth {
    /// Bytes before the code, chunk header included.
    pub const HEADER_LEN: u32 = CHUNK_HEADER_LEN + 4;

    /// A chunk whose code is computed later; `None` for an unknown algorithm.
    pub fn pending(algorithm: HmacId, secret: Secret) -> Option<Self> {
        let code = vec![0; algorithm.code_len()? as usize].into();
        Some(Self { key: 0, algorithm, code, covered: Box::default(), secret: Some(secret) })
    }

    /// The code over these bytes, if it is still pending.
    pub(super) fn pending_code(&self, covered: &[u8]) -> Option<Box<[u8]>> {
        self.algorithm.code(&self.secret.as_ref()?.0, covered)
    }

    /// The chunk's length field: bytes without padding.
    pub const fn length(&self) -> u32 {
        Self::HEADER_LEN + self.code.len() as u32
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key.to_be_bytes());
        out.extend_from_slice(&self.algorithm.0.to_be_bytes());
        out.extend_from_slice(&self.code);
    }

    pub(super) fn parse(value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::AUTH), value);
        let (key, algorithm) = (reader.u16()?, HmacId(reader.u16()?));
        Ok(Self { key, algorithm, code: reader.rest().into(), covered: Box::default(), secret: None })
    }

    /// Sets `covered` from the rest of the packet, which begins with this chunk.
    pub(super) fn set_covered(&mut self, rest: &[u8]) {
        let mut covered = rest.to_vec();
        covered[Self::HEADER_LEN as usize..][..self.code.len()].fill(0);
        self.covered = covered.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::testing::{check_chunk, hex, refuse_chunk};
    use crate::sctp::{Chunk, Data, DataFlags, Packet, Shutdown};
    use crate::seq::Serial;
    use crate::{Buffer, Payload};

    #[test]
    fn encoding_equals_vector() {
        let auth =
            Auth { key: 0x0102, algorithm: HmacId::SHA256, code: Box::new([0xaa, 0xbb]), ..Auth::default() };
        check_chunk(&Chunk::Auth(Box::new(auth)), "0f 00 000a 0102 0003 aabb 0000");
        refuse_chunk("0f 00 0006 0102 0000");
    }

    /// RFC 2202 §3 case 2 and RFC 4231 §4.3.
    #[test]
    fn hmacs_equal_those_of_the_standards() {
        let covered = b"what do ya want for nothing?";
        for (algorithm, begin) in
            [(HmacId::SHA1, [0xef, 0xfc, 0xdf, 0x6a]), (HmacId::SHA256, [0x5b, 0xdc, 0xc1, 0x46])]
        {
            let code = algorithm.code(b"Jefe", covered).unwrap();
            assert_eq!((&code[..4], Some(code.len() as u32)), (&begin[..], algorithm.code_len()));
            assert_eq!(algorithm.verifies(b"Jefe", covered, &code), Some(true));
            assert_eq!(algorithm.verifies(b"Jefe", covered, &code[..10]), Some(false));
        }
        assert_eq!((HmacId(2).code(b"", b""), HmacId(2).code_len()), (None, None));
    }

    /// RFC 4895 §6.2: the code covers the chunk with zeros in place of the code, and everything behind the chunk,
    /// user data included. The code does not cover bytes before the chunk.
    #[test]
    fn hmac_covers_the_rest_of_the_packet() {
        let secret = Secret([7; 40].into());
        let data =
            Data { tsn: Serial(1), payload: Payload::new(5, 3), flags: DataFlags::WHOLE, ..Data::default() };
        let mut packet = Packet {
            source_port: 1,
            destination_port: 2,
            verification_tag: 3,
            chunks: vec![
                Chunk::ShutdownAck,
                Chunk::Auth(Box::new(Auth::pending(HmacId::SHA1, secret.clone()).unwrap())),
                Chunk::Shutdown(Shutdown { cumulative_tsn: Serial(7) }),
                Chunk::Data(data),
            ]
            .into(),
            udp: None,
            may_fragment: false,
            zero_checksum: false,
        };
        let mut bytes = Vec::new();
        packet.emit_with(&mut bytes, &mut |_, bytes| bytes.copy_from_slice(b"abc"));
        let read = Packet::parse(&bytes).unwrap();
        let Chunk::Auth(auth) = &read.chunks[1] else { panic!("AUTH") };
        let zeros = "00000000".repeat(5);
        let covered = format!(
            "0f00001c 0000 0001 {zeros} 07000008 00000007 00030013 00000001 0000 0000 00000000 616263 00"
        );
        assert_eq!(auth.covered[..], hex(&covered));
        assert_eq!(HmacId::SHA1.verifies(&secret.0, &auth.covered, &auth.code), Some(true));
        // `settle` computes the same authentication code and checksum without writing the packet.
        let Chunk::Data(at) = &read.chunks[3] else { panic!("DATA") };
        packet.chunks[3] = Chunk::Data(Data { payload: at.payload, ..data });
        packet.settle(&Buffer(&bytes));
        assert_eq!(packet.chunks, read.chunks);
        let Chunk::Auth(settled) = &packet.chunks[1] else { panic!("AUTH") };
        assert_eq!((&settled.covered, settled.secret.is_none()), (&auth.covered, true));
    }
}
