//! Sends packets in proportion to the rate c/RTT of each path, evenly interleaved.
//!
//! Each decision adds a share of one packet to the credit of each path with room. The path with the highest credit
//! sends, and its credit falls by one packet ("smooth" weighted round-robin). So shares may change with each packet.

use super::{Decision, Entry, Offer, PathState, Scheduler, eligible};
use crate::PathId;

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "weighted",
    summary: "packets in proportion to window / round-trip time",
    source: "weighted round-robin over c/RTT, the rate share of Becke2014 §6.2.1",
    wants_rates: false,
    places: false,
    wants_information: false,
    build: &|| Box::new(Weighted { credits: Credits::default() }),
};

#[derive(Debug)]
struct Weighted {
    credits: Credits,
}

/// Credit of each path in packets, by identifier. The credit is negative after the path has sent.
#[derive(Clone, Debug, Default)]
pub struct Credits(Vec<f64>);

impl Credits {
    /// Selects the path of the next packet. `shares` contains each path with room and its share; the sum of the shares is
    /// one.
    pub fn next<'a>(&mut self, shares: impl Iterator<Item = (&'a PathState, f64)>) -> Option<PathId> {
        let mut richest: Option<(f64, PathId)> = None;
        for (path, share) in shares {
            if self.0.len() <= path.id.index() {
                self.0.resize(path.id.index() + 1, 0.0);
            }
            let credit = &mut self.0[path.id.index()];
            *credit += share;
            if richest.is_none_or(|(most, _)| *credit > most) {
                richest = Some((*credit, path.id));
            }
        }
        let (_, path) = richest?;
        self.0[path.index()] -= 1.0;
        Some(path)
    }
}

/// Returns c/RTT in bytes per second; `None` if the round-trip time is unknown.
fn rate(path: &PathState) -> Option<f64> {
    let srtt = path.srtt?.as_secs_f64().max(1e-6);
    Some(path.cwnd.max(1) as f64 / srtt)
}

impl Scheduler for Weighted {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() {
            return Decision::Wait;
        }
        let room = || paths.iter().filter(|path| eligible(path, paths));
        let (mut total, mut measured) = (0.0, 0_u32);
        for known in room().filter_map(rate) {
            total += known;
            measured += 1;
        }
        // A path without a measurement gets the mean of the measured rates.
        let average = if measured == 0 { 1.0 } else { total / f64::from(measured) };
        total += average * (room().count() as f64 - f64::from(measured));
        let shares = room().map(|path| (path, rate(path).unwrap_or(average) / total));
        self.credits.next(shares).map_or(Decision::Wait, Decision::Send)
    }
}
