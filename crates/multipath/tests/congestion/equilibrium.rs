//! Compares mean windows under fixed loss rates with the closed forms of the publications.
//!
//! The model: path i sends w_i packets per RTT_i at equal intervals. Each packet is either lost or acknowledged
//! separately. A loss starts a recovery phase of one round trip, in which the window does not change and
//! further losses are not reported.
//!
//! The closed forms hold for a fluid model with constant windows. Real windows vary, both because a loss reduces them by
//! a large part and because losses are random. Two placements of losses separate these two effects:
//!
//! - *Spaced*: every 1/p-th packet is lost, with a variation of a tenth. Windows are regular sawteeth without
//!   further randomness. If a loss takes the part d from the peak, the window grows by a/w per packet, and 1/p packets
//!   are sent between two losses, then the mean window is √(1 − d/2) · √(a/(p·d)). The second factor is the window of the
//!   fluid model, so the tests compare the mean over time, divided by √(1 − d/2), with the closed form. For Reno, √(2/p) in
//!   the fluid model corresponds to the well-known √(3/2p) of the sawtooth.
//! - *Random*: each packet is lost with probability p. For Reno, the mean square of the window over time is exactly 2/p (per
//!   packet, the window gains 1/w and loses p·w/2), so the root mean square equals the closed form. The arithmetic mean is
//!   1.31/√p, 7.4 % below √(2/p).
//!
//! Under random loss, a coupled congestion control also reacts to fluctuations of the other paths' windows, which the
//! fluid model does not have: the maximum over paths in LIA is larger than the maximum of the means, and OLIA treats a path
//! with a randomly long interval between losses as a good path. These deviations are properties of the algorithms. The
//! last test checks that they stay as measured.

use crate::rig::MSS;
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::PathId;
use anabranch_multipath::congestion::{
    Ack, CongestionControl, Loss, LossKind, Options, PathSetup, Rules, find,
};

/// Placement of losses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Losses {
    Spaced,
    Random,
}

/// A simulated path: loss rate, and round-trip time in seconds.
#[derive(Clone, Copy, Debug)]
struct SimulatedPath {
    loss: f64,
    rtt: f64,
}

const fn path(loss: f64, rtt: f64) -> SimulatedPath {
    SimulatedPath { loss, rtt }
}

/// Statistics of one path's window, in packets, weighted by time.
#[derive(Clone, Copy, Default)]
struct Seen {
    time: f64,
    sum: f64,
    squares: f64,
}

impl Seen {
    fn mean(&self) -> f64 {
        self.sum / self.time
    }

    fn rms(&self) -> f64 {
        (self.squares / self.time).sqrt()
    }
}

/// State of one simulated path.
struct Flight {
    id: PathId,
    path: SimulatedPath,
    losses: Losses,
    rng: Rng,
    /// When the next packet is processed, seconds.
    next: f64,
    recovers_at: Option<f64>,
    /// Packets until the next spaced loss.
    until_loss: f64,
    seen: Seen,
}

impl Flight {
    fn new(index: usize, path: SimulatedPath, losses: Losses, rng: &Rng) -> Self {
        let mut rng = rng.fork(&format!("path {index}"));
        let until_loss = rng.unit() / path.loss;
        let id = PathId(index as u8);
        Self { id, path, losses, rng, next: 0.0, recovers_at: None, until_loss, seen: Seen::default() }
    }

    fn draws_loss(&mut self) -> bool {
        if self.losses == Losses::Random {
            return self.rng.chance(self.path.loss);
        }
        self.until_loss -= 1.0;
        let lost = self.until_loss <= 0.0;
        if lost {
            self.until_loss += (0.9 + 0.2 * self.rng.unit()) / self.path.loss;
        }
        lost
    }

    fn packet(&mut self, control: &mut dyn CongestionControl) {
        let (now, path) = (Time::from_secs_f64(self.next), self.id);
        if self.recovers_at.is_some_and(|at| at <= self.next) {
            self.recovers_at = None;
            control.on_recovered(now, path);
        }
        if self.recovers_at.is_none() && self.draws_loss() {
            let in_flight = control.window(path);
            control.on_loss(&Loss { now, path, kind: LossKind::FastRetransmit, in_flight });
            self.recovers_at = Some(self.next + self.path.rtt);
        } else {
            control.on_ack(&Ack::timed(now, path, MSS, Duration::from_secs_f64(self.path.rtt)));
        }
    }

