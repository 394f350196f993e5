//! How the table of keys is built: what a key takes, what it is without the user's word, and who takes it.

use super::choices::{Choice, Protocols};

/// A table of a scenario file.
#[derive(Debug)]
pub(super) struct Section {
    /// As users write it, for the reference page.
    pub title: &'static str,
    /// What it describes.
    pub doc: &'static str,
    /// Its keys, in groups that sections share.
    pub keys: &'static [&'static [Key]],
}

/// A key of a section. A name may occur twice for different protocols.
#[derive(Debug)]
pub(super) struct Key {
    pub name: &'static str,
    pub shape: Shape,
    pub default: Default,
    /// Which flows take it; all for keys that are not about flows.
    pub protocols: Protocols,
    /// One or two sentences for the reference page and for editors.
    pub doc: &'static str,
}

/// What holds where a key is not given.
#[derive(Debug)]
pub(super) enum Default {
    /// It must be given, for example like this.
    Required(&'static str),
    /// Nothing; in words, what that means.
    Nothing(&'static str),
    /// The value that this TOML text says.
    Is(&'static str),
    /// That, by protocol.
    By(&'static [(Protocols, &'static str)]),
}

/// What a key takes.
#[derive(Debug)]
pub(super) enum Shape {
    /// Any text.
    Text,
    /// The name of a node, link or flow: letters, digits, `-` and `_`.
    Name,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Integer { min: u64, max: u64 },
    /// A number from `min` to `max`.
    Number { min: f64, max: f64 },
    /// A number from `min` (exclusive) upwards.
    Above { min: f64 },
    /// A time; zero only where it makes sense.
    Time { zero: bool },
    /// A rate greater than zero.
    Rate,
    /// A size greater than zero.
    Size,
    /// A size greater than zero, or `auto`.
    Buffer,
    /// Bytes of a packet: a number, or a size with its unit.
    Octets { min: u64, max: u64 },
    /// The capacity of a queue: packets or bytes, at least one.
    Limit,
    /// One word of a list.
    OneOf(fn() -> Vec<Choice>),
    /// A path manager, with its parameter after a colon.
    PathManager,
    /// A table of this kind.
    Section(&'static Section),
    /// A table whose tag decides what else it takes.
    Kinds(fn() -> &'static Kinds),
    /// A list of so many values.
    List { of: &'static Shape, min: usize, max: usize },
    /// Several tables of this kind, `[[…]]`.
    Tables(&'static Section),
    /// Any of these; they differ in their TOML types.
    Either(&'static [Shape]),
}

/// Tables told apart by a tag.
#[derive(Debug)]
pub(super) struct Kinds {
    /// The key that tells them apart.
    pub tag: &'static str,
    /// What it is called in messages and headings, as in "queue".
    pub what: &'static str,
    /// The kind of a table without a tag, if there is a natural one.
    pub default: Option<&'static str>,
    pub all: &'static [Kind],
}

/// One kind of a tagged table.
#[derive(Debug)]
pub(super) struct Kind {
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Its keys beside the tag; `doc` is its summary.
    pub section: Section,
}

impl Section {
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.keys.iter().flat_map(|group| group.iter())
    }

    /// The key called `name`, for flows of `protocol` if that matters.
    pub fn key(&self, name: &str, protocol: Option<Protocols>) -> Option<&'static Key> {
        let takes = |key: &&Key| protocol.is_none_or(|protocol| key.protocols.contains(protocol));
        self.keys().find(|key| key.name == name && takes(key))
    }

    /// Names of the keys that flows of `protocol` take, each once.
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
    /// The kind as documents and messages show it.
    pub fn choice(&self) -> Choice {
        Choice { name: self.name, aliases: &[], summary: self.section.doc, source: self.source }
    }
}

impl Key {
    /// A key of anything but a flow.
    pub const fn new(name: &'static str, shape: Shape, default: Default, doc: &'static str) -> Self {
        Self { name, shape, default, protocols: Protocols::ALL, doc }
    }

    /// A key of flows with these protocols.
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
    /// Whether an override of it is text even where it looks like something else.
    pub fn is_text(&self) -> bool {
        matches!(
            self,
            Self::Text
                | Self::Name
                | Self::Time { .. }
                | Self::Rate
                | Self::Size
                | Self::Limit
                | Self::OneOf(_)
        ) || matches!(self, Self::PathManager)
    }
}
