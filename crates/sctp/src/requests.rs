//! Requests of both endpoints, with one outstanding request of a kind at each. The sender numbers a request and
//! retransmits it until a response has this number. The receiver performs each request once (RFC 5061 §5.1, §5.2; RFC
//! 6525 §5.1.1, §5.2.1).

use crate::common::Core;
use anabranch_base::time::Time;
use anabranch_wire::seq::Serial;
use std::collections::VecDeque;

/// Path of a sent request and time of its retransmission. `what` is the request, if a retransmission must be
/// identical.
#[derive(Clone, Debug)]
pub(super) struct Sent<R> {
    pub at: usize,
    pub due: Time,
    pub what: R,
}

/// The outstanding request of this endpoint.
#[derive(Clone, Debug)]
pub(super) struct Pending<T, R> {
    pub serial: Serial,
    pub change: T,
    /// The sent request; `None` while the condition for sending it is not met.
    pub sent: Option<Sent<R>>,
}

/// Requests for changes `T`, which are sent as `R`, and the numbers of the peer's requests.
#[derive(Debug)]
pub(super) struct Requests<T, R = ()> {
    /// Sequence number of the next request.
    next: Serial,
    pub waiting: VecDeque<T>,
    pub pending: Option<Pending<T, R>>,
    /// Sequence number of the peer's next request.
    expected: Serial,
}

impl<T, R> Requests<T, R> {
    /// Sequence numbers start at the initial TSNs (RFC 5061 §4.1.1, RFC 6525 §4.1).
    pub const fn new(local: Serial, peer: Serial) -> Self {
        Self { next: local, waiting: VecDeque::new(), pending: None, expected: peer }
    }

    /// Assigns a number to a request.
    pub fn number(&mut self) -> Serial {
        let serial = self.next;
        self.next = serial.add(1);
        serial
    }

    /// Makes the oldest queued change the outstanding one; false if another is outstanding or none is queued.
    pub fn begin(&mut self) -> bool {
        if self.pending.is_some() {
            return false;
        }
        let Some(change) = self.waiting.pop_front() else { return false };
        self.pending = Some(Pending { serial: self.number(), change, sent: None });
        true
    }

    /// The outstanding request, if it was sent with this number.
    pub fn asked(&mut self, serial: Serial) -> Option<&mut Pending<T, R>> {
        self.pending.as_mut().filter(|own| own.serial == serial && own.sent.is_some())
    }

    /// True if a request with this number was sent.
    pub fn has_asked(&self, serial: Serial) -> bool {
        serial.before(self.next)
    }

    /// Time at which the outstanding request is retransmitted.
    pub fn due(&self) -> Time {
        let sent = self.pending.as_ref().and_then(|pending| pending.sent.as_ref());
        sent.map_or(Time::MAX, |sent| sent.due)
    }

    /// True if the peer's request with this number is the next one and must be performed.
    pub fn accept(&mut self, serial: Serial) -> bool {
        let next = serial == self.expected;
        if next {
            self.expected = serial.add(1);
        }
        next
    }

    /// Number of the peer's last request.
    pub fn accepted(&self) -> Serial {
        self.expected.add(u32::MAX)
    }
}

impl Core {
    /// Records that a request was not answered on this path.
    pub fn request_lost(&mut self, now: Time, at: usize) {
        self.paths[at].rtt.back_off();
        self.path_error(now, at);
        self.move_lost_chunks();
    }

    /// The next path that is `good`, in cyclic order after `at`; `at` itself is last.
    pub fn path_after(&self, at: usize, good: impl Fn(usize) -> bool) -> usize {
        let n = self.paths.len();
        let mut others = (1..=n).map(|step| (at + step) % n);
        others.find(|&other| good(other)).unwrap_or_else(|| self.preferred())
    }
}
