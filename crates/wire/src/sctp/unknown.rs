//! Chunks of unknown type, and the treatment that unknown types request (RFC 9260 §3.2, §3.2.1).

use super::CHUNK_HEADER_LEN;

/// A chunk of a type that this crate does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Type number.
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// Value, without header and padding.
    pub value: Box<[u8]>,
}

impl Unknown {
    /// The chunk's length field: bytes without padding.
    pub const fn length(&self) -> u32 {
        CHUNK_HEADER_LEN + self.value.len() as u32
    }

    /// The treatment by the receiver.
    pub const fn action(&self) -> Action {
        Action::of_chunk(self.kind)
    }
}

/// The treatment that the two high bits of an unknown chunk or parameter type request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// 00: stop processing the packet after an unknown chunk, or the chunk after an unknown parameter.
    Stop,
    /// 01: stop as for 00, and report the type to the sender.
    StopAndReport,
    /// 10: skip the chunk or parameter and continue.
    Skip,
    /// 11: skip the chunk or parameter and continue, and report the type to the sender.
    SkipAndReport,
}

impl Action {
    /// The reaction to an unknown chunk type.
    pub const fn of_chunk(kind: u8) -> Self {
        match kind >> 6 {
            0 => Self::Stop,
            1 => Self::StopAndReport,
            2 => Self::Skip,
            _ => Self::SkipAndReport,
        }
    }

    /// The reaction to an unknown parameter type.
    pub const fn of_parameter(kind: u16) -> Self {
        Self::of_chunk((kind >> 8) as u8)
    }

    /// True if the rest of the packet or chunk is not processed.
    pub const fn stops(self) -> bool {
        matches!(self, Self::Stop | Self::StopAndReport)
    }

    /// True if the type is reported to the sender.
    pub const fn reports(self) -> bool {
        matches!(self, Self::StopAndReport | Self::SkipAndReport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::testing::check_chunk;

    #[test]
    fn unknown_chunk_is_kept_unchanged() {
        let unknown = Unknown { kind: 0xfe, flags: 0xa5, value: Box::new([1, 2, 3]) };
        check_chunk(&Chunk::Unknown(unknown), "fe a5 0007 010203 00");
    }

    #[test]
    fn two_high_bits_determine_the_action() {
        let asked = |action: Action| (action.stops(), action.reports());
        assert_eq!(asked(Action::of_chunk(0x3f)), (true, false));
        assert_eq!(asked(Action::of_chunk(0x41)), (true, true));
        assert_eq!(asked(Action::of_chunk(0x84)), (false, false));
        assert_eq!(asked(Action::of_chunk(0xff)), (false, true));
        for kind in 0..=u8::MAX {
            assert_eq!(Action::of_chunk(kind), Action::of_parameter(u16::from(kind) << 8 | 0xff));
        }
    }
}