    fn step(&mut self, control: &mut dyn CongestionControl, record: bool) {
        self.packet(control);
        let window = control.window(self.id) as f64 / MSS as f64;
        let gap = self.path.rtt / window;
        self.next += gap;
        if record {
            self.seen.time += gap;
            self.seen.sum += gap * window;
            self.seen.squares += gap * window * window;
        }
    }
}

/// Simulates a warm-up of `packets / 10` packets and then `packets` packets; returns the statistics of each path, without
/// the warm-up.
fn run(name: &str, losses: Losses, paths: &[SimulatedPath], packets: u64) -> Vec<Seen> {
    let mut control = (find(name).expect("a name of the table").build)(&Options::default());
    let rng = Rng::new(1).fork(name);
    let mut flights: Vec<Flight> =
        paths.iter().enumerate().map(|(i, &path)| Flight::new(i, path, losses, &rng)).collect();
    for flight in &flights {
        let setup = PathSetup::new(Rules::Tcp, MSS as u32);
        control.add_path(flight.id, setup);
    }
    let warm = packets / 10;
    for n in 0..packets + warm {
        let first = (1..flights.len()).fold(0, |a, b| if flights[b].next < flights[a].next { b } else { a });
        flights[first].step(&mut *control, n >= warm);
    }
    flights.iter().map(|flight| flight.seen).collect()
}

/// Prints the deviation of the measured from the expected value, and checks that it is within the tolerance.
fn compare(what: &str, expected: f64, measured: f64, tolerance: f64) {
    let deviation = measured / expected - 1.0;
    println!(
        "{what}: closed form {expected:.2}, measured {measured:.2}, deviation {:+.1} %",
        100.0 * deviation
    );
    assert!(deviation.abs() <= tolerance, "{what}: {measured:.2} instead of {expected:.2} packets");
}

/// Returns √(2/p), the window of TCP in the fluid model, packets.
fn tcp(loss: f64) -> f64 {
    (2.0 / loss).sqrt()
}

/// A path's window in the fluid model, packets, and the part d of the window that a loss takes.
type Fixed = (f64, f64);

/// Returns the windows of LIA: w_r = (1/p_r) · max_k(√(2/p_k)/RTT_k) / Σ_k 1/(RTT_k·p_k) (Khalili et al. 2012, eq. 2), if no
/// path reaches the limit of the uncoupled increase.
fn lia(paths: &[SimulatedPath; 2]) -> [Fixed; 2] {
    let best = paths.iter().map(|w| tcp(w.loss) / w.rtt).fold(0.0, f64::max);
    let sum: f64 = paths.iter().map(|w| 1.0 / (w.rtt * w.loss)).sum();
    paths.map(|w| (best / sum / w.loss, 0.5))
}

/// Returns the windows of OLIA: the best paths together carry as much as TCP on one of them (Khalili et al. 2012, theorem
/// 1), in equal parts if the paths are equal. All other paths have the minimum window of one packet.
fn olia(paths: &[SimulatedPath; 2]) -> [Fixed; 2] {
    let rates = paths.map(|w| tcp(w.loss) / w.rtt);
    match rates[0].partial_cmp(&rates[1]).expect("rates are numbers") {
        core::cmp::Ordering::Equal => paths.map(|w| (tcp(w.loss) / 2.0, 0.5)),
        core::cmp::Ordering::Greater => [(tcp(paths[0].loss), 0.5), (1.0, 0.0)],
        core::cmp::Ordering::Less => [(1.0, 0.0), (tcp(paths[1].loss), 0.5)],
    }
}

/// Returns the windows of BALIA, with which gain and loss of each path are equal (Peng et al. 2014): p_r·(RTT_r·Σx)² ·
/// min(a_r, 1.5) = 2 · (1 + a_r)/2 · (4 + a_r)/5. The first path has the higher rate, so its a is 1 and Σx is its
/// √(2/p)/RTT. For the second path, (1 + a)(4 + a)/(10·min(a, 1.5)) is then the ratio of p·RTT² of the second to the first
/// path, which is a quadratic equation for a ≥ 1.5.
fn balia(paths: &[SimulatedPath; 2]) -> [Fixed; 2] {
    let total = tcp(paths[0].loss) / paths[0].rtt;
    let hardness = |w: &SimulatedPath| w.loss * w.rtt * w.rtt;
    let ratio = hardness(&paths[1]) / hardness(&paths[0]);
    let a = if ratio <= 1.0 { 1.0 } else { ((9.0 + 60.0 * ratio).sqrt() - 5.0) / 2.0 };
    let rates = [total * a / (1.0 + a), total / (1.0 + a)];
    let loss = [0.5, 0.5 * a.min(1.5)];
    core::array::from_fn(|i| (rates[i] * paths[i].rtt, loss[i]))
}

