//! Sentences about the end of a testbed on two machines.

use super::contact::{Ended, LOST_AFTER_NS, MEET_TIMEOUT_NS};
use super::message::Version;
use anabranch_scenario::model::{MACHINES, TunnelKind};
use core::net::IpAddr;

/// A tunnel in messages.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// The link.
    pub link: String,
    pub kind: TunnelKind,
    /// Addresses of this machine and the other one.
    pub addresses: [IpAddr; 2],
}

const fn seconds(nanos: u64) -> u64 {
    nanos / 1_000_000_000
}

/// The sentence for an end of machine `own`.
pub(super) fn sentence(ended: Ended, own: usize, tunnels: &[Named]) -> String {
    let [here, there] = [MACHINES[own], MACHINES[1 - own]];
    let of = |tunnel: usize| &tunnels[tunnel];
    let lost_s = seconds(LOST_AFTER_NS);
    match ended {
        Ended::NoStart { tunnel, heard: false } => {
            let Named { link, kind, addresses: [_, peer] } = of(tunnel);
            let passes = match kind {
                TunnelKind::Gre => "IP protocol 47 (GRE)",
                TunnelKind::Udp => "UDP port 4754",
            };
            format!(
                "machine {there} does not answer at {peer} for {} s (tunnel of link \"{link}\"); start the testbed there \
                 with --machine {there}, and let firewalls pass {passes}",
                seconds(MEET_TIMEOUT_NS)
            )
        }
        Ended::NoStart { heard: true, .. } => format!(
            "machine {there} has not become ready within {} s; see its messages, and try again",
            seconds(MEET_TIMEOUT_NS)
        ),
        Ended::Version(other) => format!(
            "machine {there} runs version {other}, and this one {}; install the same version on both",
            Version::own()
        ),
        Ended::SameMachine => {
            format!("the other machine runs as machine {here}, too; start one of them with --machine {there}")
        }
        Ended::Mtu { tunnel, own: [out, into], other: [other_out, other_into] } => format!(
            "the mtu of link \"{}\" is {out} bytes towards machine {there} and {into} back, but {other_out} and \
             {other_into} in the scenario of machine {there}; use the same file and settings on both",
            of(tunnel).link
        ),
        Ended::Scenario => {
            format!("machine {there} has another scenario; use the same file and settings on both")
        }
        Ended::OuterMtu { tunnel, carried, needed, is_outgoing } => {
            let Named { link, addresses: [own, peer], .. } = of(tunnel);
            let [from, to] = if is_outgoing { [own, peer] } else { [peer, own] };
            format!(
                "the network carries packets of at most {carried} bytes from {from} to {to}, but link \"{link}\" needs \
                 {needed}, its mtu and the headers of the tunnel; raise the MTU of that network, or reduce the mtu of the \
                 link by {}",
                needed.saturating_sub(carried)
            )
        }
        Ended::Lost { tunnel } => {
            let Named { link, addresses: [_, peer], .. } = of(tunnel);
            format!("lost contact with machine {there} at {peer} for {lost_s} s (tunnel of link \"{link}\")")
        }
        Ended::PeerDown => format!("machine {there} was taken down"),
        Ended::PeerRefused => format!("machine {there} refuses this machine; its own message has the reason"),
        Ended::PeerLost { tunnel } => {
            format!("machine {there} lost contact for {lost_s} s (tunnel of link \"{}\")", of(tunnel).link)
        }
        Ended::PeerFailed => format!("machine {there} has failed; its own message has the reason"),
    }
}
