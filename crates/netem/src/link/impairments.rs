//! What makes frames arrive later than the delay says: jitter and reordering.

use crate::{LinkModel, Reorder};
use multipath::rng::Rng;
use multipath::time::Duration;

/// Random additions to the delay of a link.
#[derive(Clone, Debug)]
pub struct Impairments {
    jitter: Duration,
    jitter_rng: Rng,
    reorder: Option<Reorder>,
    reorder_rng: Rng,
}

impl Impairments {
    /// What the model asks for, if anything.
    pub fn new(model: &LinkModel, rng: &Rng) -> Option<Self> {
        let reorder = model.reorder.filter(|reorder| reorder.rate > 0.0);
        (model.jitter > Duration::ZERO || reorder.is_some()).then(|| Self {
            jitter: model.jitter,
            jitter_rng: rng.fork("jitter"),
            reorder,
            reorder_rng: rng.fork("reorder"),
        })
    }

    /// Uniform between zero and the jitter.
    pub fn jitter(&mut self) -> Duration {
        Duration::from_nanos(self.jitter_rng.between(0, self.jitter.as_nanos()))
    }

    /// For how long the next frame is held back so that others overtake it, if it is.
    pub fn held_back(&mut self) -> Option<Duration> {
        let reorder = self.reorder?;
        self.reorder_rng.chance(reorder.rate).then_some(reorder.delay)
    }
}
