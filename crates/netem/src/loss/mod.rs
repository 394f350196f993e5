//! Loss on a link: a random draw for every packet, in the order of departure.
//!
//! A model is one file: its settings, the keys of its settings, and the draw. The list of models is below.

pub mod bernoulli;
pub mod gilbert_elliott;
pub mod none;
pub mod periodic;

use crate::keys::{InvalidValues, Keyed, Kind, Value, Values};
use anabranch_base::rng::Rng;

/// Decides which packets are lost.
pub trait LossModel {
    /// Whether the next packet is lost.
    fn is_next_lost(&mut self) -> bool;

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
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Settings {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Model($module::$Model),)+
        }

        impl Settings {
            /// Its kind.
            pub fn kind(&self) -> &'static Kind {
                match self { $(Self::$Model(_) => &$module::KIND,)+ }
            }

            /// The settings of the model `kind` with these values of its keys.
            ///
            /// # Errors
            ///
            /// If there is no such kind.
            pub fn read(kind: &str, values: Values<'_>) -> Result<Self, InvalidValues> {
                $(if kind == $module::KIND.name {
                    return $module::$Model::read(values).map(Self::$Model);
                })+
                Err(crate::keys::unknown(kind, KINDS))
            }

            /// The values of its keys.
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
                match *settings { $(Settings::$Model(settings) => Self::$Model($module::State::new(settings, rng)),)+ }
            }
        }

        impl LossModel for Loss {
            #[inline]
            fn is_next_lost(&mut self) -> bool {
                match self { $(Self::$Model(model) => model.is_next_lost(),)+ }
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
}
