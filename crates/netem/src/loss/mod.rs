//! Loss on a link: a decision about every packet, in the order of departure.
//!
//! A model is one file: its settings, the keys of its settings, and the decision. The list of models is below.

pub mod bernoulli;
pub mod bit_errors;
pub mod gilbert_elliott;
pub mod list;
pub mod none;
pub mod periodic;
pub mod trace;

use crate::keys::{InvalidValues, Keyed, Kind, Value, Values};
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;

/// A packet whose transmission begins.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Time at which the packet begins to leave.
    pub at: Time,
    /// Length of the IP packet, bytes.
    pub len: u32,
    /// True if the packet carries data of an application.
    pub has_data: bool,
}

/// Decides which packets are lost.
pub trait LossModel {
    /// True if the next packet is lost.
    fn is_next_lost(&mut self, packet: &Departure) -> bool;

    /// True if no packet is ever lost.
    fn is_lossless(&self) -> bool {
        false
    }
}

/// Generates from the list of models all items that depend on it.
macro_rules! models {
    ($($Model:ident in $module:ident),+ $(,)?) => {
        /// Every loss model, in the order of lists for users.
        pub static KINDS: &[&Kind] = &[$(&$module::KIND),+];

        /// The settings of a loss model.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Settings {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Model($module::$Model),)+
        }

        impl Settings {
            /// The kind of loss model to which these settings belong.
            pub fn kind(&self) -> &'static Kind {
                match self { $(Self::$Model(_) => &$module::KIND,)+ }
            }

            /// The settings of the model `kind` with these values of its keys.
            ///
            /// # Errors
            ///
            /// If there is no such kind, or the values are inconsistent.
            pub fn read(kind: &str, values: Values<'_>) -> Result<Self, InvalidValues> {
                $(if kind == $module::KIND.name {
                    return $module::$Model::read(values).map(Self::$Model);
                })+
                Err(crate::keys::unknown(kind, KINDS))
            }

            /// The values of the settings, by key.
            pub fn values(&self) -> Vec<(&'static str, Value)> {
                match self { $(Self::$Model(settings) => settings.values(),)+ }
            }
        }

        /// A loss model with its state.
        #[derive(Clone, Debug)]
        pub enum Loss {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Model($module::State),)+
        }

        impl Loss {
            /// A model with a separate random stream.
            pub fn new(settings: &Settings, rng: Rng) -> Self {
                match settings { $(Settings::$Model(settings) => Self::$Model($module::State::new(settings.clone(), rng)),)+ }
            }
        }

        impl LossModel for Loss {
            #[inline]
            fn is_next_lost(&mut self, packet: &Departure) -> bool {
                match self { $(Self::$Model(model) => model.is_next_lost(packet),)+ }
            }

            fn is_lossless(&self) -> bool {
                match self { $(Self::$Model(model) => model.is_lossless(),)+ }
            }
        }
    };
}

models! {
    None in none,
    Bernoulli in bernoulli,
    GilbertElliott in gilbert_elliott,
    Periodic in periodic,
    BitErrors in bit_errors,
    List in list,
    Trace in trace,
}

#[cfg(test)]
pub(crate) mod testing {
    use super::Departure;
    use anabranch_base::time::Time;

    /// A packet of 1500 bytes with data.
    pub(crate) const DATA: Departure = Departure { at: Time::ZERO, len: 1500, has_data: true };
}
