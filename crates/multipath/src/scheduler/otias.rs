//! OTIAS, out-of-order transmission for in-order arrival: each packet is assigned to the path on which it would arrive
//! first, even if that path has no room for the packet now (Yang, Wang, Amer 2014).
//!
//! The window of path j has cwnd_j packets, of which free_j are free; n_j packets were assigned to the path and have
//! not been sent. If the free part admits these and one more, the packet leaves now and arrives after half a round
//! trip. Otherwise, it first waits for whole round trips, in each of which a window is sent:
//!
//! - T_j = (w_j + 1/2) · SRTT_j with w_j = ⌈(n_j + 1 − free_j) / cwnd_j⌉, or w_j = 0 if the packet does not wait.
//!
//! So the path with the longer round trip gets later data once the queueing time of the other path is equally
//! long, and the data of both paths arrives at the same time. Data that is assigned to a path stays with it:
//! if its window shrinks, all later data waits for it. As in the publication, packets of all paths are
//! assumed to be equally large. The rounding to whole round trips is that of the Linux module by Ferlin et
//! al. (2016). The sender does not know the delay to the receiver, so it uses half of the round-trip time.

use super::ahead::Ahead;
use super::{Data, Decision, Entry, Offer, PathState, Piece, Scheduler, eligible, takes_part};

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "otias",
    summary: "each packet on the path on which it would arrive first, even if it has to wait for that path's window",
    source: "Yang et al., Out-of-order Transmission for In-order Arrival Scheduling for Multipath TCP, WAINA 2014",
    wants_rates: false,
    places: true,
    wants_information: false,
    build: &|| Box::new(Otias::default()),
};

#[derive(Debug, Default)]
struct Otias {
    ahead: Ahead,
}

impl Otias {
    /// Returns the time until a packet that is assigned to `path` now would arrive, in half nanoseconds; the maximum if
    /// the round-trip time is unknown.
    fn arrival(&self, path: &PathState) -> u128 {
        let Some(srtt) = path.srtt else { return u128::MAX };
        let packet = u64::from(path.mss).max(1);
        let window = (path.cwnd / packet).max(1);
        let free = window.saturating_sub(path.outstanding.div_ceil(packet));
        let upto = self.ahead.waiting(path).div_ceil(packet) + 1;
        let rounds = upto.saturating_sub(free).div_ceil(window);
        u128::from(2 * rounds + 1) * u128::from(srtt.as_nanos())
    }

    /// Assigns all available data, one packet at a time.
    fn assign(&mut self, data: &Data<'_>, paths: &[PathState]) {
        while let Some(path) =
            paths.iter().filter(|path| takes_part(path, paths)).min_by_key(|path| self.arrival(path))
        {
            let packet = u64::from(path.mss).max(1);
            let Some(range) = self.ahead.take(data, packet, packet) else { return };
            self.ahead.assign(path, range);
        }
    }
}

impl Scheduler for Otias {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    /// Selects the path of a reinjection: among the paths that can send it now, the one on which it would arrive first.
    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() {
            return Decision::Wait;
        }
        let room = paths.iter().filter(|path| eligible(path, paths));
        room.min_by_key(|path| self.arrival(path)).map_or(Decision::Wait, |path| Decision::Send(path.id))
    }

    fn place(&mut self, data: &Data<'_>, paths: &[PathState]) -> Option<Piece> {
        self.ahead.update(data, paths);
        self.assign(data, paths);
        self.ahead.piece(paths)
    }
}
