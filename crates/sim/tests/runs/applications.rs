//! Applications at both ends of a flow: reverse data, data in both directions, requests and responses.

use anabranch_base::time::{Duration, Time};
use anabranch_netem::loss::bernoulli::Bernoulli;
use anabranch_sim::presets::{link, mptcp, saturated, scenario, sctp, tcp, udp, wire};
use anabranch_sim::scenario::Scenario;
use anabranch_sim::scenario::model::{Directions, Flow, LinkModel, Loss, MessageSize, Protocol, Workload};
use anabranch_sim::scenario::result::FlowResult;
use anabranch_sim::{RunOptions, RunResult};

const BETWEEN: [&str; 2] = ["S", "D"];

/// Runs a scenario three times: with lookahead, in order of time, and with every packet checked. The results
/// must be equal.
fn run(scenario: &Scenario) -> RunResult {
    let run = |options| anabranch_sim::run(scenario, &options).expect("the run succeeds");
    let result = run(RunOptions::default());
    assert_eq!(run(RunOptions { in_order: true, ..RunOptions::default() }), result, "in order");
    assert_eq!(run(RunOptions { check_wire: true, ..RunOptions::default() }), result, "with packets checked");
    result
}

/// All protocols with connections.
fn connected() -> Vec<(&'static str, Protocol, &'static str)> {
    vec![
        ("tcp", Protocol::Tcp(tcp()), "cubic"),
        ("mptcp", mptcp(), "lia"),
        ("sctp", sctp(false), "reno"),
        ("cmt", sctp(true), "cmt-rpv2"),
    ]
}

/// A flow of each protocol over two paths that lose one in a hundred packets, each with its own hosts.
fn lossy(of: impl Fn(Flow) -> Flow) -> Scenario {
    let lossy = || LinkModel { loss: Loss::Bernoulli(Bernoulli { rate: 0.01 }), ..wire(10, 5, 50) };
    let (mut links, mut flows) = (Vec::new(), Vec::new());
    for (name, protocol, congestion) in connected() {
        let [source, sink] = [format!("{name}-source"), format!("{name}-sink")];
        for path in 0..2 {
            links.push(link(&format!("{name}-{path}"), [&source, &sink], lossy()));
        }
        let ordered = name == "sctp";
        flows.push(of(Flow { ordered, ..saturated(name, [&source, &sink], protocol, congestion) }));
    }
    scenario(60, links, flows)
}

fn exchanges(request: u64, response: u64, think_ms: u64, count: u64) -> Workload {
    Workload::RequestResponse {
        request: MessageSize::Constant(request),
        response: MessageSize::Constant(response),
        think: Duration::from_millis(think_ms),
        exponential: false,
        count: Some(count),
    }
}

#[test]
fn response_time_equals_time_computed_by_hand() {
    let flow = saturated("F", BETWEEN, Protocol::Tcp(tcp()), "reno");
    for direction in [Directions::Forward, Directions::Reverse] {
        let flow = Flow { workload: exchanges(1_000, 10_000, 100, 5), direction, ..flow.clone() };
        let base = scenario(10, vec![link("a", BETWEEN, wire(10, 5, 100))], vec![flow]);
        let result = run(&base);
        let flow = &result.flows[0];
        assert_eq!((flow.answers, flow.state.as_str()), (Some(5), "closed"));
        assert_eq!((flow.delivered_bytes, flow.reverse_delivered_bytes), (5_000, Some(50_000)));
        // At 10 Mbit/s and 5 ms in each direction, with 52 bytes of headers: the 1052 bytes of a request take 0.8416
        // ms, and the seven segments of a response with 10,364 bytes take 8.2912 ms.
        let once = 0.000_841_6 + 0.005 + 0.008_291_2 + 0.005;
        // If the connecting host sends the first request, the last segment of the handshake (52 bytes) precedes it.
        let behind = if direction == Directions::Forward { 0.000_041_6 / 5.0 } else { 0.0 };
        let mean = flow.response_time_s.expect("five answers").mean;
        assert!((mean - once - behind).abs() < 1e-12, "{direction:?}: {mean}");
        // Delivery delay of a request, which is written and read at once.
        let there = flow.delivery_delay_s.expect("five requests").mean;
        assert!((there - 0.005_841_6 - behind).abs() < 1e-12, "{direction:?}: {there}");
        let back = flow.reverse_delivery_delay_s.expect("five answers").mean;
        assert!(
            (0.005..0.013_291_2).contains(&back),
            "the mean delay of response bytes lies between those of the first and last: {back}"
        );
    }
}

