//! Keys of flows: those of this crate, and the settings of their protocols.

use super::{JOINED, WORKLOAD, protocols};
use crate::choices::{CODECS, FLOW_DIRECTIONS, PROTOCOLS, Protocols, STACKS, choices};
use crate::keys::{Default, Key, Section, Shape};
use crate::written::Written;
use anabranch_settings::key::{self, Part, Place, Takes};
use anabranch_settings::protocol::{Protocol, keys};
use anabranch_settings::setting::Value;
use std::sync::LazyLock;

/// `[[flow]]`.
pub(crate) fn flow() -> &'static Section {
    static FLOW: LazyLock<Section> = LazyLock::new(|| Section {
        title: "[[flow]]",
        doc: "A flow of data from one host to another.",
        keys: Vec::leak(vec![ENDS, COMMON, settings()]),
    });
    &FLOW
}

/// `[flow_defaults]`.
pub(crate) fn flow_defaults() -> &'static Section {
    static FLOW_DEFAULTS: LazyLock<Section> = LazyLock::new(|| Section {
        title: "[flow_defaults]",
        doc: "Takes the keys of a flow except its name and ends. A key applies to the flows whose protocol has it.",
        keys: Vec::leak(vec![COMMON, settings()]),
    });
    &FLOW_DEFAULTS
}

/// The keys of `[[flow]]`: the settings of all protocols, and the keys that this crate declares.
fn settings() -> &'static [Key] {
    static SETTINGS: LazyLock<Vec<Key>> = LazyLock::new(|| {
        let defaults = defaults();
        let mut all: Vec<Key> = keys().iter().map(|key| setting(key, &defaults)).collect();
        for own in OWN {
            let at = all.iter().position(|key| key.name == own.before).expect("a key of the protocol");
            all.insert(at, own.key);
        }
        all
    });
    &SETTINGS
}

