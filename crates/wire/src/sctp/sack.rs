//! `SACK`: selective acknowledgement (RFC 9260 §3.3.4).
//!
//! ```text
//!  0                   1                   2                   3
//! +---------------+---------------+-------------------------------+
//! |   Type = 3    |  Chunk Flags  |         Chunk Length          |
//! +---------------+---------------+-------------------------------+
//! |                      Cumulative TSN Ack                       |
//! +---------------------------------------------------------------+
//! |          Advertised Receiver Window Credit (a_rwnd)           |
//! +-------------------------------+-------------------------------+
//! | Number of Gap Ack Blocks = N  |  Number of Duplicate TSNs = M |
//! +-------------------------------+-------------------------------+
//! |    Gap Ack Block #1 Start     |     Gap Ack Block #1 End      |
//! :                              ...                              :
//! |    Gap Ack Block #N Start     |     Gap Ack Block #N End      |
//! +-------------------------------+-------------------------------+
//! |                       Duplicate TSN 1                         |
//! :                              ...                              :
//! |                       Duplicate TSN M                         |
//! +---------------------------------------------------------------+
//! ```

use super::kind;
use crate::bytes::Reader;
use crate::error::{Header, ParseError, Problem};
use crate::seq::Serial;

/// A range of received TSNs behind the cumulative TSN, as offsets from it, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GapBlock {
    /// Offset of the first TSN; at least 2, since cumulative TSN + 1 is missing by definition.
    pub start: u16,
    /// Offset of the last TSN; not below `start`.
    pub end: u16,
}

impl GapBlock {
    /// The block from `start` to `end`.
    pub const fn new(start: u16, end: u16) -> Self {
        Self { start, end }
    }

    /// The first TSN of the block.
    pub const fn first(self, cumulative_tsn: Serial) -> Serial {
        cumulative_tsn.add(self.start as u32)
    }

    /// The last TSN of the block.
    pub const fn last(self, cumulative_tsn: Serial) -> Serial {
        cumulative_tsn.add(self.end as u32)
    }
}

/// The flags of `SACK` and `NR-SACK`.
///
/// RFC 9260 leaves them zero. A CMT receiver that also delays its acknowledgement of out-of-order data (DAC)
/// puts the number of acknowledged packets into the two high bits (Iyengar, Amer and Stewart 2006;
/// draft-tuexen-tsvwg-sctp-multipath), as the FreeBSD stack does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackFlags(pub u8);

impl SackFlags {
    /// No flags: the receiver does not report a number of packets.
    pub const NONE: Self = Self(0);
    const ANSWERED_SHIFT: u32 = 6;

    /// The flags for `packets` packets with data since the previous acknowledgement; more than 3 are reported
    /// as 3.
    pub const fn answering(packets: u32) -> Self {
        let packets = if packets > 3 { 3 } else { packets as u8 };
        Self(packets << Self::ANSWERED_SHIFT)
    }

    /// Number of packets acknowledged: 1 to 3, or 0 if not reported.
    pub const fn packets_answered(self) -> u32 {
        (self.0 >> Self::ANSWERED_SHIFT) as u32
    }
}

/// TSNs that were received more than once. They are rare, so an empty list takes only a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duplicates(Option<Box<DuplicateList>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DuplicateList(Vec<Serial>);

impl Duplicates {
    /// No duplicates.
    pub const NONE: Self = Self(None);

    /// Appends a TSN.
    pub fn push(&mut self, tsn: Serial) {
        self.0.get_or_insert_default().0.push(tsn);
    }

    /// The TSNs in the order in which they were pushed.
    pub fn as_slice(&self) -> &[Serial] {
        self.0.as_ref().map_or(&[], |list| &list.0)
    }

    /// Number of TSNs.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// True if empty.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl From<Vec<Serial>> for Duplicates {
    fn from(tsns: Vec<Serial>) -> Self {
        if tsns.is_empty() { Self::NONE } else { Self(Some(Box::new(DuplicateList(tsns)))) }
    }
}