#[test]
fn requests_stop_in_time_and_warm_up_is_excluded() {
    let Workload::RequestResponse { request, response, think, exponential, .. } = exchanges(100, 100, 300, 1)
    else {
        unreachable!("requests")
    };
    let workload = Workload::RequestResponse { request, response, think, exponential, count: None };
    let stop = Some(Time::ZERO + Duration::from_secs(5));
    let flow = Flow { workload, stop, ..saturated("F", BETWEEN, Protocol::Tcp(tcp()), "reno") };
    let base = scenario(10, vec![link("a", BETWEEN, wire(10, 50, 100))], vec![flow]);
    let result = run(&Scenario { warmup: Duration::from_secs(6), ..base });
    // 100 ms for the handshake, then one request per 300 ms and 2 × (50 ms + 152 bytes at 10 Mbit/s).
    assert_eq!((result.flows[0].answers, result.flows[0].response_time_s), (Some(13), None));
    assert_eq!((result.flows[0].state.as_str(), result.flows[0].goodput_bps), ("closed", 0.0));
}

fn delivered(flow: &FlowResult) -> [Option<u64>; 2] {
    [Some(flow.delivered_bytes), flow.reverse_delivered_bytes]
}

#[test]
fn every_protocol_answers_over_lossy_paths() {
    let result = run(&lossy(|flow| Flow { workload: exchanges(700, 30_000, 1, 200), ..flow }));
    for flow in &result.flows {
        assert_eq!((flow.answers, flow.state.as_str()), (Some(200), "closed"), "{}", flow.name);
        assert_eq!(delivered(flow), [Some(140_000), Some(6_000_000)], "{}", flow.name);
        let times = flow.response_time_s.expect("answers");
        assert!(0.01 < times.p50 && times.p50 <= times.p95 && times.p95 <= times.p99, "{times:?}");
        assert!(flow.completion_s.is_some_and(|completion| completion > 200.0 * times.mean), "{}", flow.name);
    }
}

#[test]
fn every_protocol_carries_files_in_both_directions() {
    for message in [None, Some(MessageSize::Uniform { low: 1, high: 4_000 })] {
        let workload = Workload::File { size: MessageSize::Constant(3_000_000), message, arrivals: None };
        let direction = Directions::Both;
        let result = run(&lossy(|flow| Flow { workload: workload.clone(), direction, ..flow }));
        for flow in &result.flows {
            assert_eq!(delivered(flow), [Some(3_000_000); 2], "{}", flow.name);
            assert_eq!((flow.state.as_str(), flow.direction.as_deref()), ("closed", Some("both")));
            assert!(flow.completion_s.is_some(), "{}", flow.name);
            assert!(
                flow.paths.iter().any(|path| path.retransmissions > 0),
                "{}: no packet was lost",
                flow.name
            );
        }
    }
}

#[test]
fn both_directions_add_up_and_stop_in_time() {
    let stop = Some(Time::ZERO + Duration::from_secs(20));
    let run = |direction| run(&lossy(|flow| Flow { direction, stop, ..flow }));
    let (forward, both) = (run(Directions::Forward), run(Directions::Both));
    for (forward, both) in forward.flows.iter().zip(&both.flows) {
        assert_eq!((forward.reverse_goodput_bps, forward.direction.as_deref()), (None, None));
        let [there, back] = [both.goodput_bps, both.reverse_goodput_bps.expect("both ways")];
        assert!(there + back > 1.4 * forward.goodput_bps, "{}: {there} {back}", both.name);
        assert_eq!(both.state, "closed", "{}", both.name);
        assert_eq!(both.reverse_delivered_bytes, both.reverse_written_bytes, "{}", both.name);
    }
}

#[test]
fn reverse_data_is_reported_by_its_sender() {
    let slow = LinkModel { rate: wire(2, 1, 1).rate, ..wire(10, 5, 50) };
    let mut narrow = link("a", BETWEEN, wire(10, 5, 50));
    narrow.reverse = slow;
    for (name, protocol, congestion) in connected() {
        let flow = Flow { direction: Directions::Reverse, ..saturated("F", BETWEEN, protocol, congestion) };
        let result = run(&scenario(20, vec![narrow.clone()], vec![flow]));
        let flow = &result.flows[0];
        assert!((1.7e6..2e6).contains(&flow.goodput_bps), "{name}: {}", flow.goodput_bps);
        let path = &flow.paths[0];
        assert!(path.local.contains(":5001") && path.cwnd_mean_bytes > 10_000.0, "{name}: {path:?}");
        assert_eq!((flow.reverse_goodput_bps, flow.direction.as_deref()), (None, Some("reverse")));
    }
}

#[test]
fn datagrams_in_both_directions_match_numbers() {
    let flow = Flow { direction: Directions::Both, ..udp("F", BETWEEN, 8) };
    let result = run(&scenario(10, vec![link("a", BETWEEN, wire(10, 5, 20))], vec![flow]));
    let flow = &result.flows[0];
    // One datagram per millisecond from 0 on, with a delay of 5.8224 ms. The other host learns its destination at
    // 5.8224 ms, and then sends the six datagrams that it has ready.
    assert_eq!((flow.written_bytes, flow.delivered_bytes), (10_000_000, 9_995_000));
    assert_eq!(
        (flow.reverse_written_bytes, flow.reverse_delivered_bytes),
        (Some(10_000_000), Some(9_995_000))
    );
}
