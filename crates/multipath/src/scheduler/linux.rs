//! The scheduler of the Linux kernel (`mptcp_subflow_get_send` in net/mptcp/protocol.c, since version 5.11): the path
//! that would first have sent its queued data, at its pacing rate, gets up to 64 kB at once.
//!
//! The kernel adds this burst to the queue of a subflow even if it exceeds the subflow's window. Here, a path gets only
//! data that it can send now, so that any path can send the waiting data. Among the paths with room, the one with the
//! shortest remaining time is chosen. [`linux-ahead`](super::linux_ahead) is the variant with queues.

use super::{Decision, Entry, Offer, PathState, Scheduler, eligible};
use crate::PathId;

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "linux",
    summary: "bursts for the path that would first complete its queued data at its pacing rate",
    source: "Linux, net/mptcp/protocol.c",
    wants_rates: true,
    places: false,
    wants_information: false,
    build: &|| Box::new(Linux { pace: Pace::default(), burst: None }),
};

/// Maximum length of a burst, bytes (`MPTCP_SEND_BURST_SIZE`).
pub(super) const BURST: u64 = 65_428;

/// Average pacing rate of each path, bytes per second, by identifier; zero before its first burst.
#[derive(Debug, Default)]
pub(super) struct Pace(Vec<u64>);

#[derive(Debug)]
struct Linux {
    pace: Pace,
    /// The path of the current burst, and the number of bytes that remain of the burst.
    burst: Option<(PathId, u64)>,
}

/// Returns the pacing rate that Linux would use, bytes per second: twice c/RTT in slow start and 1.2 times c/RTT later
/// (`tcp_update_pacing_rate`), unless the congestion control sets a rate. `None` before a round-trip time is known.
fn pacing_rate(path: &PathState) -> Option<u64> {
    if let Some(rate) = path.pacing_rate {
        return Some((rate.bits_per_second() / 8).max(1));
    }
    let srtt = path.srtt?;
    let percent = if path.cwnd < path.ssthresh / 2 { 200 } else { 120 };
    let window = u128::from(path.cwnd.max(path.outstanding)) * percent * 10_000_000;
    Some(u64::try_from(window / u128::from(srtt.as_nanos().max(1))).unwrap_or(u64::MAX).max(1))
}

impl Pace {
    /// Returns the average rate of a path, which starts with the first known rate.
    fn rate(&mut self, path: &PathState) -> Option<&mut u64> {
        let index = path.id.index();
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        let rate = &mut self.0[index];
        if *rate == 0 {
            *rate = pacing_rate(path)?;
        }
        Some(rate)
    }

    /// Returns the time until the path has sent its `queued` bytes, in nanoseconds; 0 if its rate is not known yet, as
    /// in Linux.
    pub(super) fn time_to_send_queue(&mut self, path: &PathState, queued: u64) -> u128 {
        let queued = u128::from(queued) * 1_000_000_000;
        self.rate(path).map_or(0, |rate| queued / u128::from(*rate))
    }

    /// Moves the average towards the current rate. The weight of the current rate is the share of the burst in the
    /// path's `queued` bytes and the burst together.
    pub(super) fn average(&mut self, path: &PathState, queued: u64, burst: u64) {
        let (queued, burst) = (u128::from(queued), u128::from(burst));
        if let (Some(rate), Some(new)) = (self.rate(path), pacing_rate(path)) {
            *rate = ((u128::from(*rate) * queued + u128::from(new) * burst) / (queued + burst)) as u64;
        }
    }
}

impl Scheduler for Linux {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() {
            return Decision::Wait;
        }
        let goes_on = |path: &&PathState| self.burst.is_some_and(|(id, left)| id == path.id && left > 0);
        if let Some(path) = paths.iter().find(goes_on)
            && eligible(path, paths)
        {
            let left = self.burst.map_or(0, |(_, left)| left);
            let len = u64::from(path.mss).min(offer.bytes).min(offer.window);
            self.burst = Some((path.id, left.saturating_sub(len)));
            return Decision::Send(path.id);
        }
        let mut best: Option<(u128, &PathState)> = None;
        for path in paths.iter().filter(|path| eligible(path, paths)) {
            let time_to_send_queue = self.pace.time_to_send_queue(path, path.queued);
            if best.is_none_or(|(shortest, _)| time_to_send_queue < shortest) {
                best = Some((time_to_send_queue, path));
            }
        }
        let Some((_, path)) = best else { return Decision::Wait };
        let burst = BURST.min(offer.window);
        self.pace.average(path, path.queued, burst);
        let len = u64::from(path.mss).min(offer.bytes).min(offer.window);
        self.burst = Some((path.id, burst.saturating_sub(len)));
        Decision::Send(path.id)
    }
}
