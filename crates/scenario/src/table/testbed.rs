//! Keys of testbeds on two machines.

use crate::choices::{TUNNEL_KINDS, choices};
use crate::keys::{Default, Key, Section, Shape};

/// `[testbed]`.
pub(crate) static TESTBED: Section = Section {
    title: "[testbed]",
    doc: "For `anabranch testbed up --machine` only; all other commands ignore it.",
    keys: &[&[Key::new(
        "machines",
        Shape::Section(|| &MACHINES),
        Default::Required("{ a = [\"client\"], b = [\"server\"] }"),
        "The nodes of the network on each of two machines. Links between them have a `tunnel`.",
    )]],
};

/// `[testbed.machines]`.
pub(crate) static MACHINES: Section = Section {
    title: "[testbed.machines]",
    doc: "The machines of a testbed. Each runs its hosts, and emulates the directions of links that begin at its nodes.",
    keys: &[&[
        Key::new("a", NODES, Default::Required("[\"client\"]"), "The nodes on machine a."),
        Key::new("b", NODES, Default::Required("[\"server\"]"), "The nodes on machine b."),
    ]],
};

const NODES: Shape = Shape::List { of: &Shape::Name, min: 1, max: 65_535 };

/// `tunnel` of a link.
pub(crate) static TUNNEL: Section = Section {
    title: "tunnel = { … } of a link",
    doc: "The tunnel that carries a link's packets between the two machines of a testbed. Its delay and losses add to \
          those of the link. The machines' network must carry unfragmented packets of the link's `mtu` and the headers of the tunnel.",
    keys: &[&[
        Key::new(
            "kind",
            Shape::OneOf(|| choices(TUNNEL_KINDS)),
            Default::Required("\"udp\""),
            "The encapsulation.",
        ),
        Key::new(
            "local",
            Shape::Text,
            Default::Required("\"192.0.2.1\""),
            "IP address of the machine with the first node of `between`.",
        ),
        Key::new(
            "remote",
            Shape::Text,
            Default::Required("\"192.0.2.2\""),
            "IP address of the machine with the second node of `between`.",
        ),
        Key::new(
            "key",
            Shape::Integer { min: 0, max: u32::MAX as u64 },
            Default::Nothing("no key, for `gre` only"),
            "Key of the packets (RFC 2890). Packets with another key are dropped and counted. Tunnels between the same \
             addresses need different keys. It is sent in the clear and protects against mistakes, not against attacks.",
        ),
    ]],
};
