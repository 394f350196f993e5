//! The table of congestion controls. The scenario parser, the command line, the Python package and the conformance test
//! read it, so every listed algorithm is tested.

use super::shared::Shared;
use super::{CongestionControl, Couple, Entry, Options};
use crate::registry::{Refused, Registry};

/// A congestion control as a setting: the entry and its options.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The entry in the table of congestion controls.
    pub entry: &'static Entry,
    /// The options of the congestion control.
    pub options: Options,
}

impl Choice {
    /// Returns the congestion control with this name or alias, with default options.
    pub fn find(name: &str) -> Option<Self> {
        find(name).map(|entry| Self { entry, options: Options::default() })
    }

    /// Creates the congestion control for a connection without paths.
    pub fn build(&self) -> Box<dyn CongestionControl> {
        let control = (self.entry.build)(&self.options);
        match self.options.couple {
            Couple::Shared if self.entry.coupled => Box::new(Shared::new(control)),
            Couple::All | Couple::Shared => control,
        }
    }
}

impl PartialEq for Choice {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name && self.options == other.options
    }
}

/// All congestion controls.
pub static ALGORITHMS: &[Entry] = &[
    super::reno::ENTRY,
    super::cubic::ENTRY,
    super::cmt_rpv1::ENTRY,
    super::cmt_rpv2::ENTRY,
    super::lia::ENTRY,
    super::lia_2011::ENTRY,
    super::olia::ENTRY,
    super::balia::ENTRY,
    super::wvegas::ENTRY,
    super::vegas::ENTRY,
    super::westwood::ENTRY,
    super::ledbat::ENTRY,
    super::bbr::ENTRY,
];

static REGISTRY: Registry<Entry> = Registry::new(ALGORITHMS);

/// Returns the entry of the congestion control with this name or alias.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.find(name)
}

/// Returns the entries of all congestion controls: those of the table, then the registered ones.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    REGISTRY.all()
}

/// Registers a congestion control of another crate until the process ends, so that scenarios can name it. A program must
/// call this before it reads such a scenario.
///
/// # Errors
///
/// If another entry has the name or an alias, or if one of these is not a valid name.
pub fn register(entry: Entry) -> Result<&'static Entry, Refused> {
    REGISTRY.add(entry)
}
