//! The table of all keys. The parser's checks, the overrides, the schema for editors and the reference page are all
//! made from it: a key is described here and nowhere else.

mod flow;
mod link;
mod links;
mod workload;

pub(super) use flow::{FLOW, FLOW_DEFAULTS};
pub(super) use link::{LINK, LINK_DEFAULTS};
pub(super) use links::{loss, middlebox, queue};
pub(super) use workload::WORKLOAD;

use super::choices::{self, DIRECTIONS, IP_VERSIONS, STATES, choices};
use super::keys::{Default, Key, Section, Shape};
use super::model::LARGEST_SEED;

/// The whole file.
pub(super) static ROOT: Section = Section {
    title: "The experiment",
    doc: "Keys at the top of the file, before the first header.",
    keys: &[SCALARS, TABLES],
};

/// What stands at the top of the file, before the first header.
pub(super) static HEAD: Section = Section { title: ROOT.title, doc: ROOT.doc, keys: &[SCALARS] };

static SCALARS: &[Key] = &[
    Key::new("title", Shape::Text, Default::Is("\"\""), "A title for people; figures and reports show it."),
    Key::new(
        "duration",
        Shape::Time { zero: false },
        Default::Required("\"60 s\""),
        "How long the experiment runs, simulated or real, warm-up included.",
    ),
    Key::new(
        "warmup",
        Shape::Time { zero: true },
        Default::Is("\"0 s\""),
        "What is cut off before measuring. Goodput and all rates are measured from here to the end.",
    ),
    Key::new(
        "ip",
        Shape::OneOf(|| choices(IP_VERSIONS)),
        Default::Is("\"v4\""),
        "Which Internet Protocol the network carries: IPv4, or IPv6 with its longer headers. Links of IPv6 have an `mtu` of \
         1280 bytes at least.",
    ),
    Key::new(
        "offload",
        Shape::Flag,
        Default::Is("true"),
        "In the kernel's world, whether hosts hand several packets at once to their interfaces, which cut them up (segmentation \
         offload), as hosts do; `false` has them send one by one, as the simulator's do. Such bursts matter to short queues.",
    ),
    Key::new(
        "seed",
        Shape::Integer { min: 0, max: LARGEST_SEED },
        Default::Is("1"),
        "Seed of every random stream. The same seed gives the same run, bit by bit.",
    ),
];

static TABLES: &[Key] = &[
    Key::new(
        "link_defaults",
        Shape::Section(&LINK_DEFAULTS),
        Default::Nothing("no defaults of your own"),
        "What holds for every link that does not say otherwise.",
    ),
    Key::new("link", Shape::Tables(&LINK), Default::Required("[[link]]"), "The links, one table each."),
    Key::new(
        "flow_defaults",
        Shape::Section(&FLOW_DEFAULTS),
        Default::Nothing("no defaults of your own"),
        "What holds for every flow that does not say otherwise and whose protocol takes the key.",
    ),
    Key::new("flow", Shape::Tables(&FLOW), Default::Required("[[flow]]"), "The flows, one table each."),
    Key::new(
        "host",
        Shape::Tables(&HOST),
        Default::Nothing("every host has a route to every address"),
        "Main routing tables of hosts, one table each.",
    ),
    Key::new(
        "middlebox",
        Shape::Tables(&MIDDLEBOX),
        Default::Nothing("nodes forward packets as they are"),
        "What nodes on the way do to packets beside forwarding them, one table each.",
    ),
    Key::new(
        "event",
        Shape::Tables(&EVENT),
        Default::Nothing("nothing happens on the way"),
        "What happens on the way, one table each.",
    ),
];

