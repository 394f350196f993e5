//! TCP options other than Multipath TCP's: MSS (RFC 9293 §3.7.1), window scale and timestamps (RFC 7323),
//! SACK-permitted and SACK (RFC 2018).
//!
//! # Canonical layout
//! Options are written as Linux writes them, every group filling whole 32-bit words:
//!
//! | order | group | bytes |
//! |---|---|---|
//! | 1 | MSS | 4 |
//! | 2 | SACK-permitted and timestamps together: `04 02 08 0a …` | 12 |
//! |   | timestamps alone: `NOP NOP 08 0a …` | 12 |
//! |   | SACK-permitted alone: `NOP NOP 04 02` | 4 |
//! | 3 | window scale: `NOP 03 03 shift` | 4 |
//! | 4 | SACK, n blocks: `NOP NOP 05 len …` | 4 + 8 n |
//! | 5 | DSS, `NOP`s behind it up to a whole word | 4–28 |
//! | 6 | every other Multipath TCP option, in order, `NOP`s behind each up to a whole word | 4–28 each |
//!
//! So a SYN takes 20 bytes, a data segment with timestamps 12, and an acknowledgement with timestamps at most
//! three SACK blocks. If these groups need more than the 40 bytes of the option space ([`Options::MAX_LEN`]),
//! the same options are written in the same order without `NOP`s in between and padded only at the end
//! ("dense"). For example, timestamps and an `ADD_ADDR` of 30 bytes then share a segment. Options that
//! still need more than 40 bytes are an error of the caller.
//!
//! On reading, any order and padding is accepted. Unknown kinds are skipped (RFC 9293 §3.1). If an option
//! occurs twice, the last one is used; SACK blocks of all options are used. A known option of a wrong length is an error.

use super::mptcp;
use crate::bytes::Reader;
use crate::error::{EncodeError, Header, ParseError, Problem};
use crate::seldom::{BoxedIfSet, HasDefault};
use crate::seq::Serial;

/// Option kinds other than Multipath TCP's [`mptcp::KIND`].
pub mod kind {
    /// End of option list (RFC 9293 §3.1).
    pub const END: u8 = 0;
    /// No-operation (RFC 9293 §3.1).
    pub const NOP: u8 = 1;
    /// Maximum segment size (RFC 9293 §3.7.1).
    pub const MSS: u8 = 2;
    /// Window scale (RFC 7323 §2.2).
    pub const WINDOW_SCALE: u8 = 3;
    /// SACK-permitted (RFC 2018 §2).
    pub const SACK_PERMITTED: u8 = 4;
    /// SACK (RFC 2018 §3).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323 §3.2).
    pub const TIMESTAMPS: u8 = 8;
}

/// The options of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size that the sender accepts, bytes; on SYN only.
    pub mss: Option<u16>,
    /// Window scale shift, 0–14; on SYN only.
    pub window_scale: Option<u8>,
    /// True if the sender supports SACK; on SYN only.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements.
    pub sack: SackBlocks,
    /// Multipath TCP options.
    pub mptcp: BoxedIfSet<mptcp::Options>,
}

impl Options {
    /// The option space of a TCP header, bytes (RFC 9293 §3.1: a data offset of 15 words, less the fixed header).
    pub const MAX_LEN: u32 = 40;

    /// Exact length in the header, padding included: a multiple of 4. It is more than [`Self::MAX_LEN`] if
    /// the options do not fit into a segment; callers check this before sending.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        let aligned = self.aligned_len();
        if aligned <= Self::MAX_LEN { aligned } else { self.dense_len().next_multiple_of(4) }
    }

    /// Length with every group padded to whole words, as in the table above.
    #[inline]
    pub(super) fn aligned_len(&self) -> u32 {
        let stamped = self.timestamps.is_some();
        let blocks = self.sack.count();
        4 * u32::from(self.mss.is_some())
            + 12 * u32::from(stamped)
            + 4 * u32::from(self.sack_permitted && !stamped)
            + 4 * u32::from(self.window_scale.is_some())
            + 8 * blocks
            + 4 * u32::from(blocks != 0)
            + self.mptcp.get().map_or(0, mptcp::Options::aligned_len)
    }

    /// Length without any padding.
    pub(super) fn dense_len(&self) -> u32 {
        let blocks = self.sack.count();
        4 * u32::from(self.mss.is_some())
            + 10 * u32::from(self.timestamps.is_some())
            + 2 * u32::from(self.sack_permitted)
            + 3 * u32::from(self.window_scale.is_some())
            + 8 * blocks
            + 2 * u32::from(blocks != 0)
            + self.mptcp.dense_len()
    }
}

impl Options {
    /// Checks that the values have an encoding.
    pub(crate) fn validate(&self) -> Result<(), EncodeError> {
        let len = self.wire_len();
        if len > Self::MAX_LEN {
            return Err(EncodeError::OptionsTooLong(len));
        }
        self.mptcp.validate()
    }

