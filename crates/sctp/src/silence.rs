//! Detection of silent paths; [`probing`](super::probing) reacts to them.

use anabranch_base::time::Time;

/// How the silence of a path is watched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Silence {
    /// Not at all: nothing is in flight, or the retransmission timer is all there is to do.
    #[default]
    Unwatched,
    /// A probe leaves then.
    Probe { due: Time },
    /// It has left, unless there was none to send, and until then something must be heard.
    Answer { since: Time, due: Time, probe: Option<TailProbe> },
}

/// A chunk that was sent once more to draw an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct TailProbe {
    pub tsn: u64,
    /// Number of the transmission before.
    pub original: u64,
    pub sent_at: Time,
    /// The receiver reports that it had the chunk.
    pub duplicate: bool,
}

impl Silence {
    /// When something is due.
    pub const fn due(&self) -> Time {
        match self {
            Self::Unwatched => Time::MAX,
            Self::Probe { due } | Self::Answer { due, .. } => *due,
        }
    }
}
