//! Order and reliability of the messages of an SCTP flow.

use super::options::FlowOptions;
use anabranch_base::rng::Rng;
use anabranch_base::time::Duration;
use anabranch_endpoint::Reliability;

/// Draws order and reliability of each message of one end, in the same sequence in each test with the same seed.
#[derive(Clone, Debug)]
pub struct Delivery {
    rng: Rng,
    unordered: f64,
    unreliable: f64,
    /// The limit of unreliable messages.
    limit: Reliability,
}

impl Delivery {
    /// The delivery of a flow with these options.
    pub fn new(options: &FlowOptions, rng: Rng) -> Self {
        let lifetime =
            options.rtx_timeout_ms.map(|ms| Reliability::Lifetime(Duration::from_millis(ms.into())));
        let limit = lifetime.unwrap_or(Reliability::Retransmissions(options.rtx_trials.unwrap_or(0)));
        Self { rng, unordered: options.unordered, unreliable: options.unreliable, limit }
    }

    /// Whether the next message is unordered, and its reliability.
    pub fn draw(&mut self) -> (bool, Reliability) {
        let unordered = self.rng.chance(self.unordered);
        let is_limited = self.rng.chance(self.unreliable);
        (unordered, if is_limited { self.limit } else { Reliability::Full })
    }

    /// True if all messages arrive, in the order in which they were sent.
    pub fn keeps_sequence(&self) -> bool {
        self.unordered == 0.0 && self.unreliable == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(options: &FlowOptions, seed: u64) -> Vec<(bool, Reliability)> {
        let mut delivery = Delivery::new(options, Rng::new(seed));
        (0..10_000).map(|_| delivery.draw()).collect()
    }

    #[test]
    fn fractions_are_drawn_equally_for_equal_seeds() {
        let options = FlowOptions { unordered: 0.25, unreliable: 0.5, ..FlowOptions::default() };
        let first = drawn(&options, 7);
        assert_eq!(first, drawn(&options, 7));
        assert_ne!(first, drawn(&options, 8));
        // Three standard deviations of 10,000 draws are 130 and 150.
        let unordered = first.iter().filter(|(unordered, _)| *unordered).count();
        let once = Reliability::Retransmissions(0);
        let unreliable = first.iter().filter(|(_, reliability)| *reliability == once).count();
        assert!((2370..=2630).contains(&unordered), "{unordered}");
        assert!((4850..=5150).contains(&unreliable), "{unreliable}");
    }

    #[test]
    fn fractions_of_none_and_all_are_exact() {
        let none = drawn(&FlowOptions::default(), 1);
        assert!(none.iter().all(|message| *message == (false, Reliability::Full)));
        let options = FlowOptions {
            unordered: 1.0,
            unreliable: 1.0,
            rtx_timeout_ms: Some(250),
            ..FlowOptions::default()
        };
        let lifetime = Reliability::Lifetime(Duration::from_millis(250));
        assert!(drawn(&options, 1).iter().all(|message| *message == (true, lifetime)));
    }
}
