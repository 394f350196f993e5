//! Structure of the table of keys: shape, default and protocols of each key.

use super::choices::{Choice, Protocols};
use anabranch_netem::keys::Word;

/// A table of a scenario file.
#[derive(Debug)]
pub(super) struct Section {
    /// In the notation of scenarios, for the reference page.
    pub title: &'static str,
    /// Subject of the section.
    pub doc: &'static str,
    /// Keys of the section, in groups that several sections use.
    pub keys: &'static [&'static [Key]],
}

/// A key of a section. The same name may occur for different protocols.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub name: &'static str,
    pub shape: Shape,
    pub default: Default,
    /// The protocols whose flows have the key; all for keys that do not belong to flows.
    pub protocols: Protocols,
    /// True for a setting of a protocol. The protocol has its default, so checked tables contain only given values of it.
    pub is_setting: bool,
    /// One or two sentences for the reference page and for editors.
    pub doc: &'static str,
}

/// The value if a key is not given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Default {
    /// The key has no default and must be given; the text is an example.
    Required(&'static str),
    /// No value; the text explains the result.
    Nothing(&'static str),
    /// The value with this TOML text.
    Is(&'static str),
    /// The value by protocol.
    By(&'static [(Protocols, &'static str)]),
}

/// The shape of a key's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Any text.
    Text,
    /// The name of a node, link or flow: letters, digits, `-` and `_`.
    Name,
    /// The name of a link, with or without a version of IP.
    Path,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Integer { min: u64, max: u64 },
    /// A number from `min` to `max`.
    Number { min: f64, max: f64 },
    /// A number from `min` (exclusive) upwards.
    Above { min: f64 },
    /// A duration; zero only if allowed.
    Time { zero: bool },
    /// A rate; zero only if allowed.
    Rate { zero: bool },
    /// A size greater than zero.
    Size,
    /// A size greater than zero, or `auto`.
    Buffer,
    /// Length of a packet: a number of bytes, or a size with its unit.
    Octets { min: u64, max: u64 },
    /// The capacity of a queue: packets or bytes, at least one.
    Limit,
    /// A number of packets, at least one.
    Packets,
    /// One name of a list.
    OneOf(fn() -> Vec<Choice>),
    /// A word that a kind lists.
    Words(&'static [Word]),
    /// A path manager, with its parameter after a colon.
    PathManager,
    /// A table of this kind.
    Section(fn() -> &'static Section),
    /// A table whose tag determines its other keys.
    Kinds(fn() -> &'static Kinds),
    /// A list with `min` to `max` values.
    List { of: &'static Shape, min: usize, max: usize },
    /// Several tables of this kind, `[[…]]`.
    Tables(fn() -> &'static Section),
    /// Any of these shapes, which differ in their TOML types.
    Either(&'static [Shape]),
}

/// Tables distinguished by a tag.
#[derive(Debug)]
pub(super) struct Kinds {
    /// The key that distinguishes the variants.
    pub tag: &'static str,
    /// The word in messages and headings, for example "queue".
    pub what: &'static str,
    /// The kind of a table without a tag, if there is a default.
    pub default: Option<&'static str>,
    pub all: &'static [Kind],
}

/// One kind of a tagged table.
#[derive(Debug)]
pub(super) struct Kind {
    pub name: &'static str,
    /// The defining publication.
    pub source: &'static str,
    /// Keys besides the tag; `doc` is the summary.
    pub section: Section,
}

impl Section {
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.keys.iter().flat_map(|group| group.iter())
    }

    /// The key with this name, for flows of `protocol` if given.
    pub fn key(&self, name: &str, protocol: Option<Protocols>) -> Option<&'static Key> {
        let takes = |key: &&Key| protocol.is_none_or(|protocol| key.protocols.contains(protocol));
        self.keys().find(|key| key.name == name && takes(key))
    }

    /// Names of the keys of flows of `protocol`, each once.
    pub fn names(&self, protocol: Option<Protocols>) -> Vec<&'static str> {
        let takes = |key: &&Key| protocol.is_none_or(|protocol| key.protocols.contains(protocol));
        let mut names: Vec<&'static str> = Vec::new();
        for key in self.keys().filter(takes) {
            if !names.contains(&key.name) {
                names.push(key.name);
            }
        }
        names
    }
}

impl Kinds {
    pub fn kind(&self, name: &str) -> Option<&'static Kind> {
        self.all.iter().find(|kind| kind.name == name)
    }

    pub fn names(&self) -> Vec<&'static str> {
        self.all.iter().map(|kind| kind.name).collect()
    }
}

impl Kind {
    /// The kind in documents and messages.
    pub fn choice(&self) -> Choice {
        Choice { name: self.name, aliases: &[], summary: self.section.doc, source: self.source }
    }
}

impl Key {
    /// A key that does not belong to flows of particular protocols.
    pub const fn new(name: &'static str, shape: Shape, default: Default, doc: &'static str) -> Self {
        Self { name, shape, default, protocols: Protocols::ALL, is_setting: false, doc }
    }

    /// Restricts the key to flows of these protocols.
    pub const fn only(mut self, protocols: Protocols) -> Self {
        self.protocols = protocols;
        self
    }

    /// The TOML text of the default for `protocol`, if the default is a value.
    pub fn default_text(&self, protocol: Option<Protocols>) -> Option<&'static str> {
        match &self.default {
            Default::Is(text) => Some(text),
            Default::By(list) => {
                let protocol = protocol?;
                list.iter().find(|(protocols, _)| protocols.contains(protocol)).map(|(_, text)| *text)
            }
            Default::Required(_) | Default::Nothing(_) => None,
        }
    }
}

impl Shape {
    /// True if an override of it is always text, even if it looks like another type.
    pub fn is_text(&self) -> bool {
        matches!(
            self,
            Self::Text
                | Self::Name
                | Self::Path
                | Self::Time { .. }
                | Self::Rate { .. }
                | Self::Size
                | Self::Limit
                | Self::Packets
                | Self::OneOf(_)
                | Self::Words(_)
        ) || matches!(self, Self::PathManager)
    }
}
