//! Results of earlier connections to an upstream proxy, for each pair of remote and local address.

use crate::upstream::connect::{HEAD_START, Pair};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A result is used for this time. Afterwards the pair counts as untried.
const VALIDITY: Duration = Duration::from_secs(30);

/// The latest result of each address pair.
#[derive(Default)]
pub struct PairHistory(Mutex<Vec<Entry>>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    pair: Pair,
    at: Instant,
    /// Time to the first valid answer; `None` if the connection had no valid answer.
    answered_in: Option<Duration>,
}

impl PairHistory {
    /// Records a result: the time to the first valid answer, or `None` if there was no valid answer.
    pub fn record(&self, pair: Pair, answered_in: Option<Duration>) {
        self.record_at(pair, answered_in, Instant::now());
    }

    fn record_at(&self, pair: Pair, answered_in: Option<Duration>, now: Instant) {
        let mut entries = self.lock();
        entries.retain(|entry| entry.pair != pair && now.saturating_duration_since(entry.at) < VALIDITY);
        entries.push(Entry { pair, at: now, answered_in });
    }

    /// Removes the result of a pair.
    pub fn forget(&self, pair: Pair) {
        self.lock().retain(|entry| entry.pair != pair);
    }

    /// Returns the time to the first valid answer of the pair's latest connection; `None` if it had no valid answer, or
    /// if there is no recent connection.
    pub fn answered_in(&self, pair: Pair) -> Option<Duration> {
        self.find(pair)?.answered_in
    }

    /// Moves pairs whose latest connection had no valid answer to the end.
    pub fn sort(&self, pairs: &mut [Pair]) {
        pairs.sort_by_key(|pair| self.find(*pair).is_some_and(|entry| entry.answered_in.is_none()));
    }

    fn find(&self, pair: Pair) -> Option<Entry> {
        let now = Instant::now();
        let is_valid =
            |entry: &&Entry| entry.pair == pair && now.saturating_duration_since(entry.at) < VALIDITY;
        self.lock().iter().find(is_valid).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time to wait for an answer before another pair is tried. `answered_in` is the time that the previous
/// answer took.
pub fn answer_timeout(answered_in: Option<Duration>) -> Duration {
    answered_in.map_or(HEAD_START, |answered_in| HEAD_START.max(2 * answered_in))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_pairs_are_last_for_a_while() {
        let pair = |last: u8| (([192, 0, 2, last], 1080).into(), None);
        let history = PairHistory::default();
        let order = |history: &PairHistory| {
            let mut pairs = [pair(1), pair(2), pair(3)];
            history.sort(&mut pairs);
            pairs
        };
        history.record(pair(1), None);
        history.record(pair(3), Some(Duration::from_millis(200)));
        assert_eq!(order(&history), [pair(2), pair(3), pair(1)]);
        assert_eq!(history.answered_in(pair(3)), Some(Duration::from_millis(200)));
        assert_eq!(answer_timeout(history.answered_in(pair(3))), Duration::from_millis(400));
        assert_eq!(answer_timeout(history.answered_in(pair(1))), HEAD_START);
        history.forget(pair(1));
        assert_eq!(order(&history), [pair(1), pair(2), pair(3)]);
        let expired = Instant::now().checked_sub(VALIDITY).expect("the machine has run for a while");
        history.record_at(pair(1), None, expired);
        assert_eq!(order(&history), [pair(1), pair(2), pair(3)]);
    }
}
