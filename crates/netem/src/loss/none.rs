//! No loss.

use super::{Departure, LossModel};
use crate::keys::{InvalidValues, Keyed, Kind, Value, Values};
use anabranch_base::rng::Rng;

/// The kind in scenarios.
pub static KIND: Kind = Kind { name: "none", summary: "no packet is lost", source: "", keys: &[] };

/// Settings of the model without loss; it has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct None;

impl Keyed for None {
    fn read(_: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self)
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}

/// A model without loss.
#[derive(Clone, Debug)]
pub struct State;

impl State {
    pub(super) fn new(_: None, _: Rng) -> Self {
        Self
    }
}

impl LossModel for State {
    #[inline]
    fn is_next_lost(&mut self, _: &Departure) -> bool {
        false
    }

    fn is_lossless(&self) -> bool {
        true
    }
}
