//! Measures when paths carry new data after events: after their links came up, or their flow was changed.

use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Arrival, Endpoint};
use core::net::SocketAddr;

/// Minimum interval between two checks of the arrivals, which limits the error of a measured time.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// An event after which the first new data is awaited. Only the last event of each kind counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The last link of an outage came up.
    OutageEnd,
    /// The link with this index came up.
    Link(usize),
    /// The flow was changed.
    Flow,
}

/// First new data at a receiver after each event.
#[derive(Clone, Debug, Default)]
pub struct Watches {
    next_check: Time,
    all: Vec<(Awaited, Returns)>,
}

impl Watches {
    /// Starts to await new data after an event, at a receiver that has already counted the arrivals `before`.
    pub fn begin(&mut self, now: Time, event: Awaited, before: Vec<Arrival>) {
        self.all.retain(|(other, _)| *other != event);
        self.all.push((event, Returns { since: now, before, first: Vec::new() }));
        self.next_check = now;
    }

    /// Checks the arrivals of a receiver that has just been processed.
    #[cold]
    pub fn check<E: Endpoint>(&mut self, now: Time, receiver: &E) {
        if now >= self.next_check {
            self.next_check = now + CHECK_INTERVAL;
            let arrivals = receiver.arrivals();
            self.all.iter_mut().for_each(|(_, returns)| returns.record_arrivals(now, &arrivals));
        }
    }

    /// All events, and the new data after each.
    pub fn iter(&self) -> impl Iterator<Item = &(Awaited, Returns)> {
        self.all.iter()
    }
}

/// Times at which a receiver got the first new data between each pair of addresses after an event.
#[derive(Clone, Debug)]
pub struct Returns {
    since: Time,
    before: Vec<Arrival>,
    first: Vec<(SocketAddr, SocketAddr, Time)>,
}

impl Returns {
    fn record_arrivals(&mut self, now: Time, arrivals: &[Arrival]) {
        for arrival in arrivals {
            let same = |known: &&Arrival| (known.local, known.remote) == (arrival.local, arrival.remote);
            let before = self.before.iter().find(same).map_or(0, |known| known.new);
            let noted = |&(local, remote, _): &_| (local, remote) == (arrival.local, arrival.remote);
            if arrival.new > before && !self.first.iter().any(noted) {
                self.first.push((arrival.local, arrival.remote, now));
            }
        }
    }

    /// Time of the event.
    pub const fn since(&self) -> Time {
        self.since
    }

    /// Pairs of the receiver's and the sender's address, and the time from the start to their first new data.
    pub fn times(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr, Duration)> {
        self.first.iter().map(|&(local, remote, at)| (local, remote, at.since(self.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(remote: u8, new: u64) -> Arrival {
        let [local, remote] = [1, remote].map(|last| SocketAddr::from(([10, 0, 0, last], 1)));
        Arrival { local, remote, new }
    }

    #[test]
    fn return_time_ends_with_the_first_new_data() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let before = vec![arrival(2, 10), arrival(3, 5)];
        let mut returns = Returns { since: at(100), before, first: Vec::new() };
        returns.record_arrivals(at(107), &[arrival(2, 10), arrival(3, 6)]);
        returns.record_arrivals(at(150), &[arrival(2, 11), arrival(3, 7), arrival(4, 0)]);
        let times: Vec<_> = returns.times().map(|(_, remote, after)| (remote, after)).collect();
        let expected = [(3, 7), (2, 50)];
        assert_eq!(
            times,
            expected.map(|(last, after)| (arrival(last, 0).remote, Duration::from_millis(after)))
        );
    }
}
