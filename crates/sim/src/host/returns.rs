//! Measures when paths carry new data again after their links came up.

use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Arrival, Endpoint};
use core::net::SocketAddr;

/// Minimum time between two checks of the arrivals, and so the error of a measured recovery time.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Times at which a receiver got the first new data between each pair of addresses, after the links came up.
#[derive(Clone, Debug)]
pub struct Returns {
    since: Time,
    next_check: Time,
    before: Vec<Arrival>,
    first: Vec<(SocketAddr, SocketAddr, Time)>,
}

impl Returns {
    /// Starts at `since` for a receiver that has already counted the arrivals `before`.
    pub const fn new(since: Time, before: Vec<Arrival>) -> Self {
        Self { since, next_check: since, before, first: Vec::new() }
    }

    /// Checks the arrivals of a receiver that has just been processed.
    #[cold]
    pub fn check<E: Endpoint>(&mut self, now: Time, receiver: &E) {
        if now >= self.next_check {
            self.next_check = now + CHECK_INTERVAL;
            self.record_arrivals(now, &receiver.report().arrivals);
        }
    }

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
    fn first_new_data_counts_from_the_return() {
        let at = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut returns = Returns::new(at(100), vec![arrival(2, 10), arrival(3, 5)]);
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
