//! Conversion of a link's counters to its result.

use super::document::{DIRECTIONS, LinkResult};
use super::values::MeanMax;
use crate::Scenario;
use anabranch_base::time::Time;
use anabranch_netem::{DropCause, Interface, Totals};

/// The measured part of a run.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Time at which measuring began.
    pub since: Time,
    /// Time at which measuring ended.
    pub until: Time,
}

impl Measured {
    /// Bytes of the measured part as bit/s.
    pub fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 * 8e9 / self.nanos()
    }

    /// Length of the measured part, at least a nanosecond.
    pub fn nanos(&self) -> f64 {
        self.until.since(self.since).as_nanos().max(1) as f64
    }

    /// The result of the direction of a link that leaves from an interface. `baseline` are its counters at
    /// the start of measuring.
    pub fn link(
        &self,
        scenario: &Scenario,
        interface: Interface,
        totals: &Totals,
        baseline: &Totals,
    ) -> LinkResult {
        let declared = &scenario.links[interface.link()];
        let (from, to) = (interface.end(), 1 - interface.end());
        let occupied = |now: u128, before: u128| (now - before) as f64 / self.nanos();
        let since = |now: Option<u64>, before: Option<u64>| Some(now? - before?);
        let opportunities = since(totals.used_bytes, baseline.used_bytes)
            .zip(since(totals.offered_bytes, baseline.offered_bytes));
        let utilisation = match opportunities {
            Some((used, offered)) => used as f64 / offered.max(1) as f64,
            None => totals.busy.saturating_sub(baseline.busy).as_nanos() as f64 / self.nanos(),
        };
        let (end, begin) = (&totals.occupancy, &baseline.occupancy);
        LinkResult {
            name: declared.name.clone(),
            direction: DIRECTIONS[from].to_owned(),
            from: declared.between[from].clone(),
            to: declared.between[to].clone(),
            packets: totals.packets,
            bytes: totals.bytes,
            throughput_bps: self.rate(totals.bytes - baseline.bytes),
            utilisation,
            drops: totals.drops.iter().sum(),
            drops_by_cause: DropCause::ALL
                .map(|cause| (cause.name().to_owned(), totals.drops[cause as usize]))
                .into(),
            marks: totals.marks,
            occupancy: MeanMax { mean: occupied(end.packet_nanos, begin.packet_nanos), max: end.max_packets },
            occupancy_bytes: MeanMax { mean: occupied(end.byte_nanos, begin.byte_nanos), max: end.max_bytes },
        }
    }
}
