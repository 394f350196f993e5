//! The echo of marked packets that a receiver owes its peer (RFC 4960 appendix A).

/// Marked packets of one path, until the peer confirms them by CWR.
#[derive(Clone, Copy, Debug)]
pub(super) struct Echo {
    /// The path on which they arrived, if it is known.
    pub at: Option<usize>,
    /// The lowest TSN of the first marked packet.
    pub tsn: u64,
}