    /// Appends the options in canonical layout: exactly [`wire_len`](Self::wire_len) bytes.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let aligned = self.aligned_len() <= Self::MAX_LEN;
        let nops = |out: &mut Vec<u8>, count: usize| {
            if aligned {
                out.extend_from_slice(&[kind::NOP, kind::NOP][..count]);
            }
        };
        if let Some(mss) = self.mss {
            out.extend_from_slice(&[kind::MSS, 4]);
            out.extend_from_slice(&mss.to_be_bytes());
        }
        if self.sack_permitted || self.timestamps.is_some() {
            if self.sack_permitted != self.timestamps.is_some() {
                nops(out, 2);
            }
            if self.sack_permitted {
                out.extend_from_slice(&[kind::SACK_PERMITTED, 2]);
            }
            if let Some(timestamps) = self.timestamps {
                timestamps.emit(out);
            }
        }
        if let Some(shift) = self.window_scale {
            nops(out, 1);
            out.extend_from_slice(&[kind::WINDOW_SCALE, 3, shift]);
        }
        if !self.sack.is_empty() {
            nops(out, 2);
            self.sack.emit(out);
        }
        let fill = |out: &mut Vec<u8>| {
            out.resize(start + (out.len() - start).next_multiple_of(4), kind::NOP);
        };
        self.mptcp.emit(out, |out| {
            if aligned {
                fill(out);
            }
        });
        fill(out);
    }

    /// Reads the option space of a header, all of `bytes`.
    ///
    /// An option that is malformed for its kind, for example of a wrong length, is skipped like an unknown
    /// one; the segment's data and its other options remain valid.
    ///
    /// # Errors
    ///
    /// An option whose length is illegal or reaches beyond `bytes`, since the start of the next option is
    /// then unknown.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut options = Self::default();
        options.read(bytes)?;
        Ok(options)
    }

    /// Adds the options of `bytes`; on failure those before the malformed one.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(), ParseError> {
        let mut at = 0;
        while let Some(&kind) = bytes.get(at) {
            match kind {
                kind::END => break,
                kind::NOP => {
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let error = |at, problem| Err(ParseError::new(Header::TcpOption(kind), at, problem));
            let available = bytes.len() - at;
            let Some(&len) = bytes.get(at + 1) else {
                return error(at, Problem::Truncated { needed: 2, available });
            };
            let len = usize::from(len);
            if len < 2 {
                return error(at + 1, Problem::Length(len));
            }
            let Some(option) = bytes.get(at..at + len) else {
                return error(at, Problem::Truncated { needed: len, available });
            };
            // A malformed option is ignored.
            let _ = self.parse_option(option);
            at += len;
        }
        Ok(())
    }

    /// Reads one option, header included; changes nothing on failure.
    pub(super) fn parse_option(&mut self, option: &[u8]) -> Result<(), ParseError> {
        match *option {
            [kind::MSS, 4, high, low] => self.mss = Some(u16::from_be_bytes([high, low])),
            [kind::WINDOW_SCALE, 3, shift] => self.window_scale = Some(shift),
            [kind::SACK_PERMITTED, 2] => self.sack_permitted = true,
            [kind::TIMESTAMPS, 10, ..] => self.timestamps = Some(Timestamps::parse(option)?),
            [kind::SACK, len, ..] if len > 2 && len % 8 == 2 => self.sack.parse(option)?,
            [mptcp::KIND, ..] => self.mptcp.parse_option(option)?,
            [
                kind
                @ (kind::MSS | kind::WINDOW_SCALE | kind::SACK_PERMITTED | kind::TIMESTAMPS | kind::SACK),
                ..,
            ] => return Err(ParseError::new(Header::TcpOption(kind), 1, Problem::Length(option.len()))),
            _ => {}
        }
        Ok(())
    }
}

/// The timestamps option (RFC 7323 §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// `TSval`, the sender's clock.
    pub value: u32,
    /// `TSecr`, the echoed value; significant with ACK.
    pub echo: u32,
}

impl Timestamps {
    fn emit(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[kind::TIMESTAMPS, 10]);
        out.extend_from_slice(&self.value.to_be_bytes());
        out.extend_from_slice(&self.echo.to_be_bytes());
    }

    fn parse(option: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Header::TcpOption(kind::TIMESTAMPS), option);
        reader.u16()?;
        Ok(Self { value: reader.u32()?, echo: reader.u32()? })
    }
}

/// Up to four SACK blocks `[left, right)` (RFC 2018 §3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    list: BoxedIfSet<BlockList>,
}

/// The pushed blocks, followed by zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BlockList {
    blocks: [(Serial, Serial); SackBlocks::MAX],
    count: u8,
}

impl HasDefault for BlockList {
    fn shared_default() -> &'static Self {
        const { &Self { blocks: [(Serial(0), Serial(0)); SackBlocks::MAX], count: 0 } }
    }
}

impl SackBlocks {
    /// Maximum number of blocks in the option space.
    pub const MAX: usize = 4;

    /// Appends a block; returns false and does nothing if there are four already.
    pub fn push(&mut self, left: Serial, right: Serial) -> bool {
        let BlockList { blocks, count } = &mut *self.list;
        let Some(slot) = blocks.get_mut(usize::from(*count)) else { return false };
        *slot = (left, right);
        *count += 1;
        true
    }

    /// The blocks, in the order in which they were pushed.
    pub fn as_slice(&self) -> &[(Serial, Serial)] {
        &self.list.blocks[..usize::from(self.list.count)]
    }

    /// Number of blocks.
    #[inline]
    pub fn count(&self) -> u32 {
        self.list.get().map_or(0, |list| u32::from(list.count))
    }

    /// True if there are no blocks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[kind::SACK, 2 + 8 * self.list.count]);
        for (left, right) in self.as_slice() {
            out.extend_from_slice(&left.0.to_be_bytes());
            out.extend_from_slice(&right.0.to_be_bytes());
        }
    }

    fn parse(&mut self, option: &[u8]) -> Result<(), ParseError> {
        let mut reader = Reader::new(Header::TcpOption(kind::SACK), option);
        reader.u16()?;
        while !reader.rest().is_empty() {
            // A TCP header has room for at most four blocks; only the first four blocks of a longer list are kept.
            self.push(Serial(reader.u32()?), Serial(reader.u32()?));
        }
        Ok(())
    }
}
