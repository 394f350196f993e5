//! The scheduler of the Linux kernel (`mptcp_subflow_get_send` of net/mptcp/protocol.c, since version 5.11): the path that
//! would be through first with what it has, at the rate that it is paced at, gets up to 64 kB at once.
//!
//! The kernel puts such a burst into the queue of a subflow beyond its window. Here a path is given only what it can send
//! now, so that what waits can go anywhere: among the paths with room the one with the shortest time left is chosen. With the
//! queues it is [`linux-ahead`](super::linux_ahead).

use super::{Decision, Entry, Offer, PathState, Scheduler, eligible};
use crate::PathId;

/// The line of the table.
pub(super) const ENTRY: Entry = Entry {
    name: "linux",
    summary: "bursts for the path that is through first with what it has, by its pacing rate",
    source: "Linux, net/mptcp/protocol.c",
    wants_rates: true,
    places: false,
    build: || Box::new(Linux { pace: Pace::default(), burst: None }),
};

/// The largest burst (`MPTCP_SEND_BURST_SIZE`).
pub(super) const BURST: u64 = 65_428;

/// Average pacing rate of each path, bytes per second, by identifier; zero before its first burst.
#[derive(Debug, Default)]
pub(super) struct Pace(Vec<u64>);

#[derive(Debug)]
struct Linux {
    pace: Pace,
    /// The path that has the burst, and what is left of it.
    burst: Option<(PathId, u64)>,
}

/// What Linux would pace the path at, in bytes per second: twice c/RTT in slow start and 1.2 times later
/// (`tcp_update_pacing_rate`), but for a control that has its own rate. Without a round-trip time nobody knows.
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
    /// The average rate of a path, which begins with the first that is known.
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

    /// Nanoseconds until the path is through with the `queued` bytes that it has; none where nothing limits its rate yet, as in
    /// Linux.
    pub(super) fn linger(&mut self, path: &PathState, queued: u64) -> u128 {
        let queued = u128::from(queued) * 1_000_000_000;
        self.rate(path).map_or(0, |rate| queued / u128::from(*rate))
    }

    /// The average moves towards the rate at hand by the share that a burst has of the `queued` bytes that the path has then.
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
            let linger = self.pace.linger(path, path.queued);
            if best.is_none_or(|(shortest, _)| linger < shortest) {
                best = Some((linger, path));
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
