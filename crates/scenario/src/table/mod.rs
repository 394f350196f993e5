//! The table of all keys. The parser's checks, the overrides, the schema for editors and the reference page
//! are all generated from it: a key is described only here.

mod flow;
mod link;
mod links;
mod testbed;
mod workload;

pub(super) use flow::{OWN, flow, flow_defaults};
pub(super) use link::{LINK, LINK_DEFAULTS, REORDER};
pub(super) use links::{loss, middlebox, queue};
pub(super) use testbed::{TESTBED, TUNNEL};
pub(super) use workload::WORKLOAD;

use super::choices::{self, ADDRESSES, DIRECTIONS, IP_VERSIONS, SOURCE_ROUTES, STATES, choices};
use super::keys::{Default, Key, Section, Shape};
use super::model::MAX_SEED;
use anabranch_multipath::MAX_PATHS;
use anabranch_wire::ip::source_route;

/// The whole file.
pub(super) static ROOT: Section = Section {
    title: "The experiment",
    doc: "Keys at the top of the file, before the first header.",
    keys: &[SCALARS, TABLES],
};

/// Keys at the top of the file, before the first header.
pub(super) static HEAD: Section = Section { title: ROOT.title, doc: ROOT.doc, keys: &[SCALARS] };

static SCALARS: &[Key] = &[
    Key::new("title", Shape::Text, Default::Is("\"\""), "A title for figures and reports."),
    Key::new(
        "duration",
        Shape::Time { zero: false },
        Default::Required("\"60 s\""),
        "Duration of the experiment, simulated or real, warm-up included.",
    ),
    Key::new(
        "warmup",
        Shape::Time { zero: true },
        Default::Is("\"0 s\""),
        "Time before measuring begins. Goodput and all rates are measured from there to the end.",
    ),
    Key::new(
        "ip",
        Shape::OneOf(|| choices(IP_VERSIONS)),
        Default::Is("\"v4\""),
        "Internet Protocol of the links: IPv4, IPv6 with its longer headers, or both. Links with IPv6 need an `mtu` \
         of at least 1280 bytes. With both, the paths of a connection are within one version each; a TCP connection uses \
         IPv4, unless `initial_path` selects the other.",
    ),
    Key::new(
        "ecmp",
        Shape::Flag,
        Default::Is("true"),
        "Whether a router chooses among equally short paths by a hash of addresses, protocol and ports, seeded by \
         `seed`: all packets of a TCP connection or an association between two addresses take the same path. \
         Fragments are hashed without ports, and an ICMP error like the packet that it quotes. With `false`, routers \
         take the first of the links.",
    ),
    Key::new(
        "offload",
        Shape::Flag,
        Default::Is("true"),
        "In the kernel's world, whether hosts pass several packets at once to their interfaces, which split \
         them (segmentation offload), as real hosts do; with `false` they send single packets, as in the \
         simulator. Such bursts matter for short queues.",
    ),
    Key::new(
        "seed",
        Shape::Integer { min: 0, max: MAX_SEED },
        Default::Is("1"),
        "Seed of every random stream. The same seed gives the same run, bit by bit.",
    ),
];

static TABLES: &[Key] = &[
    Key::new(
        "link_defaults",
        Shape::Section(|| &LINK_DEFAULTS),
        Default::Nothing("only the built-in defaults"),
        "Defaults of all links.",
    ),
    Key::new(
        "link",
        Shape::Tables(|| &LINK),
        Default::Required("[[link]]"),
        "The links, one table per link.",
    ),
    Key::new(
        "flow_defaults",
        Shape::Section(flow_defaults),
        Default::Nothing("only the built-in defaults"),
        "Defaults of all flows whose protocol has the key.",
    ),
    Key::new("flow", Shape::Tables(flow), Default::Required("[[flow]]"), "The flows, one table per flow."),
    Key::new(
        "host",
        Shape::Tables(|| &HOST),
        Default::Nothing("every host has a route to every address"),
        "Settings and main routing tables of hosts, one table per host.",
    ),
    Key::new(
        "router",
        Shape::Tables(|| &ROUTER),
        Default::Nothing("routers forward by shortest paths"),
        "Settings of routers, one table per router.",
    ),
    Key::new(
        "middlebox",
        Shape::Tables(|| &MIDDLEBOX),
        Default::Nothing("nodes forward packets unchanged"),
        "Nodes that process packets in addition to forwarding them, one table per node.",
    ),
    Key::new(
        "event",
        Shape::Tables(|| &EVENT),
        Default::Nothing("no event"),
        "Changes of links and flows during the run, one table per event.",
    ),
    Key::new(
        "testbed",
        Shape::Section(|| &TESTBED),
        Default::Nothing("one machine"),
        "The machines of a testbed.",
    ),
];

