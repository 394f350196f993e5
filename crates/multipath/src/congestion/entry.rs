//! Entries of the table of congestion controls.

use super::CongestionControl;
use crate::registry::Named;
use core::fmt::{self, Debug, Formatter};

/// Slow start of a coupled congestion control. Publications differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SlowStart {
    /// Each path has its own slow start, as in TCP (RFC 6356 §3).
    #[default]
    Rfc,
    /// Coupled like congestion avoidance (Becke2014 eq. 6.11).
    Coupled,
}

/// The paths of a connection that a coupled control couples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Couple {
    /// All paths (RFC 6356 §2: shared bottlenecks are not known).
    #[default]
    All,
    /// Paths that share a bottleneck according to their delays (RFC 8382), or all paths while no result is known. A
    /// path that shares no bottleneck is treated like a separate connection (Ferlin et al.: Revisiting Congestion
    /// Control for Multipath TCP with Shared Bottleneck Detection, INFOCOM 2016).
    Shared,
}

/// The congestion signal of a control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Losses and ECN echoes.
    Loss,
    /// Growing round-trip times, and losses.
    Delay,
    /// A model of the path: its delivery rate and its round-trip time.
    Model,
}

/// Options of an algorithm in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Slow start of `lia`. Other algorithms ignore this option.
    pub slow_start: SlowStart,
    /// The paths that a coupled control couples.
    pub couple: Couple,
}

/// A function that creates a congestion control for a connection without paths.
pub type Build = &'static (dyn Fn(&Options) -> Box<dyn CongestionControl> + Send + Sync);

/// A congestion control in the table of all congestion controls.
pub struct Entry {
    /// The name used in scenarios.
    pub name: &'static str,
    /// Names in publications that scenarios may use as well.
    pub aliases: &'static [&'static str],
    /// Description in one line.
    pub summary: &'static str,
    /// The defining publication.
    pub source: &'static str,
    /// True if the growth of one path depends on the other paths of the connection.
    pub coupled: bool,
    /// The signal to which the congestion control reacts.
    pub signal: Signal,
    /// Creates the congestion control for a connection without paths.
    pub build: Build,
}

impl Debug for Entry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Named for Entry {
    const KIND: &'static str = "congestion control";

    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }
}
