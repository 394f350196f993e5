//! The outcome of a replay.

use super::difference::Difference;
use super::record::Counts;
use anabranch_base::time::Time;

/// The outcome of a replay.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The subject of the recording: `endpoint` for a host on real packets, `user` for a scenario in real time.
    pub subject: &'static str,
    /// Version of the program that recorded.
    pub version: String,
    /// The recording has the bytes of payloads.
    pub has_data: bool,
    /// Numbers of replayed records until the end or the first difference.
    pub counts: Counts,
    /// The time of the last replayed record.
    pub duration: Time,
    /// The first difference; `None` if recording and replay are equal.
    pub difference: Option<Difference>,
}
