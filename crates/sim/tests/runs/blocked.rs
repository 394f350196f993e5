//! Waiting times of senders with data, in whole runs.

use super::cases::text::read;
use anabranch_sim::RunOptions;
use anabranch_sim::scenario::result::{FlowResult, PathResult};
use std::collections::BTreeMap;

/// The measured part of the runs, seconds.
const MEASURED_SECONDS: f64 = 15.0;

/// One flow over two links between its hosts, of 10 Mbit/s and of `second`.
fn flow(settings: &str, second: &str) -> FlowResult {
    let text = format!(
        r#"
duration = "20 s"
warmup = "5 s"
[link_defaults]
rate = "10 Mbit/s"
delay = "10 ms"
queue = {{ limit = "50 packets" }}
[[link]]
name = "first"
between = ["S", "D"]
[[link]]
name = "second"
between = ["S", "D"]
rate = "{second}"
[[flow]]
name = "F"
from = "S"
to = "D"
{settings}
"#
    );
    let result = anabranch_sim::run(&read(&text, &[]), &RunOptions::default()).expect("the run succeeds");
    result.flows.into_iter().next().expect("the flow")
}

fn total(blocked: &BTreeMap<String, f64>) -> f64 {
    blocked.values().sum()
}

/// Every waiting time is counted once for the flow and once for each path.
fn check(flow: &FlowResult) {
    let paths = flow.paths.iter().map(|PathResult { blocked_s, .. }| blocked_s);
    for blocked in paths.chain([&flow.blocked_s]) {
        assert!(total(blocked) <= MEASURED_SECONDS * (1.0 + 1e-9), "{}: {blocked:?}", flow.protocol);
    }
}

#[test]
fn saturated_flow_waits_nearly_always() {
    for (protocol, cause, paths) in [
        ("tcp", "congestion-window", 1),
        ("mptcp", "congestion-window", 2),
        ("sctp", "congestion-window", 1),
        ("cmt-sctp", "congestion-window", 2),
    ] {
        let settings =
            format!("protocol = \"{protocol}\"\nsend_buffer = \"8 MB\"\nreceive_buffer = \"8 MB\"");
        let flow = flow(&settings, "10 Mbit/s");
        check(&flow);
        let blocked = flow.blocked_s[cause];
        assert!(blocked > 0.95 * MEASURED_SECONDS, "{protocol}: {:?}", flow.blocked_s);
        let waited = flow
            .paths
            .iter()
            .filter(|path| path.blocked_s.get(cause).is_some_and(|s| *s > 0.9 * MEASURED_SECONDS));
        assert_eq!(waited.count(), paths, "{protocol}: {:#?}", flow.paths);
    }
}

#[test]
fn slow_application_never_waits() {
    for protocol in ["tcp", "mptcp", "sctp", "cmt-sctp", "udp"] {
        let settings =
            format!("protocol = \"{protocol}\"\nworkload = {{ kind = \"rate\", rate = \"200 kbit/s\" }}");
        let flow = flow(&settings, "10 Mbit/s");
        let paths = flow.paths.iter().map(|path| &path.blocked_s);
        for blocked in paths.chain([&flow.blocked_s]) {
            assert!(total(blocked) < 0.01 * MEASURED_SECONDS, "{protocol}: {blocked:?}");
        }
    }
}

/// A small receive buffer, occupied by data on a slow path, keeps both paths from sending although their
/// windows have room: the sum of their waits exceeds that of the flow. Chunk rescheduling is off, since it
/// would move that data to the fast path before the buffer is full.
#[test]
fn buffer_blocking_two_paths_counts_once() {
    let settings = "protocol = \"cmt-sctp\"\ncongestion = \"reno\"\nbuffer_splitting = \"none\"\n\
                    chunk_rescheduling = false\nreceive_buffer = \"50 kB\"\nordered = false";
    let flow = flow(settings, "200 kbit/s");
    check(&flow);
    let by_buffers = |blocked: &BTreeMap<String, f64>| total(blocked) - blocked["congestion-window"];
    let paths = [0, 1].map(|at: usize| by_buffers(&flow.paths[at].blocked_s));
    assert!(
        paths[0] > 0.5 * MEASURED_SECONDS && paths[0] + paths[1] > 1.5 * MEASURED_SECONDS,
        "{:#?}",
        flow.paths
    );
    assert!(by_buffers(&flow.blocked_s) > 0.9 * MEASURED_SECONDS, "{:?}", flow.blocked_s);
}
