//! `SACK`: selective acknowledgement (RFC 9260 §3.3.4).

use crate::seq::Serial;

/// A run of received TSNs behind the cumulative TSN, as offsets from it, both ends included.
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
/// RFC 9260 leaves them zero. A CMT receiver that delays its acknowledgement of out-of-order data too (DAC) says in
/// the two high bits how many packets the acknowledgement answers (Iyengar, Amer and Stewart 2006;
/// draft-tuexen-tsvwg-sctp-multipath), as the FreeBSD stack does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackFlags(pub u8);

impl SackFlags {
    /// No flags: the receiver does not count.
    pub const NONE: Self = Self(0);
    const ANSWERED_SHIFT: u32 = 6;

    /// The flags that report `packets` packets with data since the previous acknowledgement; more than 3 say 3.
    pub const fn answering(packets: u32) -> Self {
        let packets = if packets > 3 { 3 } else { packets as u8 };
        Self(packets << Self::ANSWERED_SHIFT)
    }

    /// Packets answered, 0 (not told) to 3.
    pub const fn packets_answered(self) -> u32 {
        (self.0 >> Self::ANSWERED_SHIFT) as u32
    }
}

/// TSNs that came more than once. They are rare, so that none takes no more than a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duplicates(Option<Box<DuplicateList>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DuplicateList(Vec<Serial>);

impl Duplicates {
    /// No duplicates.
    pub const NONE: Self = Self(None);

    /// Appends one.
    pub fn push(&mut self, tsn: Serial) {
        self.0.get_or_insert_default().0.push(tsn);
    }

    /// The TSNs in the order in which they were pushed.
    pub fn as_slice(&self) -> &[Serial] {
        self.0.as_ref().map_or(&[], |list| &list.0)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// True without one.
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
