//! Compares mean windows under fixed loss rates with the closed forms of the publications.
//!
//! The model: path i sends w_i packets per RTT_i, evenly spaced; each is acknowledged individually or lost. A
//! loss opens a recovery phase of one round trip, in which the window does not change and no further loss
//! counts.
//!
//! The closed forms are those of a fluid with constant windows. Real windows vary in two ways, and two kinds
//! of loss separate them:
//!
//! - *Spaced*: every 1/p-th packet is lost, with a variation of a tenth. Windows are regular sawteeth without
//!   further randomness. A sawtooth that loses the part d at its peak, grows by a/w per packet and has 1/p
//!   packets between losses has the mean √(1 − d/2) · √(a/(p·d)), and the second factor is the fluid's
//!   window. So the mean over time, divided by √(1 − d/2), is compared with the closed form: √(2/p) of the
//!   fluid is the well-known √(3/2p) of the sawtooth.
//! - *Random*: each packet is lost with probability p. For Reno the mean square over time is 2/p exactly (a
//!   gain of 1/w against a loss of p·w/2 per packet), so the root mean square has the closed form; the
//!   arithmetic mean is 1.31/√p, 7.4 % below √(2/p).
//!
//! Under random loss, coupled controls also depend on the fluctuations of the other paths, which the fluid
//! does not have: LIA's maximum over paths is larger than the maximum of means, and OLIA treats a path with a
//! randomly long interval between losses as a good path. These deviations are properties of the algorithms; the last test fixes the
//! measured ones.

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
            let rtt = Some(Duration::from_secs_f64(self.path.rtt));
            control.on_ack(&Ack { now, path, acked: MSS, rtt, srtt: rtt, cwnd_limited: true });
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

/// Runs until `packets` packets have been sent after a warm-up of a tenth of that; returns statistics by
/// path.
fn run(name: &str, losses: Losses, paths: &[SimulatedPath], packets: u64) -> Vec<Seen> {
    let mut control = (find(name).expect("a name of the table").build)(&Options::default());
    let rng = Rng::new(1).fork(name);
    let mut flights: Vec<Flight> =
        paths.iter().enumerate().map(|(i, &path)| Flight::new(i, path, losses, &rng)).collect();
    for flight in &flights {
        let setup = PathSetup {
            mss: MSS as u32,
            initial_window: 10 * MSS,
            initial_ssthresh: u64::MAX,
            rules: Rules::Tcp,
            floor: Rules::Tcp.floor(),
            abc_limit: Some(1),
            whole_packets: false,
        };
        control.add_path(flight.id, setup);
    }
    let warm = packets / 10;
    for n in 0..packets + warm {
        let first = (1..flights.len()).fold(0, |a, b| if flights[b].next < flights[a].next { b } else { a });
        flights[first].step(&mut *control, n >= warm);
    }
    flights.iter().map(|flight| flight.seen).collect()
}

/// Prints a table line and checks a deviation.
fn compare(what: &str, expected: f64, measured: f64, tolerance: f64) {
    let deviation = measured / expected - 1.0;
    println!(
        "{what}: closed form {expected:.2}, measured {measured:.2}, deviation {:+.1} %",
        100.0 * deviation
    );
    assert!(deviation.abs() <= tolerance, "{what}: {measured:.2} instead of {expected:.2} packets");
}

/// √(2/p), the window of TCP.
fn tcp(loss: f64) -> f64 {
    (2.0 / loss).sqrt()
}

/// A path's window in the fluid model, packets, and the part d that a loss takes.
type Fixed = (f64, f64);

/// LIA: w_r = (1/p_r) · max_k(√(2/p_k)/RTT_k) / Σ_k 1/(RTT_k·p_k) (Khalili et al. 2012, eq. 2), if the
/// uncoupled increase limits no path.
fn lia(paths: &[SimulatedPath; 2]) -> [Fixed; 2] {
    let best = paths.iter().map(|w| tcp(w.loss) / w.rtt).fold(0.0, f64::max);
    let sum: f64 = paths.iter().map(|w| 1.0 / (w.rtt * w.loss)).sum();
    paths.map(|w| (best / sum / w.loss, 0.5))
}

