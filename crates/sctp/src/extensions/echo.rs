//! ECN echoes that a receiver sends to its peer (RFC 4960 appendix A).

/// Marked packets of one path for which no CWR has been received yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo {
    /// The path on which the packets arrived, if known.
    pub at: Option<usize>,
    /// The lowest TSN of the first marked packet.
    pub tsn: u64,
}
