//! Keys of links and their two directions.

use super::{JOINED, TUNNEL, loss, queue};
use crate::choices::{INTERPOLATIONS, IP_VERSIONS, RATE_FORMATS, SCOPES, STATES, choices};
use crate::keys::{Default, Key, Section, Shape};
use anabranch_netem::network::MAX_ADDRESSES;

/// `[[link]]`.
pub(crate) static LINK: Section = Section {
    title: "[[link]]",
    doc: "A link between two nodes, in both directions. Nodes need no declaration: a node at the end of a flow is a \
          host, all others forward. A host has an address for each of its links and each version of IP of the link.",
    keys: &[
        &[
            Key::new("name", Shape::Name, JOINED, "A unique name for results, events and overrides."),
            Key::new(
                "between",
                Shape::List { of: &Shape::Name, min: 2, max: 2 },
                Default::Required("[\"A\", \"B\"]"),
                "The two nodes. Several links between the same two nodes are allowed.",
            ),
            Key::new(
                "ip",
                Shape::OneOf(|| choices(IP_VERSIONS)),
                Default::Nothing("the scenario's `ip`"),
                "Versions of the packets that the link carries, and of its addresses. Routes of a version lead over \
                 links that carry it.",
            ),
            Key::new(
                "addresses",
                Shape::Either(&[ADDRESS_COUNT, Shape::List { of: &ADDRESS_COUNT, min: 2, max: 2 }]),
                Default::Is("1"),
                "Number of addresses of each version at both ends, or at each end in the order of `between`. Those of \
                 routers have no effect.",
            ),
            Key::new(
                "address_of",
                Shape::Name,
                Default::Nothing("other addresses on each link"),
                "Another link of a host: the host has the addresses of that link on this link, too, instead of others. \
                 Packets from such an address leave by the link with the shortest path to the destination, the first \
                 of equals. The addresses are lost while the other link is down.",
            ),
            Key::new(
                "scope",
                Shape::OneOf(|| choices(SCOPES)),
                Default::Is("\"global\""),
                "Scope of its addresses. `\"link-local\"` is for IPv6 links between two hosts, in the \
                 simulator. Such an address is ambiguous without its link. Therefore, CMT-SCTP with \
                 `paths = \"destination\"` uses only the link-local addresses of the link on which the association \
                 opens; with `paths = \"fullmesh\"` it uses all of them.",
            ),
            Key::new(
                "tunnel",
                Shape::Section(|| &TUNNEL),
                Default::Nothing("both nodes on one machine"),
                "The tunnel that carries its packets between the two machines of a testbed, if its nodes are on \
                 different ones.",
            ),
        ],
        MODEL,
        &[Key::new(
            "reverse",
            Shape::Section(|| &REVERSE),
            Default::Nothing("as the forward direction"),
            "Differing values of the direction from the second node to the first.",
        )],
    ],
};

/// A number of addresses.
const ADDRESS_COUNT: Shape = Shape::Integer { min: 1, max: MAX_ADDRESSES as u64 };

/// `[link_defaults]`.
pub(crate) static LINK_DEFAULTS: Section = Section {
    title: "[link_defaults]",
    doc: "Takes the keys of a link's directions. A table such as `queue` is completed key by key: a link may \
          give its own `limit` and inherit the kind.",
    keys: &[MODEL],
};

static REVERSE: Section = Section {
    title: "reverse = { … } of a link",
    doc: "Takes the keys of a link's directions; missing keys are as in the forward direction.",
    keys: &[MODEL],
};