/// `[[host]]`.
pub(super) static HOST: Section = Section {
    title: "[[host]]",
    doc: "Settings of a host, and its main routing table. A tcp, mptcp or udp flow of the host whose `initial_path` names \
          no link of this host is not bound to an address: this table determines the link by which it \
          leaves, and so its first address, even if that does not lead to the destination. Packets from a \
          given address leave by the link of that address, as with a table for each (`ip rule add from`), \
          unless `policy_routing` is false. Without these keys a host has such tables, and a main table with a \
          route to every address.",
    keys: &[&[
        Key::new("name", Shape::Name, Default::Required("\"name of a host\""), "The host."),
        Key::new(
            "default_route",
            Shape::Name,
            Default::Nothing("for each address, the first link that leads to it"),
            "The link of the host to all addresses without a route. Required if `policy_routing` is false.",
        ),
        Key::new(
            "routes",
            Shape::List { of: &Shape::List { of: &Shape::Name, min: 2, max: 2 }, min: 0, max: 255 },
            Default::Is("[]"),
            "Routes to single addresses: the name of a link at whose other end the address is, and the name \
             of this host's link for the route.",
        ),
        Key::new(
            "policy_routing",
            Shape::Flag,
            Default::Is("true"),
            "Whether every address has a separate table, whose only route is the address's link. With \
             `false`, all packets of the host leave by its main table, whatever their source address: the state of \
             an unconfigured host with several links, whose subflows then share one link. Applies to every host \
             of a flow, of any protocol. Networks here carry packets with foreign source addresses; some \
             providers do not (BCP 38).",
        ),
        Key::new(
            "mptcp",
            Shape::Flag,
            Default::Is("true"),
            "Whether the host supports Multipath TCP. With `false`, it ignores MP_CAPABLE, and its own mptcp flows \
             open plain TCP: every mptcp flow of the host falls back. In the kernel's world this is `net.mptcp.enabled`.",
        ),
        Key::new(
            "gateways",
            Shape::List { of: &Shape::Either(&[Shape::Name, HOPS]), min: 0, max: MAX_PATHS - 1 },
            Default::Is("[]"),
            "For flows of the host with `paths = \"binder\"`: the routers through which they lead subflows, by loose source \
             routes. A list in place of a name is a route through several routers, at most 9, the gateway last.",
        ),
        Key::new(
            "cost",
            Shape::Section(|| &HOST_COST),
            Default::Nothing("packets take no time"),
            "Time that the host's processor needs for packets. Not in the kernel's world, where packets take the time of the \
             machine's processor.",
        ),
    ]],
};

/// The routers of a source route.
const HOPS: Shape = Shape::List { of: &Shape::Name, min: 1, max: source_route::MAX_ADDRESSES };

/// The key `cost` of a host.
static HOST_COST: Section = Section {
    title: "cost = { … }",
    doc: "The host processes the packets that it sends and receives one after the other, in the order in which they \
          arrive or are sent. A packet takes `packet` + `byte` · length of the IP packet + `gap` · entries. A received \
          packet takes effect afterwards, a sent one leaves afterwards; timers and applications take no time. Entries \
          are those of lists that are searched from their start: the gap blocks in the packet; for received data, the \
          ranges above the first gap that begin before it (with mptcp those of the subflow and of the connection), \
          and, with sctp and cmt-sctp, the messages and fragments before it that wait in its stream.",
    keys: &[&[
        Key::new("packet", Shape::Time { zero: true }, Default::Is("\"0 us\""), "Time for a packet."),
        Key::new("byte", Shape::Time { zero: true }, Default::Is("\"0 ns\""), "Time for a byte."),
        Key::new("gap", Shape::Time { zero: true }, Default::Is("\"0 us\""), "Time for an entry of a list."),
        Key::new(
            "backlog",
            Shape::Packets,
            Default::Is("\"1000 packets\""),
            "Maximum number of packets at the processor, the one in service included. A packet beyond it is dropped.",
        ),
    ]],
};

