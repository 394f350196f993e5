//! Loads and settings of associations with other stacks, and the IP header before their packets.

use super::messages::STREAMS;
use super::network::Faults;
use super::ours::Ours;
use anabranch_base::rng::Rng;
use anabranch_endpoint::{Address, Reliability, Secrets};
use anabranch_host::{Backlog, Protocol};
use anabranch_multipath::{congestion, scheduler};
use anabranch_sctp::Config;
use anabranch_testkit::application::{Application, Load};
use anabranch_testkit::paths;
use anabranch_wire::ip::{ipv4, protocol};
use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;

/// Port of the other stack.
pub const THEIR_PORT: u16 = 5000;
/// Length of the header before each packet.
pub const IP_BYTES: usize = ipv4::Header::LEN as usize;

/// Address of an end.
pub fn ip(end: u8) -> IpAddr {
    paths::address(false, end, 0)
}

fn ipv4(end: u8) -> Ipv4Addr {
    match ip(end) {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => unreachable!("a path of IPv4"),
    }
}

/// A packet of the other stack behind an IP header.
pub fn wrap(packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ipv4::Header::new(ipv4(0), ipv4(1), protocol::SCTP, packet.len() as u16).emit(&mut bytes);
    bytes.extend_from_slice(packet);
    bytes
}

/// The content of an IP packet for the other stack; `None` if the header is damaged.
pub fn unwrap(packet: &[u8]) -> Option<&[u8]> {
    let (_, len) = ipv4::Header::parse(packet).ok()?;
    Some(&packet[len..])
}

/// Role, loads and buffers of this stack's end.
#[derive(Clone, Debug)]
pub struct Association {
    /// True if this stack opens the association.
    pub opens: bool,
    pub mtu: u16,
    pub i_data: bool,
    /// Bytes of all messages from the other stack and from this one.
    pub bytes: [u64; 2],
    /// Shortest and longest message.
    pub lengths: (u64, u64),
    pub unordered: bool,
    /// Payload protocol identifiers that the other stack knows; any if there are none.
    pub ppids: &'static [u32],
    /// Send and receive buffer of this stack.
    pub buffers: [u64; 2],
    pub seed: u64,
}

impl Association {
    pub fn new() -> Self {
        Self {
            opens: false,
            mtu: 1500,
            i_data: false,
            bytes: [1_000_000; 2],
            lengths: (1, 9_000),
            unordered: false,
            ppids: &[],
            buffers: [1_000_000; 2],
            seed: 1,
        }
    }

    fn config(&self) -> Config {
        let congestion = congestion::Choice::find("reno").expect("listed");
        let [send_buffer, receive_buffer] = self.buffers;
        Config::new(congestion, scheduler::find("round-robin").expect("listed"))
            .send_buffer(send_buffer)
            .receive_buffer(receive_buffer)
            .streams(STREAMS)
            .i_data(self.i_data)
            .reconfiguration(true)
            .partial_reliability(true)
            .association_max_retrans(30)
            .path_max_retrans(30)
            .init_max_retrans(30)
    }

    /// This stack's end, which stays open: the other one closes.
    pub fn ours(&self, rng: &Rng) -> Ours {
        let load = Load::Messages {
            bytes: self.bytes[1],
            lengths: self.lengths,
            streams: STREAMS,
            unordered: f64::from(u8::from(self.unordered)),
            reliability: Reliability::Full,
        };
        let mut application = Application::new(load, self.bytes[0], rng.fork("our application"));
        (application.stays_open, application.ppids) = (true, self.ppids);
        let secrets = Secrets::simulated(&mut rng.fork("secrets"));
        let (protocol, local) =
            (Protocol::Sctp(Box::new(self.config())), vec![Address::new(ip(1), self.mtu.into())]);
        if self.opens {
            let remote = (ip(0), THEIR_PORT).into();
            Ours::connecting(&protocol, (local, remote), secrets, application)
        } else {
            Ours::listening((protocol, Backlog::default()), local, secrets, application)
        }
    }
}

prop_compose! {
    /// Roles, options, sizes and buffers at random, and faults.
    pub fn associations()(
        (opens, i_data, unordered) in any::<(bool, bool, bool)>(),
        mtu in 600..1501_u16,
        bytes in [1..1_000_000_u64, 1..1_000_000],
        longest in 1..60_000_u64,
        buffers in [65_000..1_000_000_u64, 65_000..1_000_000],
        (loss, duplication, reordering, damage) in (0.0..0.05, 0.0..0.1, 0.0..0.5, 0.0..0.02),
        seed in any::<u64>(),
    ) -> (Association, Faults) {
        let lengths = (1, longest);
        let association =
            Association { opens, mtu, i_data, bytes, lengths, unordered, buffers, seed, ..Association::new() };
        (association, Faults { loss, duplication, reordering, damage })
    }
}