/// One direction of a link.
static MODEL: &[Key] = &[
    Key::new(
        "rate",
        Shape::Either(&[Shape::Rate { zero: false }, Shape::Section(|| &TRACE)]),
        Default::Required("\"10 Mbit/s\""),
        "A constant rate, or a recording of delivery opportunities or rates.",
    ),
    Key::new(
        "delay",
        Shape::Either(&[Shape::Time { zero: true }, Shape::Section(|| &DELAY_TRACE)]),
        Default::Is("\"0 ms\""),
        "One-way propagation delay: constant, or a recording.",
    ),
    Key::new(
        "jitter",
        Shape::Time { zero: true },
        Default::Is("\"0 ms\""),
        "Each packet is delayed further by a uniform draw from 0 to this. Packets that follow each other more closely \
         keep their order: the first one gets the earliest of the drawn times.",
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
        "Answer a packet larger than `mtu` with ICMP, \"fragmentation needed\" or \"packet too big\", at \
         most 50 at once and 1,000 per second. `false` drops such packets silently.",
    ),
    Key::new(
        "overhead",
        Shape::Octets { min: 0, max: 1000 },
        Default::Is("0"),
        "Bytes of framing per packet on the wire: 38 for Ethernet with preamble and gap.",
    ),
    Key::new(
        "queue",
        Shape::Kinds(queue),
        Default::Is("{ kind = \"fifo\", limit = \"100 packets\" }"),
        "The queue in front of the link.",
    ),
    Key::new("loss", Shape::Kinds(loss), Default::Is("{ model = \"none\" }"), "Loss of packets on the link."),
    Key::new(
        "reorder",
        Shape::Section(|| &REORDER),
        Default::Nothing("no reordering"),
        "Holds back random packets, which later ones overtake.",
    ),
    Key::new(
        "duplicate",
        Shape::Section(|| &DUPLICATE),
        Default::Nothing("no duplicates"),
        "Duplicates random packets: both copies enter the queue.",
    ),
    Key::new(
        "state",
        Shape::OneOf(|| choices(STATES)),
        Default::Is("\"up\""),
        "State at the start, which events can change.",
    ),
];

static TRACE: Section = Section {
    title: "rate = { trace = … }",
    doc: "A rate that follows a recording, for example of a cellular network.",
    keys: &[&[
        Key::new(
            "trace",
            Shape::Text,
            Default::Required("\"lte.mahi\""),
            "A file, its path relative to the scenario. The trace repeats with the period of its last line. \
             Events cannot change the rate of such a link.",
        ),
        Key::new(
            "format",
            Shape::OneOf(|| choices(RATE_FORMATS)),
            Default::Is("\"mahimahi\""),
            "The format of the file. `\"mahimahi\"`: each line is a time, in milliseconds from the start, at \
             which up to 1500 bytes may leave. `\"rate\"`: CSV with the columns `time_s,bit_per_s`. The first \
             time is 0, and a rate holds until the time of the next row. A rate of 0 suspends the packet that is \
             being transmitted. The last row ends the period.",
        ),
        Key::new(
            "offset",
            Shape::Either(&[Shape::Time { zero: true }, Shape::Section(|| &OFFSET)]),
            Default::Is("\"0 s\""),
            "Offset within the trace at which the run begins.",
        ),
    ]],
};

static OFFSET: Section = Section {
    title: "offset = { … } of a trace",
    doc: "A random offset, drawn for each seed; two directions of a link with such an offset share the draw.",
    keys: &[&[Key::new(
        "uniform",
        Shape::List { of: &Shape::Time { zero: true }, min: 2, max: 2 },
        Default::Required("[\"0 s\", \"60 s\"]"),
        "Uniform between the two durations.",
    )]],
};

static DELAY_TRACE: Section = Section {
    title: "delay = { trace = … }",
    doc: "A propagation delay that follows a recording. A packet is delayed by the value at the time at which its last \
          bit leaves; it does not overtake others after the delay has fallen.",
    keys: &[&[
        Key::new(
            "trace",
            Shape::Text,
            Default::Required("\"delay.csv\""),
            "A CSV file with the columns `time_s,delay_ms`, its path relative to the scenario. The first time is 0. The \
             time of the last row is the period with which the recording repeats. Events cannot change the delay of \
             such a link.",
        ),
        Key::new(
            "interpolate",
            Shape::OneOf(|| choices(INTERPOLATIONS)),
            Default::Is("\"step\""),
            "The delay between two rows.",
        ),
    ]],
};

static DUPLICATE: Section = Section {
    title: "duplicate = { … }",
    doc: "Random duplicates. The copy directly follows its original, and takes room in the queue and time on the link. The \
          application of a UDP flow gets a datagram once.",
    keys: &[&[Key::new(
        "rate",
        Shape::Number { min: 0.0, max: 1.0 },
        Default::Required("0.01"),
        "Probability that a packet is duplicated.",
    )]],
};

pub(crate) static REORDER: Section = Section {
    title: "reorder = { … }",
    doc: "Random reordering.",
    keys: &[&[
        Key::new(
            "rate",
            Shape::Number { min: 0.0, max: 1.0 },
            Default::Required("0.01"),
            "Probability that a packet is held back.",
        ),
        Key::new(
            "delay",
            Shape::Time { zero: false },
            Default::Required("\"5 ms\""),
            "Duration for which a packet is held back.",
        ),
    ]],
};
