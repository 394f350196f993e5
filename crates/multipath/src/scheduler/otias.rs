//! OTIAS, out-of-order transmission for in-order arrival: each packet is assigned to the path on which it
//! would arrive first, even if that path has no room for it now (Yang, Wang, Amer 2014).
//!
//! A path j has a window of cwnd_j packets, some of them free, and n_j packets that were assigned to it and
//! are not sent. If the free part admits those and one more, the packet leaves now and arrives after half a
//! round trip; otherwise it waits for whole round trips, each of which carries a window:
//!
//! - T_j = (w_j + 1/2) · SRTT_j, w_j = ⌈(n_j + 1 − free_j) / cwnd_j⌉, or 0 without a wait.
//!
//! So the path with the longer round trip gets later data as soon as the other path's queue is equally long,
//! and both arrive at the same time. Data assigned to a path stays there: if its window shrinks, all
//! later data waits for it. Packets of all paths are assumed to be equally large, as in the publication. The rounding
//! to whole round trips is that of the module for Linux by Ferlin et al. (2016). A sender does not know the delay to the
//! receiver and uses half of the round-trip time instead.

use super::ahead::Ahead;
use super::{Data, Decision, Entry, Offer, PathState, Piece, Scheduler, eligible, takes_part};

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "otias",
    summary: "each packet on the path on which it would arrive first, even if it has to wait for that path's window",
    source: "Yang et al., Out-of-order Transmission for In-order Arrival Scheduling for Multipath TCP, WAINA 2014",
    wants_rates: false,
    places: true,
    build: &|| Box::new(Otias::default()),
};

#[derive(Debug, Default)]
struct Otias {
    ahead: Ahead,
}

impl Otias {
    /// Arrival time of a packet that is assigned to `path` now, in half nanoseconds; the maximum if unknown.
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

    /// Selects the path of a reinjection: of the paths that can send it now the one on which it would arrive
    /// first.
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
