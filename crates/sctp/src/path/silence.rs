//! Detection of silent paths; [`probing`](crate::sender::probing) reacts to them.

use anabranch_base::time::Time;

/// State of the detection of silence on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Silence {
    /// No silence is watched: nothing is in flight, or only the retransmission timer is used.
    #[default]
    Unwatched,
    /// Time at which a probe is sent.
    Probe { due: Time },
    /// The probe was sent, unless there was no chunk to send. Its answer must arrive before `due`.
    Answer { since: Time, due: Time, probe: Option<TailProbe> },
}

/// A chunk retransmitted as a probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailProbe {
    pub tsn: u64,
    /// Number of the chunk's previous transmission.
    pub original: u64,
    pub sent_at: Time,
    /// True if the receiver reported the chunk as a duplicate.
    pub duplicate: bool,
}

impl Silence {
    /// Time of the next timer event.
    pub const fn due(&self) -> Time {
        match self {
            Self::Unwatched => Time::MAX,
            Self::Probe { due } | Self::Answer { due, .. } => *due,
        }
    }
}
