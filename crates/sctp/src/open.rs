//! An association that is up, and its end.

use super::address_changes::AddressChanges;
use super::auth::Authentication;
use super::common::Core;
use super::cookie::{Extensions, Peer};
use super::echo::Echo;
use super::inbound::{AckPolicy, Inbound};
use super::outbound::Outbound;
use super::phase::Phase;
use super::stream_changes::StreamChanges;
use anabranch_endpoint::endpoint::Reason;
use anabranch_wire::sctp::{Abort, Cause, Chunk};
use anabranch_wire::seq::Serial;
use core::net::IpAddr;

/// An association between the handshake and its end.
#[derive(Debug)]
pub(super) struct Open {
    pub local_tag: u32,
    pub peer_tag: u32,
    /// The first TSN that the peer used.
    pub peer_tsn: u32,
    pub extensions: Extensions,
    /// How chunks are authenticated, if they are.
    pub auth: Option<Authentication>,
    pub inbound: Inbound,
    pub outbound: Outbound,
    pub phase: Phase,
    /// ECN marks of the peer's packets, one for each path, until a CWR comes.
    pub echoes: Vec<Echo>,
    pub asconf: AddressChanges,
    pub reconfig: StreamChanges,
    /// The path that brought data, last or of all that waits to be acknowledged on the shortest way: acknowledgements go there.
    pub ack_path: usize,
    /// The addresses of that packet, own one first. The way that data came is the way back, whatever the path is
    /// believed to be worth.
    pub ack_pair: (IpAddr, IpAddr),
}

impl Open {
    pub fn new(
        core: &Core,
        (local_tag, local_tsn): (u32, u32),
        peer: &Peer,
        auth: Option<Authentication>,
    ) -> Self {
        let policy = AckPolicy {
            delay: core.config.sack_delay,
            every: core.config.sack_every.max(1),
            dac: peer.extensions.dac,
            nr_sack: peer.extensions.nr_sack,
            forward_tsn: peer.extensions.forward_tsn,
            i_data: peer.extensions.i_data,
        };
        let mtu = core.local.iter().map(|own| own.mtu).min().unwrap_or(0);
        let expected = core.unwrapped + u64::from(peer.tsn);
        Self {
            local_tag,
            peer_tag: peer.tag,
            peer_tsn: peer.tsn,
            extensions: peer.extensions,
            auth,
            inbound: Inbound::new(expected, peer.inbound, core.config.receive_buffer, mtu, policy),
            outbound: Outbound::new(
                core,
                (core.unwrapped + u64::from(local_tsn), peer.extensions.forward_tsn),
                peer.outbound,
                u64::from(peer.window),
            ),
            phase: Phase::Established,
            echoes: Vec::new(),
            asconf: AddressChanges::new(Serial(local_tsn), Serial(peer.tsn)),
            reconfig: StreamChanges::new(Serial(local_tsn), Serial(peer.tsn)),
            ack_path: core.primary,
            ack_pair: (core.paths[core.primary].local.ip(), core.paths[core.primary].remote.ip()),
        }
    }

    /// Ends the association because of an error of the peer.
    pub fn refuse(&self, core: &mut Core, cause: Cause) -> Reason {
        let at = core.preferred();
        let abort = Abort { reflected_tag: false, causes: vec![cause] };
        core.send_control(at, self.peer_tag, Chunk::Abort(abort));
        Reason::Aborted
    }
}