/// `[[router]]`.
pub(super) static ROUTER: Section = Section {
    title: "[[router]]",
    doc: "Settings of a node that forwards. Its routes override shortest paths. Routes of several routers must not send \
          packets in a circle.",
    keys: &[&[
        Key::new(
            "name",
            Shape::Name,
            Default::Required("\"name of a router\""),
            "The node, which must not be a host.",
        ),
        Key::new(
            "ecmp",
            Shape::Flag,
            Default::Nothing("as in the scenario"),
            "Whether it chooses among equally short paths by a hash.",
        ),
        Key::new(
            "routes",
            Shape::List { of: &Shape::List { of: &Shape::Name, min: 2, max: 2 }, min: 0, max: 65_535 },
            Default::Is("[]"),
            "Routes to the addresses of hosts: the name of a link at whose end the address is, and the name of this \
             router's link for the route.",
        ),
        Key::new(
            "default_route",
            Shape::Name,
            Default::Nothing("the shortest path"),
            "The router's link to all addresses without a route. Hosts at its own links are reached directly.",
        ),
        Key::new(
            "network_control",
            Shape::Flag,
            Default::Is("false"),
            "Experimental: whether it answers requests of flows with `network_control` (Becke2014 §8.1.2). Of its shortest \
             routes to the destination it selects the one with the largest free rate that carries no other path of the \
             association, and keeps it until 30 s after the last request. It adds a record about this route to the \
             requests of cmt-sctp. `ecmp = false` does not affect these choices.",
        ),
        Key::new(
            "source_routes",
            Shape::OneOf(|| choices(SOURCE_ROUTES)),
            Default::Is("\"drop\""),
            "Treatment of packets with a loose source route (option 131 of IPv4, RFC 791 §3.1). With `\"forward\"`, a listed \
             router replaces the destination by the next address, records the address of the interface by which the packet \
             leaves, and moves the pointer by 4; the last listed router removes the option. A packet with an invalid option \
             is dropped. With `\"ignore\"`, the router forwards by the destination in the header, and drops packets to itself.",
        ),
    ]],
};

/// `[[middlebox]]`.
pub(super) static MIDDLEBOX: Section = Section {
    title: "[[middlebox]]",
    doc: "A node that processes passing packets in addition to forwarding them; one middlebox per node. In \
          all worlds; links of netem (`--links netem`) have none.",
    keys: &[&[
        Key::new(
            "node",
            Shape::Name,
            Default::Required("\"name of a node\""),
            "The node, which must not be a host.",
        ),
        Key::new(
            "from",
            Shape::List { of: &Shape::Name, min: 1, max: 255 },
            Default::Nothing("all links of the node"),
            "The links of the node whose incoming packets it processes. For `nat` and `firewall`, the links of its \
             inside, by default those that lead to sending hosts of flows and to no receiving one.",
        ),
        Key::new(
            "does",
            Shape::Kinds(middlebox),
            Default::Required("{ kind = \"strip-options\" }"),
            "Kind and settings of the middlebox.",
        ),
    ]],
};

/// `[[event]]`.
pub(super) static EVENT: Section = Section {
    title: "[[event]]",
    doc: "A change of a link or a flow at one time of the run; an event names one of the two. Two events must not set \
          the same key of the same link or flow at the same time to different values.",
    keys: &[
        &[
            Key::new(
                "at",
                Shape::Time { zero: true },
                Default::Required("\"10 s\""),
                "Time; before the end of the run.",
            ),
            Key::new(
                "every",
                Shape::Time { zero: false },
                Default::Nothing("once"),
                "Repeat the event with this period until the end, for example for a flapping link.",
            ),
        ],
        ORDERED,
    ],
};

/// An order to a running simulation: an event at the present time.
pub(super) static ORDER: Section =
    Section { title: "an order", doc: "A change of a link or a flow at the present time.", keys: &[ORDERED] };

