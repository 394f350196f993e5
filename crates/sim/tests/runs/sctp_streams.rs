//! Streams and copies of CMT-SCTP in whole runs: fixed paths, stream schedulers, and the results by stream.

use anabranch_sim::scenario;
use anabranch_sim::scenario::result::FlowResult;
use anabranch_sim::{RunOptions, RunResult};
use anabranch_testkit::scenario_text::ScenarioText;

/// A flow over a fast and a slow path with these keys.
fn run(keys: &str) -> RunResult {
    let text = ScenarioText::new("duration = '20 s', warmup = '5 s'")
        .link("fast", ["S", "D"], "rate = '10 Mbit/s', delay = '10 ms'")
        .link("slow", ["S", "D"], "rate = '5 Mbit/s', delay = '80 ms'")
        .flow("F", ["S", "D"], "protocol = 'cmt-sctp'")
        .keys(keys);
    let scenario = scenario::parse(&text, "scenario", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    anabranch_sim::run(&scenario, &RunOptions { check_wire: true, ..RunOptions::default() }).unwrap()
}

const MEDIA_SETTINGS: &str = r#"streams = 3
nagle = false
workload = { kind = "rate", rate = "2 Mbit/s", message = "1000 B" }
"#;

fn delays(flow: &FlowResult) -> Vec<f64> {
    flow.streams.iter().map(|stream| stream.delivery_delay_s.expect("delivered").p95).collect()
}

#[test]
fn fixed_path_gives_its_delay_to_its_stream() {
    let [any, fixed] =
        ["any", "fixed"].map(|paths| run(&format!("stream_paths = \"{paths}\"\n{MEDIA_SETTINGS}")));
    let [any, fixed] = [&any.flows[0], &fixed.flows[0]];
    assert!(delays(any).iter().all(|&delay| delay > 0.08), "{:?}", delays(any));
    let own = delays(fixed);
    let (fast, slow) = (0.010..0.013, 0.080..0.085);
    assert!(fast.contains(&own[0]) && slow.contains(&own[1]) && fast.contains(&own[2]), "{own:?}");
    // Within one path no data is out of order.
    assert_eq!(fixed.streams.iter().map(|stream| stream.reordering_buffer_bytes.max).max(), Some(0));
    let held: Vec<f64> = any.streams.iter().map(|stream| stream.reordering_buffer_bytes.mean).collect();
    let all = any.reordering_buffer_bytes.expect("simulated").mean;
    assert!(all > 0.0 && (held.iter().sum::<f64>() / all - 1.0).abs() < 1e-9, "{held:?} of {all}");
    let delivered: u64 = fixed.streams.iter().map(|stream| stream.delivered_bytes).sum();
    assert_eq!(delivered, fixed.delivered_bytes);
}

#[test]
fn copies_give_the_delay_of_the_fast_path() {
    let result = run(&format!("scheduler = \"redundant\"\n{MEDIA_SETTINGS}"));
    let flow = &result.flows[0];
    assert!(delays(flow).iter().all(|&delay| delay < 0.013), "{:?}", delays(flow));
    let copies: u64 = flow.paths.iter().map(|path| path.bytes_by_kind["copy"]).sum();
    assert!(copies * 100 > flow.delivered_bytes * 95, "{copies} of {}", flow.delivered_bytes);
    let duplicates = flow.counters["chunks_duplicate"] * 1000;
    assert!(duplicates * 100 > flow.delivered_bytes * 95, "{duplicates}");
}

#[test]
fn flow_with_one_stream_lists_no_streams() {
    let result = run("workload = { kind = \"rate\", rate = \"1 Mbit/s\", message = \"1000 B\" }");
    assert!(result.flows[0].streams.is_empty());
}

/// The stream with the least urgent number or the least weight waits in the send buffer of a saturated flow.
#[test]
fn priorities_and_weights_order_the_delays_of_streams() {
    let saturated = "streams = 3\ni_data = true\nworkload = { kind = \"saturated\", message = \"1000 B\" }\n";
    for keys in [
        "stream_scheduler = \"priority\"\nstream_priorities = [0, 5, 9]",
        "stream_scheduler = \"weighted-fair\"\nstream_weights = [9, 3, 1]",
    ] {
        let result = run(&format!("{keys}\n{saturated}"));
        let own: Vec<f64> = result.flows[0]
            .streams
            .iter()
            .map(|stream| stream.delivery_delay_s.expect("delivered").p50)
            .collect();
        // The network's queue delays all streams, the send buffer only the last one.
        assert!(own[2] > 5.0 * own[0].max(own[1]), "{keys}: {own:?}");
    }
}

/// Reneging costs retransmissions and no data: every delivery is checked.
#[test]
fn reneging_receiver_loses_nothing() {
    let keys = |share: f64| {
        format!(
            "nr_sack = false\nreceive_buffer = \"20 kB\"\nrenege = {share}\nbuffer_splitting = \"none\"\n\
             chunk_rescheduling = false\nscheduler = \"round-robin\"\nworkload = {{ kind = \"saturated\" }}\n"
        )
    };
    let [without, with] = [0.0, 0.5].map(|share| run(&keys(share)));
    let count = |result: &RunResult, name: &str| result.flows[0].counters[name];
    assert_eq!((count(&without, "chunks_discarded"), count(&without, "chunks_reneged")), (0, 0));
    let counts = [count(&with, "chunks_discarded"), count(&with, "chunks_reneged")];
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    assert!(with.flows[0].goodput_bps < without.flows[0].goodput_bps);
    assert!(with.flows[0].delivered_bytes > 100_000, "{}", with.flows[0].delivered_bytes);
}
