//! NCA: normalise, cluster, aggregate. The paths that carry data follow from the characteristics of the network. Becke2014
//! §8.2 names the three steps; the rules are our own, and experimental.
//!
//! - *Normalise*: each path has a rate, a one-way delay and a loss ([`PathInformation`]).
//! - *Cluster*, by ascending delay: a path joins the first cluster whose first path has at least half of its delay and a
//!   loss within a factor of ten, both losses being at least 10⁻³.
//! - *Aggregate*: the cluster with the largest Σ rate · (1 − loss) of those for which 2 · largest delay · Σ rate fits
//!   the receive buffer; then further ones in this order while the sum of all fits. If no cluster fits, the path with the
//!   largest rate. The other paths wait.
//!
//! Of the chosen paths that have room, the one with the smallest round-trip time is next. Buffers are split among the chosen
//! paths only, and Multipath TCP penalises none of them: between 600 and 1,000 kB, penalisation costs 3 to 4 % of the goodput
//! of `WiFi` and 3G. All paths are used while the characteristics of one of them are unknown.

use super::lowest_rtt::fastest;
use super::{Decision, Entry, Offer, PathInformation, PathState, Scheduler, eligible, takes_part};
use crate::PathId;

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "nca",
    summary: "experimental: the paths whose characteristics fit each other and the receive buffer, by `information`",
    source: "after Becke2014 §8.2",
    wants_rates: false,
    places: false,
    wants_information: true,
    build: &|| Box::new(Nca::default()),
};

/// Largest ratio of a path's delay to that of the first path of its cluster.
const MAX_DELAY_RATIO: u64 = 2;

/// Largest ratio of losses in a cluster, and the loss below which losses do not differ.
const MAX_LOSS_RATIO: f64 = 10.0;
const LOSS_FLOOR: f64 = 1e-3;

#[derive(Debug, Default)]
struct Nca {
    known: Vec<(PathId, PathInformation)>,
    /// Largest receive window until now, bytes.
    buffer: u64,
    /// The paths that carry data, chosen from the `usable` paths.
    chosen: Vec<PathId>,
    usable: Vec<PathId>,
    is_stale: bool,
}

/// A path with its characteristics.
type Member = (PathId, PathInformation);

/// Sum of the rates, bit/s.
fn rate(members: &[Member]) -> f64 {
    members.iter().map(|(_, path)| path.rate.bits_per_second() as f64).sum()
}

/// Sum of the rates without the lost parts, bit/s.
fn useful_rate(members: &[Member]) -> f64 {
    members.iter().map(|(_, path)| path.rate.bits_per_second() as f64 * (1.0 - path.loss())).sum()
}

/// The buffer that the paths need, bytes.
fn needed(members: &[Member]) -> f64 {
    let delay_s = members.iter().map(|(_, path)| path.delay.as_secs_f64()).fold(0.0, f64::max);
    2.0 * delay_s * rate(members) / 8.0
}

/// Clusters of paths.
fn clusters(mut paths: Vec<Member>) -> Vec<Vec<Member>> {
    paths.sort_by_key(|(id, path)| (path.delay, *id));
    let mut clusters: Vec<Vec<Member>> = Vec::new();
    for (id, path) in paths {
        let joins = |cluster: &&mut Vec<Member>| {
            let (_, first) = cluster[0];
            let [low, high] = [first.loss().min(path.loss()), first.loss().max(path.loss())];
            path.delay.as_nanos() <= first.delay.as_nanos().saturating_mul(MAX_DELAY_RATIO)
                && high.max(LOSS_FLOOR) <= MAX_LOSS_RATIO * low.max(LOSS_FLOOR)
        };
        match clusters.iter_mut().find(joins) {
            Some(cluster) => cluster.push((id, path)),
            None => clusters.push(vec![(id, path)]),
        }
    }
    clusters
}

