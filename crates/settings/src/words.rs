//! Words of scenarios, each with the value that it stands for.

use anabranch_multipath::buffer::{Sides, SplittingOn};
use anabranch_multipath::congestion::{self, Couple, SlowStart};
use anabranch_multipath::{path_manager, scheduler};

/// A named choice of a key: its name, description and value.
#[derive(Debug)]
pub struct Named<T: 'static> {
    /// The word.
    pub name: &'static str,
    /// Meaning of the word.
    pub summary: &'static str,
    /// Value of the word.
    pub value: T,
}

/// A named choice.
pub const fn named<T>(name: &'static str, summary: &'static str, value: T) -> Named<T> {
    Named { name, summary, value }
}

/// A word in documents and messages.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// Aliases of the word.
    pub aliases: &'static [&'static str],
    /// Meaning of the word.
    pub summary: &'static str,
    /// The defining publication; empty if none is needed.
    pub source: &'static str,
}

/// Values that scenarios write as words.
pub trait Words: Copy + PartialEq + 'static {
    /// All values with their words.
    const WORDS: &'static [Named<Self>];
}

impl Words for SlowStart {
    const WORDS: &'static [Named<Self>] = &[
        named("rfc", "each path independently (RFC 6356)", SlowStart::Rfc),
        named("coupled", "coupled like congestion avoidance (Becke2014 eq. 6.11)", SlowStart::Coupled),
    ];
}

impl Words for Couple {
    const WORDS: &'static [Named<Self>] = &[
        named("all", "all paths (RFC 6356)", Couple::All),
        named(
            "shared",
            "the paths that share a detected bottleneck (RFC 8382), and all paths until the first result",
            Couple::Shared,
        ),
    ];
}

impl Words for Sides {
    const WORDS: &'static [Named<Self>] = &[
        named("none", "a path may fill both buffers", Sides::None),
        named("sender", "each path has its share of the send buffer", Sides::Sender),
        named("receiver", "each path has its share of the advertised window", Sides::Receiver),
        named("both", "each path has its share of both", Sides::Both),
    ];
}

impl Words for SplittingOn {
    const WORDS: &'static [Named<Self>] = &[
        named("outstanding", "bytes in flight count", SplittingOn::Outstanding),
        named("buffered", "bytes kept in the send buffer count", SplittingOn::Buffered),
    ];
}

/// The words of a list as documents and messages show them.
pub fn choices<T>(list: &'static [Named<T>]) -> Vec<Choice> {
    let choice = |entry: &'static Named<T>| Choice {
        name: entry.name,
        aliases: &[],
        summary: entry.summary,
        source: "",
    };
    list.iter().map(choice).collect()
}

/// The words of a type.
pub fn words<T: Words>() -> Vec<Choice> {
    choices(T::WORDS)
}

/// The value with this name, if the list has one.
pub fn find<T: Copy>(list: &'static [Named<T>], name: &str) -> Option<T> {
    list.iter().find(|entry| entry.name == name).map(|entry| entry.value)
}

/// The value of a name that was checked to be in the list.
pub fn pick<T: Copy>(list: &'static [Named<T>], name: &str) -> T {
    list.iter().find(|entry| entry.name == name).expect("checked against the same list").value
}

/// The word for a value.
pub fn word<T: PartialEq>(list: &'static [Named<T>], value: &T) -> &'static str {
    list.iter().find(|entry| entry.value == *value).expect("the list names every value").name
}

/// The congestion controls.
pub fn congestion() -> Vec<Choice> {
    let choice = |entry: &'static congestion::Entry| Choice {
        name: entry.name,
        aliases: entry.aliases,
        summary: entry.summary,
        source: entry.source,
    };
    congestion::all().map(choice).collect()
}

/// The schedulers.
pub fn schedulers() -> Vec<Choice> {
    let choice = |entry: &'static scheduler::Entry| Choice {
        name: entry.name,
        aliases: &[],
        summary: entry.summary,
        source: entry.source,
    };
    scheduler::all().map(choice).collect()
}

/// The schedulers for protocols that hand data to the paths in the order of the stream.
pub fn ordering_schedulers() -> Vec<Choice> {
    let places = |name: &str| scheduler::find(name).is_some_and(|entry| entry.places);
    schedulers().into_iter().filter(|choice| !places(choice.name)).collect()
}

/// The path managers, with the notation of their parameters.
pub fn path_managers() -> Vec<Choice> {
    let choice = |entry: &'static path_manager::Entry| Choice {
        name: entry.usage,
        aliases: &[],
        summary: entry.summary,
        source: "",
    };
    path_manager::PATH_MANAGERS.iter().map(choice).collect()
}
