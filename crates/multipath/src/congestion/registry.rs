//! The table of congestion controls. It feeds the scenario parser, the command line, the Python package and
//! the conformance test: to list an algorithm is to test it.

use super::{CongestionControl, balia, cmt_rpv1, cmt_rpv2, cubic, lia, lia_2011, olia, reno, wvegas};

/// How a coupled control starts, where publications differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SlowStart {
    /// Each path by itself, as in TCP (RFC 6356 §3).
    #[default]
    Rfc,
    /// Coupled like congestion avoidance (Becke2014 eq. 6.11).
    Coupled,
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

/// A congestion control as a setting: which one, and with which options.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The line of the table.
    pub entry: &'static Entry,
    /// What it is set to.
    pub options: Options,
}

impl Choice {
    /// The control called `name`, or known by it as an alias, with the usual options.
    pub fn find(name: &str) -> Option<Self> {
        find(name).map(|entry| Self { entry, options: Options::default() })
    }

    /// Makes one for a connection without paths.
    pub fn build(&self) -> Box<dyn CongestionControl> {
        (self.entry.build)(&self.options)
    }
}

impl PartialEq for Choice {
    fn eq(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name && self.options == other.options
    }
}

/// Every congestion control there is.
pub static ALGORITHMS: &[Entry] = &[
    reno::ENTRY,
    cubic::ENTRY,
    cmt_rpv1::ENTRY,
    cmt_rpv2::ENTRY,
    lia::ENTRY,
    lia_2011::ENTRY,
    olia::ENTRY,
    balia::ENTRY,
    wvegas::ENTRY,
];

/// The congestion control called `name`, or known by it as an alias.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALGORITHMS.iter().find(|entry| entry.name == name || entry.aliases.contains(&name))
}
