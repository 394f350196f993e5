//! One TCP flow, alone on a path, compared with the closed forms of the literature. `docs/lab-notes/theory.md` contains
//! the results; with `ANABRANCH_GENERATE=1` in the environment, as in `make generate`, the page is written.

use anabranch_sim::scenario::{self, result::FlowResult};
use anabranch_sim::{RunOptions, scenario::Scenario};
use std::path::Path;

/// Maximum relative deviation of a cell from its formula.
const MAX_DEVIATION: f64 = 0.1;
/// Maximum relative standard error of a mean over the seeds.
const MAX_STANDARD_ERROR: f64 = 0.03;
/// Payload of a full segment with timestamps, and the length of its IP packet, bytes.
const SEGMENT_BYTES: f64 = 1448.0;
const PACKET_BYTES: f64 = 1500.0;
/// IP packets of a SYN or SYN-ACK with its options, and of an acknowledgement, bytes.
const SYN_BYTES: f64 = 60.0;
const ACK_BYTES: f64 = 52.0;

/// Placement of losses.
#[derive(Clone, Copy, PartialEq)]
enum Losses {
    /// Each with the same probability: the mean of four seeds.
    Independent,
    /// One in every 1/p packets.
    Periodic,
}

/// A flow with a formula for its rate.
#[derive(Clone, Copy)]
struct Case {
    losses: Losses,
    /// Probability of loss, or share of lost packets.
    p: f64,
    /// Round-trip time without queues, seconds; queues and transmissions add less than 1 %.
    rtt: f64,
    /// Further keys of the flow.
    flow: &'static str,
    /// Remark on the page.
    remark: &'static str,
}

/// A line of the page.
struct Cell {
    /// Columns of the row before the values.
    given: String,
    formula: f64,
    measured: f64,
    /// Relative standard error of the mean over the seeds; `None` without randomness.
    noise: Option<f64>,
    /// True if the formula's assumptions hold.
    valid: bool,
}

impl Cell {
    fn deviation(&self) -> f64 {
        self.measured / self.formula - 1.0
    }

    fn line(&self) -> String {
        let noise = self.noise.map_or_else(|| "none".to_owned(), |share| format!("{:.1} %", share * 100.0));
        let valid = if self.valid { "yes" } else { "outside" };
        format!(
            "| {} | {:.1} | {:.1} | {:+.1} % | {noise} | {valid} |\n",
            self.given,
            self.formula,
            self.measured,
            self.deviation() * 100.0
        )
    }
}

