//! What the table of congestion controls says of one.

use super::CongestionControl;

/// How a coupled control starts, where publications differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SlowStart {
    /// Each path by itself, as in TCP (RFC 6356 §3).
    #[default]
    Rfc,
    /// Coupled like congestion avoidance (Becke2014 eq. 6.11).
    Coupled,
}

/// Which paths of a connection a coupled control counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Couple {
    /// All of them (RFC 6356 §2: whether they share a bottleneck is not known).
    #[default]
    All,
    /// Those that share a bottleneck, as far as their delays tell (RFC 8382); all of them until they do. A path that shares
    /// none is a connection of its own (Ferlin et al.: Revisiting Congestion Control for Multipath TCP with Shared Bottleneck
    /// Detection, INFOCOM 2016).
    Shared,
}

/// What a control takes as the sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Losses and ECN echoes.
    Loss,
    /// Growing round-trip times, and losses.
    Delay,
    /// A model of the path: its delivery rate and its round-trip time.
    Model,
}

/// What a scenario may choose about an algorithm, beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Slow start of `lia`; the others have one only.
    pub slow_start: SlowStart,
    /// Which paths a coupled one couples.
    pub couple: Couple,
}

/// One congestion control of the table.
#[derive(Debug)]
pub struct Entry {
    /// The name used in scenarios.
    pub name: &'static str,
    /// Other names that publications use for it and scenarios may, too.
    pub aliases: &'static [&'static str],
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it is defined.
    pub source: &'static str,
    /// Whether the paths of a connection share their growth.
    pub coupled: bool,
    /// What it goes by.
    pub signal: Signal,
    /// Makes one for a connection without paths.
    pub build: fn(&Options) -> Box<dyn CongestionControl>,
}