/// `[[host]]`.
pub(super) static HOST: Section = Section {
    title: "[[host]]",
    doc: "The main routing table of a host. A tcp, mptcp or udp flow from there whose `initial_path` names no \
          link of this host is bound to no address: this table says by which link it leaves, and so its first address, \
          whether or not that leads to its destination. What is sent from an address leaves by the link of that \
          address, as with a table of its own for each (`ip rule add from`), unless `policy_routing` is false. Without \
          [[host]] a host has such tables, and a main table with a route to every address.",
    keys: &[&[
        Key::new("name", Shape::Name, Default::Required("\"name of a host\""), "The host."),
        Key::new(
            "default_route",
            Shape::Name,
            Default::Required("\"name of a link\""),
            "The link of the host that every address is reached by which has no route.",
        ),
        Key::new(
            "routes",
            Shape::List { of: &Shape::List { of: &Shape::Name, min: 2, max: 2 }, min: 0, max: 255 },
            Default::Is("[]"),
            "Routes to single addresses: the name of a link at the end of which the address is, and the name of the link of this host \
             that leads there.",
        ),
        Key::new(
            "policy_routing",
            Shape::Flag,
            Default::Is("true"),
            "Whether every address has a table of its own, whose only route is its own link. Without, all that the host sends \
             leaves as its main table says, whatever address it is sent from: the state of a host with several links that \
             nobody has set up for them, whose subflows then share one link. For every host of a flow, of any protocol. \
             Networks here carry packets from foreign addresses; some providers do not (BCP 38).",
        ),
    ]],
};

/// `[[middlebox]]`.
pub(super) static MIDDLEBOX: Section = Section {
    title: "[[middlebox]]",
    doc: "A node that does something to the packets that come through, beside forwarding them; one thing a node. In the \
          simulator only.",
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
            "The links of the node whose packets it deals with as they come by them. For `nat` the links of its inside, \
             by default those that lead to sending hosts of flows and to no receiving one.",
        ),
        Key::new(
            "does",
            Shape::Kinds(middlebox),
            Default::Required("{ kind = \"strip-options\" }"),
            "What it does.",
        ),
    ]],
};

/// `[[event]]`.
pub(super) static EVENT: Section = Section {
    title: "[[event]]",
    doc: "A change of a link at a moment of the run. Two events must not say different things about the same key \
          of the same link at the same moment.",
    keys: &[&[
        Key::new(
            "at",
            Shape::Time { zero: true },
            Default::Required("\"10 s\""),
            "When; before the end of the run.",
        ),
        Key::new(
            "every",
            Shape::Time { zero: false },
            Default::Nothing("once"),
            "Repeats the event with this period until the end, as for a link that flaps.",
        ),
        Key::new("link", Shape::Name, Default::Required("\"name of a link\""), "Which link changes."),
        Key::new(
            "direction",
            Shape::OneOf(|| choices(DIRECTIONS)),
            Default::Is("\"both\""),
            "Which of its directions change.",
        ),
        Key::new(
            "set",
            Shape::Section(&SET),
            Default::Required("{ state = \"down\" }"),
            "What changes: one or more keys.",
        ),
    ]],
};

/// `set = { … }` of an event.
pub(super) static SET: Section = Section {
    title: "set = { … } of an event",
    doc: "What an event changes; at least one key.",
    keys: &[&[
        Key::new(
            "state",
            Shape::OneOf(|| choices(STATES)),
            Default::Nothing("unchanged"),
            "Going down loses what is queued and on the way.",
        ),
        Key::new("rate", Shape::Rate, Default::Nothing("unchanged"), "A new constant rate."),
        Key::new("delay", Shape::Time { zero: true }, Default::Nothing("unchanged"), "A new one-way delay."),
        Key::new("loss", Shape::Kinds(loss), Default::Nothing("unchanged"), "A new loss model."),
    ]],
};

/// The default of a name that follows from the ends.
const JOINED: Default = Default::Nothing("the two nodes joined by a hyphen");

/// Protocols as documents and messages show them.
fn protocols() -> Vec<choices::Choice> {
    choices(choices::PROTOCOLS)
}