/// OLIA: all traffic is on the best paths, together as much as TCP on one of them (Khalili et al. 2012,
/// theorem 1). Equal paths share equally. Other paths keep the minimum window of one packet.
fn olia(paths: &[SimulatedPath; 2]) -> [Fixed; 2] {
    let rates = paths.map(|w| tcp(w.loss) / w.rtt);
    match rates[0].partial_cmp(&rates[1]).expect("rates are numbers") {
        core::cmp::Ordering::Equal => paths.map(|w| (tcp(w.loss) / 2.0, 0.5)),
        core::cmp::Ordering::Greater => [(tcp(paths[0].loss), 0.5), (1.0, 0.0)],
        core::cmp::Ordering::Less => [(1.0, 0.0), (tcp(paths[1].loss), 0.5)],
    }
}

/// BALIA: gain and loss balance on each path (Peng et al. 2014): p_r·(RTT_r·Σx)²·min(a_r, 1.5) = 2 · (1 +
/// a_r)/2 · (4 + a_r)/5. The first path is the larger one, a = 1: Σx = √(2/p)/RTT of it. Then (1 + a)(4 +
/// a)/(10·min(a, 1.5)) is the ratio of the p·RTT² for the second, a quadratic for a ≥ 1.5.
fn balia(paths: &[SimulatedPath; 2]) -> [Fixed; 2] {
    let total = tcp(paths[0].loss) / paths[0].rtt;
    let hardness = |w: &SimulatedPath| w.loss * w.rtt * w.rtt;
    let ratio = hardness(&paths[1]) / hardness(&paths[0]);
    let a = if ratio <= 1.0 { 1.0 } else { ((9.0 + 60.0 * ratio).sqrt() - 5.0) / 2.0 };
    let rates = [total * a / (1.0 + a), total / (1.0 + a)];
    let loss = [0.5, 0.5 * a.min(1.5)];
    core::array::from_fn(|i| (rates[i] * paths[i].rtt, loss[i]))
}

/// Equal paths; one with twice and one with four times the loss; one with twice the round-trip time.
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
        // 4,000 losses, so that their number is certain to 2 %.
        let random = run("reno", Losses::Random, &[path(p, 0.1)], (4_000.0 / p) as u64)[0];
        compare(&format!("reno, random loss {p}, root mean square"), tcp(p), random.rms(), 0.10);
        // The exact law of Reno under random loss. Against √(2/p) it is at −9.1, −9.6 and −14.9 %; at a loss
        // of 1 % the window is in recovery, at its lowest, for an eighth of the time, which no closed form
        // includes.
        compare(&format!("reno, random loss {p}, mean"), 1.31 / p.sqrt(), random.mean(), 0.10);
    }
}

fn compare_spaced(name: &str, closed_form: fn(&[SimulatedPath; 2]) -> [Fixed; 2]) {
    for paths in PATH_PAIRS {
        let seen = run(name, Losses::Spaced, &paths, 1_000_000);
        for (i, (expected, loss)) in closed_form(&paths).into_iter().enumerate() {
            let measured = seen[i].mean() / (1.0 - loss / 2.0).sqrt();
            // A path at its minimum window is occasionally probed: a packet and a quarter is the closest approximation
            // of zero.
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

/// Under random loss, arithmetic means relative to Reno's 1.31/√p. LIA and BALIA keep their published windows
/// within 15 % (measured: −10 to +10 %). OLIA keeps equal paths equal and the total within 15 % (−12 to −2
/// %), but does not empty the worse path: its intervals between losses are exponentially distributed, so the
/// worse path is often the best one by OLIA's measure, and has up to 0.38 of the better one's window.
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
