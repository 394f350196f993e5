//! How long a sender with data could not send, by cause.

use multipath::time::{Duration, Time};

/// Why data waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The congestion windows are full.
    CongestionWindow,
    /// The peer's receive window is closed.
    ReceiveWindow,
}

/// A stopwatch per cause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocked {
    since: Option<(Cause, Time)>,
    congestion: Duration,
    receive: Duration,
}

impl Blocked {
    /// From `now` on data waits for `cause`, or for nothing; true if that is news.
    pub fn set(&mut self, now: Time, cause: Option<Cause>) -> bool {
        if self.since.map(|(c, _)| c) == cause {
            return false;
        }
        if let Some((cause, since)) = self.since {
            match cause {
                Cause::CongestionWindow => self.congestion += now.since(since),
                Cause::ReceiveWindow => self.receive += now.since(since),
            }
        }
        self.since = cause.map(|cause| (cause, now));
        true
    }

    /// Time by cause so far, by the names of a result document. A wait that has not ended counts up to its last
    /// change.
    pub fn report(&self) -> Vec<(&'static str, Duration)> {
        vec![("congestion-window", self.congestion), ("receive-window", self.receive)]
    }
}
