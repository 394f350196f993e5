//! `SHUTDOWN`, `SHUTDOWN ACK` and `SHUTDOWN COMPLETE`: the orderly end (RFC 9260 §3.3.8, §3.3.9, §3.3.13).

use crate::seq::Serial;

/// A `SHUTDOWN` chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// The last TSN received before the first gap.
    pub cumulative_tsn: Serial,
}

/// A `SHUTDOWN COMPLETE` chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownComplete {
    /// T: the verification tag is the one that the other side wrote, since the sender knows no other (§8.5.1).
    pub reflected_tag: bool,
}