impl FromIterator<Serial> for Duplicates {
    fn from_iter<I: IntoIterator<Item = Serial>>(tsns: I) -> Self {
        tsns.into_iter().collect::<Vec<_>>().into()
    }
}

/// A `SACK` chunk. Without gaps and duplicates it owns no heap memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sack {
    /// The last TSN before the first gap.
    pub cumulative_tsn: Serial,
    /// Receive window, bytes.
    pub a_rwnd: u32,
    /// Flags.
    pub flags: SackFlags,
    /// Received TSNs behind the first gap; the receiver may still discard them (renege).
    pub gaps: Vec<GapBlock>,
    /// TSNs received more than once since the previous acknowledgement.
    pub duplicates: Duplicates,
}

impl Sack {
    /// Bytes before the gap blocks, chunk header included.
    pub const HEADER_LEN: u32 = 16;
    /// Bytes of a gap block, and of a duplicate TSN.
    pub const ENTRY_LEN: u32 = 4;

    /// The chunk's length field, bytes; always a multiple of 4.
    pub fn length(&self) -> u32 {
        Self::HEADER_LEN + Self::ENTRY_LEN * (self.gaps.len() + self.duplicates.len()) as u32
    }
}

impl Sack {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.cumulative_tsn.0.to_be_bytes());
        out.extend_from_slice(&self.a_rwnd.to_be_bytes());
        out.extend_from_slice(&count(self.gaps.len()));
        out.extend_from_slice(&count(self.duplicates.len()));
        emit_gaps(&self.gaps, out);
        self.duplicates.emit(out);
    }

    pub(super) fn parse(flags: u8, value: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::SctpChunk(kind::SACK), value);
        let (cumulative_tsn, a_rwnd) = (Serial(reader.u32()?), reader.u32()?);
        let (gaps, duplicates) = (reader.u16()?, reader.u16()?);
        expect_entries(&reader, &[gaps, duplicates])?;
        Ok(Self {
            cumulative_tsn,
            a_rwnd,
            flags: SackFlags(flags),
            gaps: parse_gaps(&mut reader, gaps)?,
            duplicates: Duplicates::parse(&mut reader, duplicates)?,
        })
    }
}

impl Sack {
    /// Reads a chunk that a capture cut behind the fixed fields: with the gap blocks that were kept.
    pub(super) fn parse_cut(flags: u8, value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(Header::SctpChunk(kind::SACK), value);
        let (cumulative_tsn, a_rwnd) = (Serial(reader.u32().ok()?), reader.u32().ok()?);
        let (gaps, _duplicates) = (reader.u16().ok()?, reader.u16().ok()?);
        let gaps = parse_kept_gaps(&mut reader, gaps);
        let duplicates = Duplicates::default();
        Some(Self { cumulative_tsn, a_rwnd, flags: SackFlags(flags), gaps, duplicates })
    }
}

impl Duplicates {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        for tsn in self.as_slice() {
            out.extend_from_slice(&tsn.0.to_be_bytes());
        }
    }

    pub(super) fn parse(reader: &mut Reader<'_>, count: u16) -> Result<Self, ParseError> {
        let tsns: Result<Vec<_>, _> = (0..count).map(|_| reader.u32().map(Serial)).collect();
        tsns.map(Self::from)
    }
}

/// The number of entries as a field of the chunk.
pub(super) fn count(entries: usize) -> [u8; 2] {
    u16::try_from(entries).expect("a chunk holds fewer than 65,536 entries").to_be_bytes()
}

/// Checks that the rest contains exactly the announced entries, before memory is allocated for them.
pub(super) fn expect_entries(reader: &Reader<'_>, counts: &[u16]) -> Result<(), ParseError> {
    let (needed, available) =
        (4 * counts.iter().map(|&count| usize::from(count)).sum::<usize>(), reader.rest().len());
    match needed.cmp(&available) {
        core::cmp::Ordering::Equal => Ok(()),
        core::cmp::Ordering::Greater => Err(reader.error(Problem::Truncated { needed, available })),
        core::cmp::Ordering::Less => Err(reader.error(Problem::Length(available))),
    }
}