/// Pairs of paths: equal paths; the second path with twice the loss rate; with four times the loss rate; with twice the
/// round-trip time.
const PATH_PAIRS: [[SimulatedPath; 2]; 4] = [
    [path(1e-3, 0.1), path(1e-3, 0.1)],
    [path(1e-3, 0.1), path(2e-3, 0.1)],
    [path(1e-3, 0.1), path(4e-3, 0.1)],
    [path(1e-3, 0.1), path(1e-3, 0.2)],
];

#[test]
fn reno_window_follows_the_square_root_law() {
    for p in [1e-4, 1e-3, 1e-2] {
        let spaced = run("reno", Losses::Spaced, &[path(p, 0.1)], 1_000_000)[0];
        compare(&format!("reno, spaced loss {p}"), tcp(p), spaced.mean() / 0.75_f64.sqrt(), 0.10);
        // With 4,000 losses on average, the standard deviation of their number is below 2 %.
        let random = run("reno", Losses::Random, &[path(p, 0.1)], (4_000.0 / p) as u64)[0];
        compare(&format!("reno, random loss {p}, root mean square"), tcp(p), random.rms(), 0.10);
        // 1.31/√p is the exact mean of Reno under random loss. The measured means are 9.1, 9.6 and 14.9 % below √(2/p).
        // The last one is lower because, at a loss rate of 1 %, an eighth of the time is spent in recovery, in which the
        // window is at its lowest; the closed forms do not include recovery.
        compare(&format!("reno, random loss {p}, mean"), 1.31 / p.sqrt(), random.mean(), 0.10);
    }
}

fn compare_spaced(name: &str, closed_form: fn(&[SimulatedPath; 2]) -> [Fixed; 2]) {
    for paths in PATH_PAIRS {
        let seen = run(name, Losses::Spaced, &paths, 1_000_000);
        for (i, (expected, loss)) in closed_form(&paths).into_iter().enumerate() {
            let measured = seen[i].mean() / (1.0 - loss / 2.0).sqrt();
            // OLIA occasionally increases the window of a path from the minimum of one packet, so the mean is up to a
            // quarter larger.
            let tolerance = if loss == 0.0 { 0.25 } else { 0.10 };
            compare(&format!("{name} {paths:?} path {i}"), expected, measured, tolerance);
        }
    }
}

#[test]
fn lia_has_its_published_windows() {
    compare_spaced("lia", lia);
}

#[test]
fn olia_has_its_published_windows() {
    compare_spaced("olia", olia);
}

#[test]
fn balia_has_its_published_windows() {
    compare_spaced("balia", balia);
}

/// Compares arithmetic means under random loss with the closed forms, scaled by 1.31/√2 as for Reno. The windows of LIA
/// and BALIA must be within 15 % of the published ones (measured: −10 to +10 %). With OLIA, the windows of equal paths and
/// the total rate must be within 15 % (measured: −12 to −2 %), but the window of the worse path is not the minimum:
/// intervals between losses are exponentially distributed, so OLIA often takes the worse path for the best one, and its
/// window is up to 0.38 of the better path's.
#[test]
fn random_loss_shifts_equilibria_as_measured() {
    let tcp_mean = 1.31 / 2.0_f64.sqrt();
    for (name, closed_form) in [("lia", lia as fn(&_) -> _), ("balia", balia), ("olia", olia)] {
        for paths in PATH_PAIRS {
            let seen = run(name, Losses::Random, &paths, 2_000_000);
            let fixed = closed_form(&paths);
            let emptied = fixed[1].1 == 0.0;
            for i in 0..2 {
                let what = format!("{name}, random, {paths:?} path {i}");
                let expected = fixed[i].0 * tcp_mean;
                compare(&what, expected, seen[i].mean(), if emptied { f64::INFINITY } else { 0.15 });
            }
            assert!(!emptied || seen[1].mean() < 0.45 * seen[0].mean());
            let rate = |i: usize, window: f64| window / paths[i].rtt;
            let expected = rate(0, fixed[0].0 * tcp_mean) + rate(1, fixed[1].0 * tcp_mean);
            let measured = rate(0, seen[0].mean()) + rate(1, seen[1].mean());
            compare(&format!("{name}, random, {paths:?} total rate"), expected, measured, 0.15);
        }
    }
}