/// The paths that carry data.
fn aggregate(paths: Vec<Member>, buffer: u64) -> Vec<PathId> {
    let fits = |members: &[Member]| needed(members) <= buffer as f64;
    let strongest =
        paths.iter().copied().reduce(|best, path| if path.1.rate > best.1.rate { path } else { best });
    let mut clusters = clusters(paths);
    clusters.sort_by(|a, b| useful_rate(b).total_cmp(&useful_rate(a)));
    let Some(at) = clusters.iter().position(|cluster| fits(cluster)) else {
        return strongest.into_iter().map(|(id, _)| id).collect();
    };
    let mut chosen = clusters.remove(at);
    for cluster in clusters {
        let sum = [&chosen[..], &cluster].concat();
        if fits(&sum) {
            chosen = sum;
        }
    }
    chosen.into_iter().map(|(id, _)| id).collect()
}

impl Nca {
    /// Chooses paths again if something has changed. Returns false while the characteristics of a path are unknown.
    fn choose(&mut self, offer: &Offer, paths: &[PathState]) -> bool {
        let usable = || paths.iter().filter(|path| takes_part(path, paths)).map(|path| path.id);
        let grows = offer.send_window > self.buffer;
        if self.is_stale || grows || !usable().eq(self.usable.iter().copied()) {
            self.buffer = self.buffer.max(offer.send_window);
            self.is_stale = false;
            self.usable = usable().collect();
            let known = |id: PathId| self.known.iter().copied().find(|&(known, _)| known == id);
            let members: Option<Vec<Member>> = usable().map(known).collect();
            self.chosen = members.map(|members| aggregate(members, self.buffer)).unwrap_or_default();
        }
        !self.chosen.is_empty()
    }
}