fn read(text: &str) -> Scenario {
    scenario::parse(text, "theory.toml", &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn only_flow(scenario: &Scenario) -> FlowResult {
    anabranch_sim::run(scenario, &RunOptions::default()).expect("the run succeeds").flows.remove(0)
}

/// A saturated flow over a link so fast that only the window limits it: `warmup` seconds, followed by
/// `measured`.
fn saturated(case: &Case, warmup: f64, measured: f64, seed: u64) -> FlowResult {
    let loss = match case.losses {
        Losses::Independent => format!("model = \"bernoulli\", rate = {}", case.p),
        Losses::Periodic => format!("model = \"periodic\", every = {}", (1.0 / case.p).round()),
    };
    only_flow(&read(&format!(
        "duration = \"{} s\"\nwarmup = \"{} s\"\nseed = {seed}\n\
         [[link]]\nbetween = [\"A\", \"B\"]\nrate = \"1 Gbit/s\"\ndelay = \"{} ms\"\n\
         queue = {{ kind = \"fifo\", limit = \"100000 packets\" }}\n\
         loss = {{ {loss} }}\nreverse = {{ loss = {{ model = \"none\" }} }}\n\
         [[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"tcp\"\n\
         send_buffer = \"64 MB\"\nreceive_buffer = \"64 MB\"\n{}\n",
        (warmup + measured).ceil(),
        warmup.ceil(),
        case.rtt * 500.0,
        case.flow
    )))
}

/// Measures a rate, segments per second; `rate` returns it from a result in bit/s, and `formula` is the
/// expected value.
fn cell(case: &Case, formula: f64, rate: fn(&FlowResult) -> f64, valid: bool) -> Cell {
    let per_second = |flow: &FlowResult| rate(flow) / 8.0 / SEGMENT_BYTES;
    let given = format!("{} %, {:.0} ms{}", percent(case.p), case.rtt * 1000.0, case.remark);
    if case.losses == Losses::Periodic {
        // Slow start ends with much too large a window, and each loss corrects only a part of the excess.
        let cycle = 1.0 / case.p / formula;
        let measured = per_second(&saturated(case, 60.0 * cycle, 100.0 * cycle, 1));
        return Cell { given, formula, measured, noise: None, valid };
    }
    let seeds = 4.0;
    let seconds = (1000.0 / case.p).clamp(5e5, 4e6) / seeds / formula;
    let runs: Vec<f64> =
        (1..=4).map(|seed| per_second(&saturated(case, 0.1 * seconds, seconds, seed))).collect();
    let measured = runs.iter().sum::<f64>() / seeds;
    let variance = runs.iter().map(|run| (run - measured).powi(2)).sum::<f64>() / (seeds - 1.0);
    let noise = Some((variance / seeds).sqrt() / measured);
    Cell { given, formula, measured, noise, valid }
}

/// A share in percent, rounded to its significant digits.
fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

/// Segments per second of Mathis, Semke, Mahdavi, Ott 1997: a window that grows by one segment each round and
/// is halved by each loss. The implementation counts bytes, not acknowledgements, so delayed acknowledgements
/// do not change the growth and the constant.
fn mathis(p: f64, rtt: f64) -> f64 {
    (1.5 / p).sqrt() / rtt
}

fn mathis_cells() -> Vec<Cell> {
    let each = "congestion = \"reno\"\ndelayed_ack = false";
    let delayed = "congestion = \"reno\"\ndelayed_ack = true";
    [
        (1e-4, each, ""),
        (3e-4, each, ""),
        (1e-3, each, ""),
        (3e-3, each, ""),
        (1e-2, each, ""),
        (3e-2, each, ""),
        (3e-4, delayed, ", delayed ACKs"),
        (3e-3, delayed, ", delayed ACKs"),
    ]
    .map(|(p, flow, remark)| {
        let case = Case { losses: Losses::Independent, p, rtt: 0.1, flow, remark };
        cell(&case, mathis(p, case.rtt), |flow| flow.goodput_bps, p <= 1e-2)
    })
    .into()
}

/// Segments sent per second after Padhye, Firoiu, Towsley, Kurose 2000, §II-B, with b = 1, and the share of
/// time that the formula assigns to timeouts.
fn pftk(p: f64, rtt: f64, timeout: f64) -> (f64, f64) {
    let kept = 1.0 - p;
    let window = 1.0 + (8.0 * kept / (3.0 * p) + 1.0).sqrt();
    let by_timeout = (1.0 - kept.powi(3)) * (1.0 + kept.powi(3) * (1.0 - kept.powf(window - 3.0)))
        / (1.0 - kept.powf(window));
    let by_timeout = by_timeout.min(1.0);
    let backoff = 1.0 + (1..=6).map(|n| 2f64.powi(n - 1) * p.powi(n)).sum::<f64>();
    let waiting = by_timeout * backoff * timeout / kept;
    let time = rtt * (window / 2.0 + 1.0) + waiting;
    ((kept / p + window + by_timeout / kept) / time, waiting / time)
}

fn pftk_cells() -> Vec<Cell> {
    let rack = "congestion = \"reno\"\ndelayed_ack = false";
    let sack = "congestion = \"reno\"\ndelayed_ack = false\nrecovery = \"sack\"";
    let second = "congestion = \"reno\"\ndelayed_ack = false\nrto_min = \"1 s\"";
    [
        (0.005, rack, "", 0.2),
        (0.01, rack, "", 0.2),
        (0.02, rack, "", 0.2),
        (0.03, rack, "", 0.2),
        (0.005, sack, ", `sack`", 0.2),
        (0.01, sack, ", `sack`", 0.2),
        (0.02, sack, ", `sack`", 0.2),
        (0.03, sack, ", `sack`", 0.2),
        (0.03, second, ", T₀ 1.1 s", 1.0),
    ]
    .map(|(p, flow, remark, least)| {
        let case = Case { losses: Losses::Independent, p, rtt: 0.1, flow, remark };
        // The smoothed round-trip time plus the minimum timeout, which exceeds four deviations.
        let (formula, waiting) = pftk(p, case.rtt, case.rtt + least);
        cell(&case, formula, |flow| flow.throughput_bps, waiting < 0.2)
    })
    .into()
}

/// Segments per second after RFC 9438 §5.1 with C = 0.4 and β = 0.7, but not less than Reno's (§4.3).
fn cubic(p: f64, rtt: f64) -> f64 {
    let (c, beta) = (0.4_f64, 0.7);
    let window = (c * (3.0 + beta) / (4.0 * (1.0 - beta))).powf(0.25) * (rtt / p).powf(0.75);
    (window / rtt).max(mathis(p, rtt))
}

fn cubic_cells() -> Vec<Cell> {
    let flow = "congestion = \"cubic\"\ndelayed_ack = false";
    [
        (Losses::Periodic, 1e-4, 0.1, ""),
        (Losses::Periodic, 2e-4, 0.1, ""),
        (Losses::Periodic, 1e-4, 0.2, ""),
        (Losses::Periodic, 2e-4, 0.2, ""),
        (Losses::Periodic, 5e-4, 0.2, ""),
        (Losses::Periodic, 1e-4, 0.02, ", as Reno"),
        (Losses::Periodic, 2e-4, 0.02, ", as Reno"),
        (Losses::Periodic, 1e-3, 0.02, ", as Reno"),
        (Losses::Independent, 5e-4, 0.2, ", independent"),
    ]
    .map(|(losses, p, rtt, remark)| {
        let case = Case { losses, p, rtt, flow, remark };
        cell(&case, cubic(p, rtt), |flow| flow.goodput_bps, losses == Losses::Periodic)
    })
    .into()
}

/// Milliseconds until a file of `segments` segments has arrived, handshake included: the window is ten
/// segments and doubles in each round, until it covers the round-trip time and the link is never idle again.
fn slow_start(segments: f64, rate: f64, rtt: f64) -> f64 {
    let transmission = |bytes: f64| bytes * 8.0 / rate;
    let round = rtt + transmission(PACKET_BYTES + ACK_BYTES);
    let (mut window, mut left, mut rounds) = (10.0, segments, 0.0);
    while left > window && window * transmission(PACKET_BYTES) < round {
        left -= window;
        window *= 2.0;
        rounds += 1.0;
    }
    let handshake = rtt + transmission(2.0 * SYN_BYTES + ACK_BYTES);
    (handshake + rounds * round + left * transmission(PACKET_BYTES) + rtt / 2.0) * 1000.0
}

fn slow_start_cells() -> Vec<Cell> {
    [(10, 100, 50), (30, 100, 50), (100, 100, 50), (1000, 100, 50), (10_000, 100, 50), (1000, 10, 20)]
        .map(|(segments, mbit, rtt)| {
            let flow = only_flow(&read(&format!(
                "duration = \"20 s\"\n[[link]]\nbetween = [\"A\", \"B\"]\nrate = \"{mbit} Mbit/s\"\n\
                 delay = \"{} ms\"\nqueue = {{ kind = \"fifo\", limit = \"100000 packets\" }}\n\
                 [[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"tcp\"\ndelayed_ack = false\n\
                 send_buffer = \"64 MB\"\nreceive_buffer = \"64 MB\"\n\
                 workload = {{ kind = \"file\", size = \"{} B\" }}\n",
                rtt / 2,
                f64::from(segments) * SEGMENT_BYTES
            )));
            Cell {
                given: format!("{segments} segments, {mbit} Mbit/s, {rtt} ms"),
                formula: slow_start(f64::from(segments), f64::from(mbit) * 1e6, f64::from(rtt) / 1000.0),
                measured: flow.completion_s.expect("the file arrives") * 1000.0,
                noise: None,
                valid: true,
            }
        })
        .into()
}

/// A table of the page.
fn table(given: &str, unit: &str, cells: &[Cell]) -> String {
    let head = format!("| {given} | formula, {unit} | measured, {unit} | deviation | noise | valid |\n");
    let lines: String = cells.iter().map(Cell::line).collect();
    format!("{head}|---|---|---|---|---|---|\n{lines}")
}

#[test]
fn generated_page_of_theory_agrees() {
    // The tables are independent, and each takes seconds.
    let [mathis, pftk, cubic, slow_start] = std::thread::scope(|scope| {
        [mathis_cells, pftk_cells, cubic_cells, slow_start_cells]
            .map(|cells| scope.spawn(cells))
            .map(|thread| thread.join().expect("the runs succeed"))
    });
    let page = include_str!("theory/page.md")
        .replace("{mathis}\n", &table("losses, round trip", "segments/s", &mathis))
        .replace("{pftk}\n", &table("losses, round trip", "segments/s", &pftk))
        .replace("{cubic}\n", &table("losses, round trip", "segments/s", &cubic))
        .replace("{slow-start}\n", &table("file, link, round trip", "ms", &slow_start));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab-notes/theory.md");
    if std::env::var_os("ANABRANCH_GENERATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    for cell in [&mathis, &pftk, &cubic, &slow_start].into_iter().flatten() {
        assert!(!cell.valid || cell.deviation().abs() <= MAX_DEVIATION, "{}", cell.line());
        assert!(cell.noise <= Some(MAX_STANDARD_ERROR), "{}", cell.line());
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/lab-notes/theory.md differs from the results; run `make generate` if the change is intended"
    );
}