static ORDERED: &[Key] = &[
    Key::new("link", Shape::Name, Default::Nothing("the event names a flow"), "The link that changes."),
    Key::new("flow", Shape::Name, Default::Nothing("the event names a link"), "The flow that changes."),
    Key::new(
        "direction",
        Shape::OneOf(|| choices(DIRECTIONS)),
        Default::Is("\"both\""),
        "The directions of the link that change.",
    ),
    Key::new(
        "set",
        Shape::Section(|| &SET),
        Default::Required("{ state = \"down\" }"),
        "The changes: one or more keys.",
    ),
];

/// `set = { … }` of an event.
pub(super) static SET: Section = Section {
    title: "set = { … } of an event",
    doc: "The changes of an event; at least one key. `backup` and `primary` belong to flows, the others to links.",
    keys: &[OF_LINK, OF_FLOW],
};

/// New values of a link.
static OF_LINK: &[Key] = &[
    Key::new(
        "state",
        Shape::OneOf(|| choices(STATES)),
        Default::Nothing("unchanged"),
        "State; a link that goes down drops queued and propagating packets.",
    ),
    Key::new(
        "address",
        Shape::OneOf(|| choices(ADDRESSES)),
        Default::Nothing("unchanged"),
        "With `state = \"up\"`: whether hosts at the link's ends have the addresses that they had, or new ones, as after a \
         change of the access point. Packets to an old address are lost. Multipath TCP withdraws the old address, joins \
         from the new one and, at the accepting end, announces it. SCTP with `asconf` adds the new address and deletes \
         the old one; without `asconf`, it keeps its other addresses. A TCP connection at an old address ends by its timeout. A \
         link gets new addresses at most 255 times.",
    ),
    Key::new(
        "rate",
        Shape::Rate { zero: true },
        Default::Nothing("unchanged"),
        "A new constant rate. The packet being transmitted leaves at the old rate; `\"0 bit/s\"` suspends it \
         until a later event sets another rate.",
    ),
    Key::new("delay", Shape::Time { zero: true }, Default::Nothing("unchanged"), "A new one-way delay."),
    Key::new(
        "jitter",
        Shape::Time { zero: true },
        Default::Nothing("unchanged"),
        "A new jitter. Packets that are propagating keep their order and their times of arrival.",
    ),
    Key::new("loss", Shape::Kinds(loss), Default::Nothing("unchanged"), "A new loss model."),
    Key::new(
        "queue",
        Shape::Kinds(queue),
        Default::Nothing("unchanged"),
        "A new queue, completed key by key from the present one: `{ limit = \"20 packets\" }` keeps its kind. Waiting \
         packets keep their order. Those beyond a lower limit are dropped from the tail. The state of CoDel \
         starts again, and RED's average starts at the present length.",
    ),
    Key::new(
        "reorder",
        Shape::Section(|| &REORDER),
        Default::Nothing("unchanged"),
        "Another reordering; a rate of 0 ends it. Packets that are propagating keep their times of arrival.",
    ),
];

/// New values of a flow.
static OF_FLOW: &[Key] = &[
    Key::new(
        "backup",
        Shape::List { of: &Shape::Name, min: 0, max: 255 },
        Default::Nothing("unchanged"),
        "For mptcp: the links of the two hosts whose addresses are backups from now on, in place of those before. The \
         connecting end informs the other one (MP_PRIO).",
    ),
    Key::new(
        "primary",
        Shape::Path,
        Default::Nothing("unchanged"),
        "For sctp and cmt-sctp: the link of the host that receives the data whose address becomes the primary \
         destination, with `:v4` or `:v6` after its name if it has addresses of both versions of IP. It has no effect \
         while this destination is not active.",
    ),
];

/// The keys of `set` that belong to flows.
pub(super) fn of_flow() -> impl Iterator<Item = &'static str> {
    OF_FLOW.iter().map(|key| key.name)
}

/// The default of a name that is derived from the ends.
const JOINED: Default = Default::Nothing("the two nodes joined by a hyphen");

/// Protocols in documents and messages.
fn protocols() -> Vec<choices::Choice> {
    choices(choices::PROTOCOLS)
}
