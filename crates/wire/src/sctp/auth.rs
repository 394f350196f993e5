//! `AUTH`: the chunks behind it in the packet come from somebody who has the key (RFC 4895 §4.1).
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

/// The algorithm of a message authentication code (RFC 4895 §8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HmacId(pub u16);

impl HmacId {
    /// HMAC-SHA-1, which every implementation has.
    pub const SHA1: Self = Self(1);
    /// HMAC-SHA-256.
    pub const SHA256: Self = Self(3);
}

/// An `AUTH` chunk.
#[derive(Clone, Debug, Default)]
pub struct Auth {
    /// Which of the endpoints' shared keys it was made with.
    pub key: u16,
    /// How the code was made.
    pub algorithm: HmacId,
    /// The message authentication code.
    pub code: Box<[u8]>,
    /// What the code is computed over: this chunk with zeros for the code, and all that follows it in the packet. The bytes of
    /// the packet, not a part of the value.
    pub covered: Box<[u8]>,
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
        Ok(Self { key, algorithm, code: reader.rest().into(), covered: Box::default() })
    }

    /// The rest of the packet that the chunk is from, beginning with it.
    pub(super) fn cover(&mut self, rest: &[u8]) {
        let mut covered = rest.to_vec();
        covered[Self::HEADER_LEN as usize..][..self.code.len()].fill(0);
        self.covered = covered.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::testing::{check_chunk, hex, refuse_chunk};
    use crate::sctp::{Chunk, Packet, Shutdown};
    use crate::seq::Serial;

    #[test]
    fn vector() {
        let auth = Auth {
            key: 0x0102,
            algorithm: HmacId::SHA256,
            code: Box::new([0xaa, 0xbb]),
            covered: Box::default(),
        };
        check_chunk(&Chunk::Auth(Box::new(auth)), "0f 00 000a 0102 0003 aabb 0000");
        refuse_chunk("0f 00 0006 0102 0000");
    }

    /// RFC 4895 §6.2: zeros in place of the code, and everything behind the chunk; nothing before it.
    #[test]
    fn what_is_covered_is_the_rest_of_the_packet_without_the_code() {
        let behind = vec![Chunk::Shutdown(Shutdown { cumulative_tsn: Serial(7) }), Chunk::CookieAck];
        let made = Auth { code: Box::new([9; 5]), ..Auth::over(3, HmacId::SHA1, 5, &behind) };
        assert_eq!(made.covered[..], hex("0f00000d 0003 0001 00000000 00 000000 07000008 00000007 0b000004"));
        let mut packet = Packet {
            source_port: 1,
            destination_port: 2,
            verification_tag: 3,
            chunks: vec![Chunk::ShutdownAck, Chunk::Auth(Box::new(made.clone()))],
            udp: None,
            may_fragment: false,
            zero_checksum: false,
        };
        packet.chunks.extend(behind);
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        let read = Packet::parse(&bytes).unwrap();
        assert_eq!(read, packet);
        let Chunk::Auth(auth) = &read.chunks[1] else { panic!("AUTH") };
        assert_eq!(auth.covered, made.covered);
    }
}
