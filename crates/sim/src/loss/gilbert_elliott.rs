//! The Gilbert–Elliott model: a good and a bad state, with a transition before every packet.

use multipath::rng::Rng;

/// Name and description.
pub(super) const ENTRY: (&str, &str) = (
    "gilbert-elliott",
    "a good and a bad state (`to_bad`, `to_good`) with their own loss (`loss_good`, `loss_bad`)",
);

/// Two states, each with its own loss probability; the state may change before every packet.
#[derive(Clone, Debug)]
pub struct GilbertElliott {
    // Indexed by state: 0 is good, 1 is bad.
    leave: [f64; 2],
    loss: [f64; 2],
    bad: bool,
    rng: Rng,
}

impl GilbertElliott {
    /// Starts in the good state. `leave` is the probability of leaving the good and the bad state, `loss` the loss
    /// probability within them.
    pub fn new(leave: [f64; 2], loss: [f64; 2], rng: Rng) -> Self {
        Self { leave, loss, bad: false, rng }
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self) -> bool {
        if self.rng.chance(self.leave[usize::from(self.bad)]) {
            self.bad = !self.bad;
        }
        self.rng.chance(self.loss[usize::from(self.bad)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stationary_loss_and_burst_length() {
        // Stationary share of the bad state: 0.01 / (0.01 + 0.25) = 1/26; mean sojourn in it: 4 packets.
        let mut model = GilbertElliott::new([0.01, 0.25], [0.0, 1.0], Rng::new(3));
        let n = 500_000;
        let draws: Vec<bool> = (0..n).map(|_| model.loses()).collect();
        let lost = draws.iter().filter(|&&l| l).count() as f64;
        assert!((lost / f64::from(n) - 1.0 / 26.0).abs() < 0.003, "{}", lost / f64::from(n));
        let bursts = draws.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        assert!((lost / bursts - 4.0).abs() < 0.15, "{}", lost / bursts);
    }

    #[test]
    fn the_states_by_hand() {
        // Leaving is certain in both states: bad, good, bad, good, …
        let mut model = GilbertElliott::new([1.0, 1.0], [0.0, 1.0], Rng::new(1));
        assert_eq!([(); 4].map(|()| model.loses()), [true, false, true, false]);
    }
}