pub(super) fn emit_gaps(gaps: &[GapBlock], out: &mut Vec<u8>) {
    for gap in gaps {
        let [s0, s1] = gap.start.to_be_bytes();
        let [e0, e1] = gap.end.to_be_bytes();
        out.extend_from_slice(&[s0, s1, e0, e1]);
    }
}

pub(super) fn parse_gaps(reader: &mut Reader<'_>, count: u16) -> Result<Vec<GapBlock>, ParseError> {
    (0..count).map(|_| Ok(GapBlock::new(reader.u16()?, reader.u16()?))).collect()
}

/// The first gap blocks of a list, as far as the bytes reach.
pub(super) fn parse_kept_gaps(reader: &mut Reader<'_>, count: u16) -> Vec<GapBlock> {
    let kept = usize::from(count).min(reader.rest().len() / Sack::ENTRY_LEN as usize);
    parse_gaps(reader, kept as u16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::{check_chunk, refuse_chunk};

    #[test]
    fn sack_without_gaps_is_encoded() {
        let sack = Sack { cumulative_tsn: Serial(0x0102_0304), a_rwnd: 0x0000_ffff, ..Sack::default() };
        check_chunk(&Chunk::Sack(sack), "03 00 0010 01020304 0000ffff 0000 0000");
    }

    #[test]
    fn example_of_the_rfc_is_encoded() {
        // RFC 9260 §3.3.4: TSNs up to 12, 14 and 15, and 17 arrived; a_rwnd is 4660.
        let sack = Sack {
            cumulative_tsn: Serial(12),
            a_rwnd: 4660,
            gaps: vec![GapBlock::new(2, 3), GapBlock::new(5, 5)],
            ..Sack::default()
        };
        assert_eq!((sack.gaps[0].first(Serial(12)), sack.gaps[0].last(Serial(12))), (Serial(14), Serial(15)));
        check_chunk(&Chunk::Sack(sack), "03 00 0018 0000000c 00001234 0002 0000 0002 0003 0005 0005");
    }

    #[test]
    fn sack_has_duplicates_and_a_count_of_packets() {
        let sack = Sack {
            cumulative_tsn: Serial(u32::MAX),
            a_rwnd: 1,
            flags: SackFlags::answering(2),
            gaps: vec![GapBlock::new(2, 0xffff)],
            duplicates: vec![Serial(7), Serial(7)].into(),
        };
        check_chunk(&Chunk::Sack(sack), "03 80 001c ffffffff 00000001 0001 0002 0002 ffff 00000007 00000007");
    }

    #[test]
    fn count_of_acknowledged_packets_is_at_most_three() {
        for (packets, told) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (1000, 3)] {
            assert_eq!(SackFlags::answering(packets).packets_answered(), told);
        }
        assert_eq!(SackFlags::NONE.packets_answered(), 0);
    }

    #[test]
    fn empty_duplicate_lists_are_equal() {
        assert_eq!(Duplicates::from(vec![]), Duplicates::NONE);
        let mut one = Duplicates::default();
        one.push(Serial(1));
        assert_eq!(one, [Serial(1)].into_iter().collect());
        assert!(!one.is_empty() && one.len() == 1);
    }

    #[test]
    fn number_of_entries_must_match() {
        refuse_chunk("03 00 0014 0000000c 00001234 0002 0000 0002 0003");
        refuse_chunk("03 00 0014 0000000c 00001234 0000 0002 00000001");
        refuse_chunk("03 00 0014 0000000c 00001234 0000 0000 0002 0003");
        refuse_chunk("03 00 0010 0000000c 00001234 ffff ffff");
        refuse_chunk("03 00 000c 0000000c 00001234");
    }
}
