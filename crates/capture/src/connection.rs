//! A Multipath TCP connection: its subflows, the data over all of them, and its control options.

use crate::oddity::{Kind, Noted, Oddities, reset_reason};
use crate::stream::Stream;
use anabranch_wire::tcp::mptcp::{Capable, Control, Dss, Key};
use core::net::{IpAddr, SocketAddr};

/// Maximum number of advertised addresses kept for a connection.
const MAX_ADDRESSES: usize = 32;

/// State of a connection. Side 0 initiated it, or counts as the client if no handshake was captured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    pub streams: [Stream; 2],
    pub subflows: Vec<u32>,
    pub oddities: Oddities,
    /// Each side's token, with which the other side joins subflows to the connection.
    pub tokens: [Option<u32>; 2],
    pub version: Option<u8>,
    /// Advertised addresses, with the side that advertised each.
    pub addresses: Vec<(usize, IpAddr)>,
    /// Addresses of both sides, by which a subflow without a captured handshake is found.
    pub known: [Vec<IpAddr>; 2],
}

impl Connection {
    /// True if no data sequence number of the connection is known.
    pub fn is_blank(&self) -> bool {
        self.streams.iter().all(Stream::is_blank)
    }

    /// Adds the addresses of a subflow to the known ones; `ends` is in the order of the connection's sides.
    pub fn learn(&mut self, ends: [SocketAddr; 2]) {
        for (known, end) in self.known.iter_mut().zip(ends) {
            if !known.contains(&end.ip()) && known.len() < MAX_ADDRESSES {
                known.push(end.ip());
            }
        }
    }

    /// Adds the keys in an `MP_CAPABLE` from a side; returns the tokens that are new.
    pub fn on_capable(&mut self, side: usize, capable: &Capable) -> Vec<(u32, usize)> {
        self.version.get_or_insert(capable.version);
        let mut found = Vec::new();
        for (side, key) in [(side, capable.sender_key), (1 - side, capable.receiver_key)] {
            let Some(key) = key.filter(|_| self.streams[side].key.is_none()) else { continue };
            let key = Key::new(key);
            self.streams[side].key = Some(key);
            self.tokens[side] = Some(key.token);
            found.push((key.token, side));
        }
        found
    }

    /// True if the numbers in a DSS option from a side match this connection. Numbers of 64 bits suffice; with
    /// numbers of 32 bits, one of the two addresses must be known as well.
    pub fn fits(&self, side: usize, dss: &Dss, ends: [SocketAddr; 2]) -> bool {
        let numbers = [(dss.mapping.map(|mapping| mapping.dsn), side), (dss.data_ack, 1 - side)];
        let mut is_exact = false;
        let mut count = 0;
        for (number, side) in numbers {
            let Some(number) = number else { continue };
            let stream = &self.streams[side];
            if stream.is_blank() && stream.key.is_none() {
                continue;
            }
            if !stream.is_near(number) {
                return false;
            }
            count += 1;
            is_exact |= stream.is_exact(number);
        }
        let is_known = self.known.iter().zip(ends).any(|(known, end)| known.contains(&end.ip()));
        count > 0 && (is_exact || is_known)
    }

    /// Records a control option on a subflow from a side.
    pub fn on_control(&mut self, at_ns: u64, (subflow, side): (u32, usize), control: &Control) {
        let from = ["the client", "the server"][side];
        let (kind, text) = match control {
            Control::AddAddress(add) if add.hmac.is_some() => {
                if self.addresses.len() < MAX_ADDRESSES && !self.addresses.contains(&(side, add.address)) {
                    self.addresses.push((side, add.address));
                } else {
                    return;
                }
                (Kind::AddressAdded, format!("{from} advertises {}", add.address))
            }
            Control::RemoveAddress(_) => {
                (Kind::AddressRemoved, format!("{from} withdraws an address (REMOVE_ADDR)"))
            }
            Control::Priority { backup } => {
                let change = if *backup { "a backup" } else { "regular" };
                (Kind::Priority, format!("{from} makes the subflow {change} (MP_PRIO)"))
            }
            Control::Fail { .. } => {
                (Kind::Fail, format!("{from} reports a wrong checksum of a mapping (MP_FAIL)"))
            }
            Control::FastClose { .. } => {
                (Kind::Abort, format!("{from} aborts the connection (MP_FASTCLOSE)"))
            }
            Control::Reset { reason, .. } => {
                let meaning = reset_reason(*reason);
                (Kind::Reset, format!("{from} resets the subflow: {meaning} (MP_TCPRST, reason {reason})"))
            }
            Control::Capable(_) | Control::Join(_) | Control::AddAddress(_) => return,
        };
        self.oddities.add(Noted { at_ns, kind, subflow, text });
    }
}