impl Scheduler for Nca {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() || !paths.iter().any(|path| eligible(path, paths)) {
            return Decision::Wait;
        }
        if !self.choose(offer, paths) {
            return fastest(paths);
        }
        let chosen = paths.iter().filter(|path| self.chosen.contains(&path.id) && eligible(path, paths));
        let next = chosen.min_by_key(|path| path.srtt.unwrap_or(anabranch_base::time::Duration::MAX));
        next.map_or(Decision::Wait, |path| Decision::Send(path.id))
    }

    fn leaves_out(&self, path: PathId) -> bool {
        !self.chosen.is_empty() && !self.chosen.contains(&path)
    }

    fn fits_buffer(&self) -> bool {
        !self.chosen.is_empty()
    }

    fn on_information(&mut self, path: PathId, information: Option<PathInformation>) {
        self.known.retain(|&(known, _)| known != path);
        self.known.extend(information.map(|information| (path, information)));
        self.is_stale = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::LinkInformation;
    use super::*;
    use anabranch_base::time::Duration;
    use anabranch_base::units::Rate;

    /// Path number, rate in Mbit/s, delay in milliseconds, loss.
    fn path((id, mbit_per_s, ms, loss): (u8, u64, u64, f64)) -> Member {
        let rate = Rate::from_bits_per_second(mbit_per_s * 1_000_000);
        let loss_per_billion = (loss * 1e9) as u32;
        (PathId(id), PathInformation { rate, delay: Duration::from_millis(ms), loss_per_billion })
    }

    fn chosen(paths: &[(u8, u64, u64, f64)], buffer: u64) -> Vec<u8> {
        let mut chosen: Vec<_> =
            aggregate(paths.iter().copied().map(path).collect(), buffer).iter().map(|id| id.0).collect();
        chosen.sort_unstable();
        chosen
    }

    #[test]
    fn links_are_normalised() {
        let link = |mbit_per_s: u64, ms, loss| LinkInformation {
            rate: Rate::from_bits_per_second(mbit_per_s * 1_000_000),
            delay: Duration::from_millis(ms),
            loss,
        };
        let path = PathInformation::of_links([link(100, 1, 0.1), link(8, 20, 0.5), link(50, 4, 0.0)], 1500);
        let expected = PathInformation {
            rate: Rate::from_bits_per_second(8_000_000),
            delay: Duration::from_micros(26_500),
            loss_per_billion: 550_000_000,
        };
        assert_eq!(path, Some(expected));
        assert_eq!(PathInformation::of_links([], 1500), None);
    }

    #[test]
    fn paths_are_clustered_by_delay_and_loss() {
        let members =
            [(0, 8, 40, 0.0), (1, 2, 10, 0.0), (2, 2, 20, 0.005), (3, 2, 21, 0.0), (4, 2, 15, 0.02)];
        let found = clusters(members.into_iter().map(path).collect());
        let ids: Vec<Vec<u8>> =
            found.iter().map(|cluster| cluster.iter().map(|(id, _)| id.0).collect()).collect();
        assert_eq!(ids, [vec![1, 2], vec![4], vec![3, 0]]);
    }

    /// `WiFi` needs 43,000 bytes, 3G alone 78,000, and both 390,000.
    #[test]
    fn buffer_decides_about_the_second_cluster() {
        let mut paths = [(0, 8, 0, 0.0), (1, 2, 156, 0.0)].map(path);
        paths[0].1.delay = Duration::from_micros(21_500);
        for (buffer, expected) in [(30_000, &[0][..]), (43_000, &[0]), (389_999, &[0]), (390_000, &[0, 1])] {
            let ids: Vec<_> = aggregate(paths.to_vec(), buffer).iter().map(|id| id.0).collect();
            assert_eq!(ids, expected, "{buffer}");
        }
    }

    #[test]
    fn strongest_fitting_cluster_is_chosen() {
        // The second cluster has the larger sum, but needs 2 · 0.1 s · 12 Mbit/s = 300,000 bytes.
        let paths = [(0, 10, 10, 0.0), (1, 6, 100, 0.0), (2, 6, 90, 0.0)];
        assert_eq!(chosen(&paths, 299_999), [0]);
        assert_eq!(chosen(&paths, 300_000), [1, 2]);
        assert_eq!(chosen(&paths, 550_000), [0, 1, 2]);
        // Nothing fits: the path with the largest rate.
        assert_eq!(chosen(&paths, 1_000), [0]);
        // A third cluster is taken where the second one does not fit.
        assert_eq!(chosen(&[(0, 10, 1, 0.0), (1, 9, 1000, 0.0), (2, 1, 5, 0.0)], 20_000), [0, 2]);
        // Losses reduce the useful rate.
        assert_eq!(chosen(&[(0, 10, 10, 0.5), (1, 8, 10, 0.0)], 25_000), [1]);
    }

    #[test]
    fn chosen_paths_alone_carry_data() {
        let state = |id, srtt_ms, queueable| PathState {
            outstanding: 10_000 - queueable,
            queueable,
            ..PathState::new(PathId(id), 10_000, Duration::from_millis(srtt_ms))
        };
        let offer = |send_window| Offer {
            now: anabranch_base::time::Time::ZERO,
            bytes: 100_000,
            window: send_window,
            send_window,
            repeated: false,
        };
        let mut scheduler = (ENTRY.build)();
        let full = [state(0, 40, 0), state(1, 300, 5_000)];
        let sends = |path| Decision::Send(PathId(path));
        assert_eq!(scheduler.select(&offer(100_000), &full), sends(1), "nothing is known");
        let (id, wifi) = path((0, 8, 20, 0.0));
        scheduler.on_information(id, Some(wifi));
        assert_eq!(scheduler.select(&offer(100_000), &full), sends(1), "one path is unknown");
        let (id, mobile) = path((1, 2, 150, 0.0));
        scheduler.on_information(id, Some(mobile));
        assert_eq!(scheduler.select(&offer(100_000), &full), Decision::Wait);
        assert!(scheduler.leaves_out(PathId(1)) && !scheduler.leaves_out(PathId(0)));
        assert!(scheduler.fits_buffer());
        assert_eq!(scheduler.select(&offer(400_000), &full), sends(1), "both fit the buffer");
        // The remaining path is used alone.
        scheduler.on_information(PathId(1), Some(path((1, 2, 5_000, 0.0)).1));
        assert_eq!(scheduler.select(&offer(400_000), &full), Decision::Wait);
        let failed = [PathState { usable: false, queueable: 0, ..full[0] }, full[1]];
        assert_eq!(scheduler.select(&offer(400_000), &failed), sends(1));
    }
}
