//! An established association.

use crate::common::Core;
use crate::cookie::{Extensions, Peer};
use crate::extensions::address_changes::AddressChanges;
use crate::extensions::auth::Authentication;
use crate::extensions::echo::Echo;
use crate::extensions::network_control::Control;
use crate::extensions::stream_changes::StreamChanges;
use crate::phase::Phase;
use crate::receiver::inbound::{AckPolicy, Inbound};
use crate::sender::outbound::Outbound;
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::Reason;
use anabranch_wire::sctp::{Abort, Cause, Chunk};
use anabranch_wire::seq::Serial;
use core::net::IpAddr;

/// An association between the handshake and its end.
#[derive(Debug)]
pub(super) struct Open {
    pub local_tag: u32,
    pub peer_tag: u32,
    /// The peer's initial TSN.
    pub peer_tsn: u32,
    pub extensions: Extensions,
    /// Keys and algorithm for authenticated chunks, if the peer supports authentication.
    pub auth: Option<Authentication>,
    pub inbound: Inbound,
    pub outbound: Outbound,
    pub phase: Phase,
    /// Latest time of the end after the peer's first SHUTDOWN or SHUTDOWN ACK, while data is missing.
    pub end_due: Option<Time>,
    /// ECN marks of the peer's packets, one entry per path, until a CWR is received.
    pub echoes: Vec<Echo>,
    pub asconf: AddressChanges,
    pub reconfig: StreamChanges,
    /// Network control, if it is enabled.
    pub control: Option<Box<Control>>,
    /// Path of the next SACK: the one that received the last data, or the fastest of those with unacknowledged data.
    pub ack_path: usize,
    /// Local and remote address of the last data packet. The SACK uses the same pair, whatever the state of the path
    /// is.
    pub ack_pair: (IpAddr, IpAddr),
}

impl Open {
    pub fn new(
        core: &mut Core,
        (local_tag, local_tsn): (u32, u32),
        peer: &Peer,
        auth: Option<Authentication>,
    ) -> Self {
        let policy = AckPolicy {
            delay: core.config.sack_delay,
            every: core.config.sack_every.max(1),
            dac: peer.extensions.dac,
            counts_packets: peer.extensions.dac,
            nr_sack: peer.extensions.nr_sack,
            renege: core.config.renege,
            forward_tsn: peer.extensions.forward_tsn,
            i_data: peer.extensions.i_data,
        };
        let mtu = core.local.iter().map(|own| own.mtu).min().unwrap_or(0);
        let control = core.config.network_control.map(|interval| {
            let association = core.secrets.next_u64() as u32;
            Box::new(Control::new(association, interval))
        });
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
            end_due: None,
            echoes: Vec::new(),
            asconf: AddressChanges::new(Serial(local_tsn), Serial(peer.tsn)),
            reconfig: StreamChanges::new(Serial(local_tsn), Serial(peer.tsn)),
            control,
            ack_path: core.primary,
            ack_pair: (core.paths[core.primary].local.ip(), core.paths[core.primary].remote.ip()),
        }
    }

    /// Ends the association with an ABORT because of a protocol error of the peer.
    pub fn refuse(&self, core: &mut Core, cause: Cause) -> Reason {
        let at = core.preferred();
        let abort = Abort { reflected_tag: false, causes: vec![cause] };
        core.send_control(at, self.peer_tag, Chunk::Abort(abort));
        Reason::Aborted
    }
}
