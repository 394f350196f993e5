//! Keys of links and their two directions.

use super::{JOINED, loss, queue};
use crate::choices::{SCOPES, STATES, choices};
use crate::keys::{Default, Key, Section, Shape};

/// `[[link]]`.
pub(crate) static LINK: Section = Section {
    title: "[[link]]",
    doc: "A link between two nodes, in both directions. Nodes need no declaration: a node at the end of a flow is a \
          host, all others forward. A host has one address for each of its links.",
    keys: &[
        &[
            Key::new(
                "name",
                Shape::Name,
                JOINED,
                "A unique name: results show it, events and overrides use it.",
            ),
            Key::new(
                "between",
                Shape::List { of: &Shape::Name, min: 2, max: 2 },
                Default::Required("[\"A\", \"B\"]"),
                "The two nodes. Several links between the same two nodes are allowed.",
            ),
            Key::new(
                "scope",
                Shape::OneOf(|| choices(SCOPES)),
                Default::Is("\"global\""),
                "How far its addresses reach. `\"link-local\"` is for links of IPv6 between two hosts, in the simulator: which link \
                 such an address is on has to be said with it, so that CMT-SCTP with a path for each destination ignores all but \
                 those that the association is opened on; paths that are pairs of addresses say it.",
            ),
        ],
        MODEL,
        &[Key::new(
            "reverse",
            Shape::Section(&REVERSE),
            Default::Nothing("as forward"),
            "Where the direction from the second node to the first differs.",
        )],
    ],
};

/// `[link_defaults]`.
pub(crate) static LINK_DEFAULTS: Section = Section {
    title: "[link_defaults]",
    doc: "Takes the keys of a link's directions. A table such as `queue` is completed key by key: a link may give \
          its own `limit` and inherit the kind.",
    keys: &[MODEL],
};

static REVERSE: Section = Section {
    title: "reverse = { … } of a link",
    doc: "Takes the keys of a link's directions; what it does not give is as in the forward direction.",
    keys: &[MODEL],
};

/// One direction of a link.
static MODEL: &[Key] = &[
    Key::new(
        "rate",
        Shape::Either(&[Shape::Rate, Shape::Section(&TRACE)]),
        Default::Required("\"10 Mbit/s\""),
        "How fast packets leave: a constant rate, or a trace of delivery opportunities.",
    ),
    Key::new("delay", Shape::Time { zero: true }, Default::Is("\"0 ms\""), "Propagation delay, one way."),
    Key::new(
        "jitter",
        Shape::Time { zero: true },
        Default::Is("\"0 ms\""),
        "Each packet is delayed further by a uniform draw from 0 to this much. Packets that follow each other more closely keep \
         their order: the first one takes the earliest of the moments that were drawn.",
    ),
    Key::new(
        "mtu",
        Shape::Octets { min: 576, max: 65_535 },
        Default::Is("1500"),
        "Largest IP packet, in bytes.",
    ),
    Key::new(
        "icmp",
        Shape::Flag,
        Default::Is("true"),
        "A packet larger than `mtu` is answered with ICMP, \"fragmentation needed\" or \"packet too big\", 50 at once and \
         1,000 a second at most. `false` makes a black hole of such packets.",
    ),
    Key::new(
        "overhead",
        Shape::Octets { min: 0, max: 1000 },
        Default::Is("0"),
        "Bytes of framing that each packet costs on the wire: 38 for Ethernet with preamble and gap.",
    ),
    Key::new(
        "queue",
        Shape::Kinds(queue),
        Default::Is("{ kind = \"fifo\", limit = \"100 packets\" }"),
        "The queue in front of the link.",
    ),
    Key::new(
        "loss",
        Shape::Kinds(loss),
        Default::Is("{ model = \"none\" }"),
        "How packets are lost on the way.",
    ),
    Key::new(
        "reorder",
        Shape::Section(&REORDER),
        Default::Nothing("no reordering"),
        "Random packets are held back and overtaken by later ones.",
    ),
    Key::new(
        "state",
        Shape::OneOf(|| choices(STATES)),
        Default::Is("\"up\""),
        "State at the start; events change it.",
    ),
];

static TRACE: Section = Section {
    title: "rate = { trace = … }",
    doc: "A link that follows a recording, as for cellular networks.",
    keys: &[&[
        Key::new(
            "trace",
            Shape::Text,
            Default::Required("\"lte.mahi\""),
            "A file in Mahimahi's format, its path relative to the scenario: on each line the moment, in milliseconds \
             from the start, at which up to 1500 bytes may leave. The trace repeats with the period of its last line. No event \
             changes the rate of such a link.",
        ),
        Key::new(
            "offset",
            Shape::Either(&[Shape::Time { zero: true }, Shape::Section(&OFFSET)]),
            Default::Is("\"0 s\""),
            "How far into the trace the run begins.",
        ),
    ]],
};

static OFFSET: Section = Section {
    title: "offset = { … } of a trace",
    doc: "A random offset, another one for each seed; both directions of a link that have such an offset share the draw.",
    keys: &[&[Key::new(
        "uniform",
        Shape::List { of: &Shape::Time { zero: true }, min: 2, max: 2 },
        Default::Required("[\"0 s\", \"60 s\"]"),
        "Uniform from the first length of time to the second.",
    )]],
};

static REORDER: Section = Section {
    title: "reorder = { … }",
    doc: "Random reordering.",
    keys: &[&[
        Key::new(
            "rate",
            Shape::Number { min: 0.0, max: 1.0 },
            Default::Required("0.01"),
            "Probability that a packet is held back.",
        ),
        Key::new("delay", Shape::Time { zero: false }, Default::Required("\"5 ms\""), "For how long."),
    ]],
};
