//! The sending half: messages, streams, the scoreboard of chunks, SACKs, losses and retransmissions.

pub(crate) mod gaps;
pub(crate) mod immediate;
pub(crate) mod outbound;
pub(crate) mod outstanding;
pub(crate) mod probing;
pub(crate) mod rate;
pub(crate) mod redundant;
pub(crate) mod retransmit;
pub(crate) mod sack;
pub(crate) mod stream_paths;
pub(crate) mod streams;
pub(crate) mod undo;
