//! Words of scenarios for networks and workloads, each with the value that it stands for.

use super::model::{Codec, Directions, IpVersions, Scope, Stack, TunnelKind};
use anabranch_middlebox::source_route::SourceRoutes;
use anabranch_netem::keys::Word;
pub(super) use anabranch_settings::protocols::{PROTOCOLS, Protocols};
pub(super) use anabranch_settings::words::{
    Choice, Named, choices, congestion, named, path_managers, pick, schedulers, word,
};

pub(super) static IP_VERSIONS: &[Named<IpVersions>] = &[
    named("v4", "IPv4: headers of 20 bytes, addresses within 10.0.0.0/8", IpVersions::V4),
    named("v6", "IPv6: headers of 40 bytes, addresses within 2001:db8::/32", IpVersions::V6),
    named("both", "IPv4 and IPv6: an address of each", IpVersions::Both),
];

pub(super) static SCOPES: &[Named<Scope>] = &[
    named("global", "everywhere", Scope::Global),
    named("link-local", "from one end of the link to the other (RFC 4291 §2.5.6)", Scope::Link),
];

pub(super) static TUNNEL_KINDS: &[Named<TunnelKind>] = &[
    named(
        "gre",
        "GRE by a raw socket: 24 bytes over IPv4, 28 with a key (RFC 2784, RFC 2890)",
        TunnelKind::Gre,
    ),
    named("udp", "GRE with a key in UDP, port 4754: 36 bytes over IPv4 (RFC 8086)", TunnelKind::Udp),
];

pub(super) static SOURCE_ROUTES: &[Named<SourceRoutes>] = &[
    named("forward", "obeys them as a listed hop (RFC 791 §3.1)", SourceRoutes::Forward),
    named("ignore", "forwards by the destination in the header", SourceRoutes::Ignore),
    named("drop", "drops packets with one, as most routers of the internet", SourceRoutes::Drop),
];

pub(super) static STATES: &[Named<bool>] = &[
    named("up", "carries packets", true),
    named("down", "loses every packet; its hosts are notified", false),
];

/// Whether the ends of a link get new addresses.
pub(super) static ADDRESSES: &[Named<bool>] =
    &[named("same", "the addresses that they had", false), named("new", "new addresses at both ends", true)];

/// Whether a file has rates over time.
pub(super) static RATE_FORMATS: &[Named<bool>] = &[
    named("mahimahi", "times at which up to 1500 bytes may leave", false),
    named("rate", "rates over time", true),
];

/// Whether values follow straight lines.
pub(super) static INTERPOLATIONS: &[Named<bool>] = &[
    named("step", "the value of the earlier row", false),
    named("linear", "on the straight line between both values", true),
];

pub(super) static DIRECTIONS: &[Named<Directions>] = &[
    named("both", "both directions", Directions::Both),
    named("forward", "from the first node of `between` to the second", Directions::Forward),
    named("reverse", "from the second node of `between` to the first", Directions::Reverse),
];

pub(super) static FLOW_DIRECTIONS: &[Named<Directions>] = &[
    named("forward", "from the `from` host to the `to` host", Directions::Forward),
    named(
        "reverse",
        "from the `to` host, which accepts the connection, to the `from` host",
        Directions::Reverse,
    ),
    named("both", "in both directions at once, with the same workload at both hosts", Directions::Both),
];

pub(super) static STACKS: &[Named<Stack>] = &[
    named("user", "Anabranch's own stack, as in the simulator", Stack::User),
    named("kernel", "the machine's kernel", Stack::Kernel),
];

pub(super) static CODECS: &[Named<Codec>] = &[
    named("g711", "64 kbit/s (ITU-T G.711)", Codec::G711),
    named("g729", "8 kbit/s (ITU-T G.729)", Codec::G729),
];

/// Whether lengths are drawn from an exponential distribution.
pub(super) static DISTRIBUTIONS: &[Named<bool>] = &[
    named("constant", "always the mean", false),
    named("exponential", "drawn from an exponential distribution", true),
];

/// Distributions of the lengths of bursts and silences.
pub(super) static LENGTHS: &[Named<Lengths>] = &[
    named("constant", "always the mean", Lengths::Constant),
    named("exponential", "drawn from an exponential distribution", Lengths::Exponential),
    named(
        "pareto",
        "drawn from a Pareto distribution with this mean and `shape`: many short lengths and a few very long ones",
        Lengths::Pareto,
    ),
];

/// A kind of distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lengths {
    Constant,
    Exponential,
    Pareto,
}

/// The words of a kind's key.
pub(super) fn of_kind(words: &[Word]) -> Vec<Choice> {
    let choice = |word: &Word| Choice { name: word.name, aliases: &[], summary: word.summary, source: "" };
    words.iter().map(choice).collect()
}
