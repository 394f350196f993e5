//! Characteristics of paths, for schedulers that choose by them.

use anabranch_base::time::Duration;
use anabranch_base::units::Rate;
use core::net::IpAddr;

/// Characteristics of a path in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInformation {
    /// Rate of the path's slowest link.
    pub rate: Rate,
    /// One-way delay, with the transmission of one packet.
    pub delay: Duration,
    /// Lost packets of a thousand million.
    pub loss_per_billion: u32,
}

/// Rate, one-way delay and share of lost packets of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkInformation {
    /// Rate.
    pub rate: Rate,
    /// Delay.
    pub delay: Duration,
    /// Share of lost packets.
    pub loss: f64,
}

impl PathInformation {
    /// The characteristics of a path over these links, with packets of `mtu` bytes: the lowest rate, the sum
    /// of the delays and of the transmission time of one packet, and the loss 1 − Π(1 − loss). `None` without
    /// a link.
    pub fn of_links(links: impl IntoIterator<Item = LinkInformation>, mtu: u32) -> Option<Self> {
        let joined = links.into_iter().reduce(|all, link| LinkInformation {
            rate: all.rate.min(link.rate),
            delay: all.delay + link.delay,
            loss: 1.0 - (1.0 - all.loss) * (1.0 - link.loss),
        })?;
        Some(Self {
            rate: joined.rate,
            delay: joined.delay + joined.rate.time_to_send(mtu.into()),
            loss_per_billion: (joined.loss * 1e9).round() as u32,
        })
    }

    /// Share of lost packets.
    pub fn loss(&self) -> f64 {
        f64::from(self.loss_per_billion) / 1e9
    }
}

/// The characteristics of the path from one address to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPath {
    /// Source of packets.
    pub source: IpAddr,
    /// Destination of packets.
    pub destination: IpAddr,
    /// The characteristics.
    pub information: PathInformation,
}

/// The characteristics of the path between two addresses, if a list has it.
pub fn find(known: &[KnownPath], source: IpAddr, destination: IpAddr) -> Option<PathInformation> {
    let known = known.iter().find(|path| (path.source, path.destination) == (source, destination));
    known.map(|path| path.information)
}
