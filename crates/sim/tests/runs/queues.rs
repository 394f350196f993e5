//! Effects of queues on flows, in whole runs.

use super::cases::text::read;
use anabranch_sim::scenario::Scenario;
use anabranch_sim::{RunOptions, RunResult};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

/// Two flows with round-trip times of 20.4 and 40.4 ms over a bottleneck of 20 Mbit/s, and one that sends 200
/// bytes every 20 ms. A 1514-byte frame takes 0.6 ms.
static THREE_FLOWS: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '40 s', warmup = '10 s'")
        .link_defaults(
            "rate = '1 Gbit/s', delay = '0.1 ms', queue = { kind = 'fifo', limit = '1000 packets' }",
        )
        .link("near", ["S0", "R1"], "")
        .link("far", ["S1", "R1"], "delay = '10.1 ms'")
        .link("sparse", ["S2", "R1"], "")
        .link(
            "bottleneck",
            ["R1", "R2"],
            "rate = '20 Mbit/s', delay = '10 ms', queue = { kind = 'QUEUE', limit = '1000 packets' }",
        )
        .link("sink", ["R2", "D"], "")
        .flow("near", ["S0", "D"], "protocol = 'tcp', congestion = 'reno'")
        .flow("far", ["S1", "D"], "protocol = 'tcp', congestion = 'reno'")
        .flow(
            "sparse",
            ["S2", "D"],
            "protocol = 'udp', workload = { kind = 'messages', message = '200 B', interval = '20 ms' }",
        )
});

fn three_flows(queue: &str, sets: &[(&str, &str)]) -> Scenario {
    read(&THREE_FLOWS.replace("QUEUE", queue), sets)
}

fn run(queue: &str, sets: &[(&str, &str)]) -> RunResult {
    anabranch_sim::run(&three_flows(queue, sets), &RunOptions::default()).unwrap()
}

/// Mean queueing delay at the bottleneck, seconds, by Little's law.
fn waiting_s(result: &RunResult) -> f64 {
    let bottleneck = result.links.iter().find(|link| link.name == "bottleneck").unwrap();
    bottleneck.occupancy_bytes.mean * 8.0 / bottleneck.throughput_bps
}

/// Median and 99 % quantile of the sparse flow's delivery delay, seconds.
fn sparse_delay_s(result: &RunResult) -> [f64; 2] {
    let delay = result.flows[2].delivery_delay_s.unwrap();
    [delay.p50, delay.p99]
}

#[test]
fn codel_keeps_the_queue_near_its_target() {
    let (fifo, codel) = (run("fifo", &[]), run("codel", &[]));
    assert!(waiting_s(&fifo) > 0.1, "{}", waiting_s(&fifo));
    // Reno's sawtooth of two flows swings around the target of 5 ms.
    assert!((0.002..0.012).contains(&waiting_s(&codel)), "{}", waiting_s(&codel));
    let shorter = run("codel", &[("link.bottleneck.queue.target", "1 ms")]);
    assert!(
        waiting_s(&shorter) < 0.8 * waiting_s(&codel),
        "{} of {}",
        waiting_s(&shorter),
        waiting_s(&codel)
    );
    let carried = |result: &RunResult| result.flows.iter().map(|flow| flow.goodput_bps).sum::<f64>();
    assert!(carried(&codel) > 0.9 * carried(&fifo), "{} of {}", carried(&codel), carried(&fifo));
}

#[test]
fn fq_codel_shares_independently_of_rtt() {
    // The target is so long that the flow with the longer round-trip time also keeps its half of the link busy.
    let ratio = |queue| {
        let result = run(queue, &[("link.bottleneck.queue.target", "20 ms")]);
        result.flows[0].goodput_bps / result.flows[1].goodput_bps
    };
    assert!(ratio("codel") > 1.2, "a shorter round-trip time gains: {}", ratio("codel"));
    assert!((0.9..1.12).contains(&ratio("fq-codel")), "{}", ratio("fq-codel"));
}

#[test]
fn sparse_flow_hardly_waits_with_fq_codel() {
    // 0.1 + 10 + 0.1 ms of propagation, 0.1 ms of transmission: at most one frame of 0.6 ms of each of the
    // others before it.
    let [median, most] = sparse_delay_s(&run("fq-codel", &[]));
    assert!(median < 0.0113 && most < 0.0120, "{median} {most}");
    let [median, _] = sparse_delay_s(&run("fifo", &[]));
    assert!(median > 0.1, "{median}");
}

#[test]
fn ecn_marks_instead_of_dropping() {
    for queue in ["codel", "fq-codel"] {
        let sets =
            [("link.bottleneck.queue.ecn", "true"), ("flow.near.ecn", "true"), ("flow.far.ecn", "true")];
        let result = run(queue, &sets);
        let bottleneck = result.links.iter().find(|link| link.name == "bottleneck").unwrap();
        // Only packets of the sparse flow are dropped, because they cannot be marked. With its own queue it loses none.
        let sparse = &result.flows[2];
        assert!(bottleneck.drops * 200 <= sparse.written_bytes - sparse.delivered_bytes, "{queue}");
        assert!(queue == "codel" || bottleneck.drops == 0, "{queue}: {}", bottleneck.drops);
        assert!(bottleneck.marks > 50, "{queue}: {}", bottleneck.marks);
        for flow in &result.flows[..2] {
            assert_eq!(flow.paths[0].retransmissions, 0, "{queue}: {}", flow.name);
            assert!(flow.paths[0].ecn_reductions > Some(20), "{queue}: {}", flow.name);
        }
    }
}

#[test]
fn lookahead_does_not_change_the_run() {
    for queue in ["codel", "fq-codel"] {
        let scenario = three_flows(queue, &[("duration", "12 s")]);
        let run = |in_order| {
            anabranch_sim::run(&scenario, &RunOptions { in_order, ..RunOptions::default() }).unwrap()
        };
        assert_eq!(run(true).digest, run(false).digest, "{queue}");
    }
}
