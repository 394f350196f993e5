//! `ECNE` and `CWR`: explicit congestion notification (RFC 4960 appendix A; RFC 9260 §3.2 reserves both types).

use crate::seq::Serial;

/// An `ECNE` chunk: the receiver saw a packet marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionEcho {
    /// The lowest TSN in the marked packet.
    pub lowest_tsn: Serial,
}

/// A `CWR` chunk: the sender has reduced its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionReduced {
    /// The TSN of the echo that is answered.
    pub lowest_tsn: Serial,
}
