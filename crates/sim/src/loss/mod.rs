//! Loss on a link: a draw for every packet, in the order in which packets leave.

mod bernoulli;
mod gilbert_elliott;

pub use bernoulli::Bernoulli;
pub use gilbert_elliott::GilbertElliott;

use crate::scenario::model;
use multipath::rng::Rng;

/// The loss models by the name used in scenarios, with what they do.
pub const MODELS: &[(&str, &str)] = &[bernoulli::ENTRY, gilbert_elliott::ENTRY];

/// The state of a loss model.
#[derive(Clone, Debug)]
pub enum Loss {
    /// No packet is lost.
    None,
    /// Each packet is lost independently.
    Bernoulli(Bernoulli),
    /// Loss comes in bursts.
    GilbertElliott(GilbertElliott),
}

impl Loss {
    /// The model that a scenario asks for, with a random stream of its own.
    pub fn new(model: &model::Loss, rng: Rng) -> Self {
        match *model {
            model::Loss::None => Self::None,
            model::Loss::Bernoulli { rate } => Self::Bernoulli(Bernoulli::new(rate, rng)),
            model::Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                Self::GilbertElliott(GilbertElliott::new([to_bad, to_good], [loss_good, loss_bad], rng))
            }
        }
    }

    /// Whether the next packet is lost.
    #[inline]
    pub fn loses(&mut self) -> bool {
        match self {
            Self::None => false,
            Self::Bernoulli(model) => model.loses(),
            Self::GilbertElliott(model) => model.loses(),
        }
    }
}