/// A protocol and its settings by default.
type Defaults = (Protocols, Vec<(&'static key::Key, Value)>);

/// The settings of each protocol by default.
fn defaults() -> Vec<Defaults> {
    PROTOCOLS.iter().map(|entry| (entry.value, Protocol::new(entry.value).entries())).collect()
}

fn setting(key: &key::Key, defaults: &[Defaults]) -> Key {
    Key {
        name: key.name,
        shape: shape(&key.takes),
        default: default(key, defaults),
        protocols: key.protocols,
        is_setting: true,
        doc: key.text,
    }
}

fn shape(takes: &Takes) -> Shape {
    match *takes {
        Takes::Flag => Shape::Flag,
        Takes::Integer { min, max } => Shape::Integer { min, max },
        Takes::Number { min, max } => Shape::Number { min, max },
        Takes::Time { zero } => Shape::Time { zero },
        Takes::Buffer => Shape::Buffer,
        Takes::OneOf(list) => Shape::OneOf(list),
        Takes::PathManager => Shape::PathManager,
        Takes::Integers { min, max } => {
            Shape::List { of: Box::leak(Box::new(Shape::Integer { min, max })), min: 0, max: 65_535 }
        }
        Takes::Either(any) => Shape::Either(Vec::leak(any.iter().map(shape).collect())),
    }
}

/// The default of a key, by protocol if they differ.
fn default(key: &key::Key, defaults: &[Defaults]) -> Default {
    if let Some(meaning) = key.absent {
        return Default::Nothing(meaning);
    }
    let mut texts: Vec<(Protocols, &'static str)> = Vec::new();
    for (protocol, values) in defaults.iter().filter(|(protocol, _)| key.protocols.contains(*protocol)) {
        let (_, value) =
            values.iter().find(|(known, _)| known.name == key.name).expect("a key of the protocol");
        let text = Written::from(value.clone()).toml();
        match texts.iter_mut().find(|(_, known)| *known == text) {
            Some((protocols, _)) => *protocols = protocols.or(*protocol),
            None => texts.push((*protocol, String::leak(text))),
        }
    }
    match texts[..] {
        [(_, text)] => Default::Is(text),
        _ => Default::By(Vec::leak(texts)),
    }
}

/// A key of a flow that its protocol does not have: it names links, or belongs to the application.
pub(crate) struct OwnKey {
    pub key: Key,
    /// The protocol's key before which it stands in documents.
    pub before: &'static str,
    /// Position of the key in the canonical form.
    pub place: Place,
}

/// The keys of this crate among the settings of protocols.
pub(crate) static OWN: &[OwnKey] = &[
    OwnKey {
        key: Key::new(
            "initial_path",
            Shape::Either(&[Shape::Path, Shape::List { of: &Shape::Path, min: 1, max: 2 }]),
            Default::Nothing("the first connected by a route"),
            "The path of tcp, and the first path of mptcp: the name of a link of either host, whose address is \
             used, or of one link of each host. On links of both versions of IP, `:v4` or `:v6` after the name \
             selects one: `\"wlan:v6\"`.",
        )
        .only(Protocols::ANY_TCP),
        before: "scheduler",
        place: Place { part: Part::Protocol, unless_default: true },
    },
    OwnKey {
        key: Key::new(
            "backup",
            Shape::List { of: &Shape::Name, min: 0, max: 255 },
            Default::Is("[]"),
            "Links of the two hosts whose addresses are used only while no other path is usable (MP_PRIO).",
        )
        .only(Protocols::MPTCP),
        before: "syn_retransmission",
        place: Place { part: Part::Multipath, unless_default: false },
    },
    OwnKey {
        key: Key::new(
            "initial_path",
            Shape::Either(&[
                Shape::Integer { min: 0, max: 254 },
                Shape::Path,
                Shape::List { of: &Shape::Path, min: 2, max: 2 },
            ]),
            Default::Nothing("the first connected by a route"),
            "The first destination of the association: the name of a link of the receiving host, or its index \
             among them, from 0. The names of one link of each host are the first pair of addresses: the other \
             destinations then get the other sources. On links of both versions of IP, `:v4` or `:v6` after the name \
             selects one: `\"wlan:v6\"`.",
        )
        .only(Protocols::ANY_SCTP),
        before: "nr_sack",
        place: Place { part: Part::Multipath, unless_default: true },
    },
    OwnKey {
        key: Key::new("ordered", Shape::Flag, Default::Is("true"), "Deliver messages in order within each stream.")
            .only(Protocols::ANY_SCTP),
        before: "streams",
        place: Place { part: Part::Protocol, unless_default: false },
    },
];

static ENDS: &[Key] = &[
    Key::new("name", Shape::Name, JOINED, "A unique name for results and overrides."),
    Key::new("from", Shape::Name, Default::Required("\"A\""), "The sending host: a node of a link."),
    Key::new("to", Shape::Name, Default::Required("\"B\""), "The receiving host."),
    Key::new(
        "through",
        Shape::Name,
        Default::Nothing("directly to the receiving host"),
        "A host with a proxy, at which the flow's connection ends; a TCP connection carries the data \
                 on to `to`. The other keys of the flow and its paths belong to the connection to the proxy; \
                 the connection behind it uses those that TCP has.",
    )
    .only(Protocols::ANY_TCP),
];

static START: Section = Section {
    title: "start = { … }",
    doc: "A random start, drawn for each seed, so that repetitions without other randomness differ.",
    keys: &[&[Key::new(
        "uniform",
        Shape::List { of: &Shape::Time { zero: true }, min: 2, max: 2 },
        Default::Required("[\"0 s\", \"1 s\"]"),
        "Uniform between the two times.",
    )]],
};

static STACKS_BY_END: Section = Section {
    title: "stack = { … }",
    doc: "The stack of each end.",
    keys: &[&[
        Key::new(
            "from",
            Shape::OneOf(|| choices(STACKS)),
            Default::Nothing("the world's"),
            "The stack of the `from` host.",
        ),
        Key::new(
            "to",
            Shape::OneOf(|| choices(STACKS)),
            Default::Nothing("the world's"),
            "The stack of the `to` host.",
        ),
    ]],
};

static COMMON: &[Key] = &[
    Key::new("protocol", Shape::OneOf(protocols), Default::Required("\"tcp\""), "The transport protocol."),
    Key::new(
        "start",
        Shape::Either(&[Shape::Time { zero: true }, Shape::Section(|| &START)]),
        Default::Is("\"0 s\""),
        "Start of the flow; before the end of the run.",
    ),
    Key::new(
        "stop",
        Shape::Time { zero: false },
        Default::Nothing("at the end of the run"),
        "The time at which the application stops writing.",
    ),
    Key::new(
        "direction",
        Shape::OneOf(|| choices(FLOW_DIRECTIONS)),
        Default::Is("\"forward\""),
        "Direction of the data; with `request-response`, of the requests. The `from` host connects in any \
         case. Paths are reported from the point of view of the writing host; the opposite data of `both`, \
         and responses, have their own keys in results.",
    ),
    Key::new(
        "workload",
        Shape::Kinds(|| &WORKLOAD),
        Default::Is("{ kind = \"saturated\" }"),
        "Workload of the application. Required for udp.",
    ),
    Key::new(
        "stack",
        Shape::Either(&[Shape::OneOf(|| choices(STACKS)), Shape::Section(|| &STACKS_BY_END)]),
        Default::Nothing("the world's"),
        "The protocol implementation of both ends, or of each end. With `--world kernel`, `user` puts Anabranch's own \
         stack in place of the kernel's; the simulator ignores the key.",
    )
    .only(Protocols::ANY_TCP),
    Key::new(
        "voice",
        Shape::OneOf(|| choices(CODECS)),
        Default::Nothing("no rating"),
        "Rates the datagrams as a call with this codec: the result has the transmission rating R and the mean opinion score \
         (Cole, Rosenbluth 2001). The workload has to write the codec's packets, for example 160 B every 20 ms of g711, or \
         20 B of g729. In the simulator and the user world.",
    )
    .only(Protocols::UDP),
    Key::new(
        "playout",
        Shape::Time { zero: true },
        Default::Nothing("60 ms with `voice`"),
        "Playout delay of a call: the receiver holds the first measured datagram for this time, and plays every datagram with \
         the same total delay after its transmission. A datagram that arrives later is lost for the call.",
    )
    .only(Protocols::UDP),
    Key::new(
        "mtu",
        Shape::Octets { min: 576, max: 65_535 },
        Default::Nothing("from the links of each path"),
        "Largest IP packet of the flow, in bytes.",
    ),
];
