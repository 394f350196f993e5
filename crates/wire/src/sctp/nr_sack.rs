//! `NR-SACK`: selective acknowledgement with a list of TSNs that will not be discarded
//! (draft-natarajan-tsvwg-sctp-nrsack §4).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |  Type = 0x10  |  Chunk Flags  |         Chunk Length          |
//! +---------------+---------------+-------------------------------+
//! |                      Cumulative TSN Ack                       |
//! +---------------------------------------------------------------+
//! |          Advertised Receiver Window Credit (a_rwnd)           |
//! +-------------------------------+-------------------------------+
//! |Number of R Gap Ack Blocks = N |Number of NR Gap Ack Blocks = M|
//! +-------------------------------+-------------------------------+
//! |  Number of Duplicate TSNs = X |           Reserved            |
//! +-------------------------------+-------------------------------+
//! :       R Gap Ack Blocks #1 to #N, start and end each           :
//! :       NR Gap Ack Blocks #1 to #M, start and end each          :
//! :       Duplicate TSNs 1 to X                                   :
//! +---------------------------------------------------------------+
//! ```

use super::{Duplicates, GapBlock, Sack, SackFlags, kind, sack};
use crate::bytes::Reader;
use crate::error::{Header, ParseError};
use crate::seq::Serial;

/// An `NR-SACK` chunk: a SACK with two lists of gap blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NrSack {
    /// The fields of a SACK. Its `gaps` are the renegable ones.
    pub sack: Sack,
    /// Received TSNs behind the first gap that the receiver will not discard; the sender may free them.
    pub nr_gaps: Vec<GapBlock>,
}

impl NrSack {
    /// Bytes before the gap blocks, chunk header included.
    pub const HEADER_LEN: u32 = 20;

    /// The chunk's length field, bytes; always a multiple of 4.
    pub fn length(&self) -> u32 {
        let entries = self.sack.gaps.len() + self.nr_gaps.len() + self.sack.duplicates.len();
        Self::HEADER_LEN + Sack::ENTRY_LEN * entries as u32
    }
}

impl NrSack {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let Sack { cumulative_tsn, a_rwnd, flags: _, gaps, duplicates } = &self.sack;
        out.extend_from_slice(&cumulative_tsn.0.to_be_bytes());
        out.extend_from_slice(&a_rwnd.to_be_bytes());
        out.extend_from_slice(&sack::count(gaps.len()));
        out.extend_from_slice(&sack::count(self.nr_gaps.len()));
        out.extend_from_slice(&sack::count(duplicates.len()));
        out.extend_from_slice(&[0; 2]);
        sack::emit_gaps(gaps, out);
        sack::emit_gaps(&self.nr_gaps, out);
        duplicates.emit(out);
    }

    pub(super) fn parse(flags: u8, value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::NR_SACK), value);
        let (cumulative_tsn, a_rwnd) = (Serial(reader.u32()?), reader.u32()?);
        let (gaps, nr_gaps, duplicates) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let _reserved = reader.u16()?;
        sack::expect_entries(&reader, &[gaps, nr_gaps, duplicates])?;
        let gaps = sack::parse_gaps(&mut reader, gaps)?;
        let nr_gaps = sack::parse_gaps(&mut reader, nr_gaps)?;
        let duplicates = Duplicates::parse(&mut reader, duplicates)?;
        let sack = Sack { cumulative_tsn, a_rwnd, flags: SackFlags(flags), gaps, duplicates };
        Ok(Self { sack, nr_gaps })
    }
}

impl NrSack {
    /// Reads a chunk that a capture cut behind the fixed fields: with the gap blocks that were kept.
    pub(super) fn parse_cut(flags: u8, value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(Header::SctpChunk(kind::NR_SACK), value);
        let (cumulative_tsn, a_rwnd) = (Serial(reader.u32().ok()?), reader.u32().ok()?);
        let (gaps, nr_gaps) = (reader.u16().ok()?, reader.u16().ok()?);
        let _duplicates_and_reserved = reader.u32().ok()?;
        let gaps = sack::parse_kept_gaps(&mut reader, gaps);
        let nr_gaps = sack::parse_kept_gaps(&mut reader, nr_gaps);
        let duplicates = Duplicates::default();
        let sack = Sack { cumulative_tsn, a_rwnd, flags: SackFlags(flags), gaps, duplicates };
        Some(Self { sack, nr_gaps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    #[test]
    fn encoding_equals_vector() {
        let nr_sack = NrSack {
            sack: Sack {
                cumulative_tsn: Serial(12),
                a_rwnd: 4660,
                flags: SackFlags::answering(1),
                gaps: vec![GapBlock::new(5, 5)],
                duplicates: vec![Serial(9)].into(),
            },
            nr_gaps: vec![GapBlock::new(2, 3), GapBlock::new(7, 8)],
        };
        check_chunk(
            &Chunk::NrSack(Box::new(nr_sack)),
            "10 40 0024 0000000c 00001234 0001 0002 0001 0000 0005 0005 0002 0003 0007 0008 00000009",
        );
    }

    #[test]
    fn number_of_entries_must_match() {
        refuse_chunk("10 00 0014 0000000c 00001234 0000 0001 0000 0000");
        refuse_chunk("10 00 0018 0000000c 00001234 0000 0000 0000 0000 00000001");
        refuse_chunk("10 00 0010 0000000c 00001234 0000 0000");
    }
}
