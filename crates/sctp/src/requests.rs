//! Requests to the peer, and the peer's to this end. Each end has one of a kind out at a time, numbers it, sends it again until
//! it is answered under that number, and carries out each of the other's once (RFC 5061 §5.1, §5.2; RFC 6525 §5.1.1, §5.2.1).

use super::common::Core;
use anabranch_base::time::Time;
use anabranch_wire::seq::Serial;
use std::collections::VecDeque;

/// Where a request has left, and when it leaves again; `what` is what left, where that is to be the same.
#[derive(Clone, Debug)]
pub(super) struct Sent<R> {
    pub at: usize,
    pub due: Time,
    pub what: R,
}

/// The request of this end's that is under way.
#[derive(Clone, Debug)]
pub(super) struct Pending<T, R> {
    pub serial: Serial,
    pub change: T,
    /// Unless something has to happen first.
    pub sent: Option<Sent<R>>,
}

/// Requests for changes `T`, which leave as `R`, and the numbers of the peer's.
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

    /// A number for a request.
    pub fn number(&mut self) -> Serial {
        let serial = self.next;
        self.next = serial.add(1);
        serial
    }

    /// The change that has waited longest is under way from now on; false if another one is still, or none waits.
    pub fn begin(&mut self) -> bool {
        if self.pending.is_some() {
            return false;
        }
        let Some(change) = self.waiting.pop_front() else { return false };
        self.pending = Some(Pending { serial: self.number(), change, sent: None });
        true
    }

    /// The request under way that has been sent, if it has this number.
    pub fn asked(&mut self, serial: Serial) -> Option<&mut Pending<T, R>> {
        self.pending.as_mut().filter(|own| own.serial == serial && own.sent.is_some())
    }

    /// A request has had this number.
    pub fn has_asked(&self, serial: Serial) -> bool {
        serial.before(self.next)
    }

    /// When the request under way is to be sent again.
    pub fn due(&self) -> Time {
        let sent = self.pending.as_ref().and_then(|pending| pending.sent.as_ref());
        sent.map_or(Time::MAX, |sent| sent.due)
    }

    /// The peer's request with this number is the next: it is to be carried out.
    pub fn accept(&mut self, serial: Serial) -> bool {
        let next = serial == self.expected;
        if next {
            self.expected = serial.add(1);
        }
        next
    }

    /// The number of the peer's last request.
    pub fn accepted(&self) -> Serial {
        self.expected.add(u32::MAX)
    }
}

impl Core {
    /// A request has not been answered on this path.
    pub fn request_lost(&mut self, now: Time, at: usize) {
        self.paths[at].rtt.back_off();
        self.path_error(now, at);
        self.evacuate();
    }

    /// The next path behind this one that is `good`; this one comes last.
    pub fn path_after(&self, at: usize, good: impl Fn(usize) -> bool) -> usize {
        let n = self.paths.len();
        let mut others = (1..=n).map(|step| (at + step) % n);
        others.find(|&other| good(other)).unwrap_or_else(|| self.preferred())
    }
}
