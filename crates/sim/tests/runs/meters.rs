//! Measurements over time, compared with closed forms and with a replay of traces of every change.

use anabranch_sim::scenario::result::{FlowResult, RunResult};
use anabranch_sim::{RunOptions, scenario};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn close(value: f64, expected: f64, within: f64) -> bool {
    (value - expected).abs() <= within * expected.abs().max(1e-9)
}

/// A run of one TCP flow over one link of 100 Mbit/s and a round-trip time of `rtt` milliseconds without
/// transmission.
fn one_flow(rtt: u64, head: &str, flow: &str) -> FlowResult {
    let text = format!(
        "{head}\n[[link]]\nname = \"L\"\nbetween = [\"A\", \"B\"]\nrate = \"100 Mbit/s\"\ndelay = \"{} us\"\n\
         [[flow]]\nname = \"F\"\nfrom = \"A\"\nto = \"B\"\nprotocol = \"tcp\"\n{flow}\n",
        rtt * 500
    );
    let scenario = scenario::parse(&text, "scenario", &[]).unwrap();
    anabranch_sim::run(&scenario, &RunOptions::default()).unwrap().flows.remove(0)
}

#[test]
fn bytes_in_flight_are_averaged_over_time() {
    let flow = one_flow(
        4,
        "duration = \"20 s\"\nwarmup = \"1 s\"",
        "delayed_ack = false\nworkload = { kind = \"messages\", message = \"1 kB\", interval = \"20 ms\" }",
    );
    // 1000 bytes every 20 ms, each in flight until its acknowledgement: 4 ms, and 1052 and 52 bytes at 100
    // Mbit/s.
    let in_flight = 0.004 + 1104.0 * 8.0 / 100e6;
    let mean = flow.paths[0].outstanding_mean_bytes;
    assert!(close(mean, 1000.0 * in_flight / 0.020, 1e-3), "{mean}");
}

#[test]
fn ended_connection_is_no_longer_averaged() {
    let flow = one_flow(
        20,
        "duration = \"20 s\"\nwarmup = \"0 s\"",
        "workload = { kind = \"file\", size = \"100 kB\" }",
    );
    let done = flow.completion_s.expect("the file is complete");
    assert!(done < 0.12, "{done}");
    // All of its bytes were in flight for a round-trip time, relative to the time until the last
    // acknowledgement and FIN.
    let mean = flow.paths[0].outstanding_mean_bytes;
    let (low, high) = (100_000.0 * 0.020 / (done + 0.035), 100_000.0 * 0.032 / done);
    assert!((low..high).contains(&mean), "{mean} is not between {low} and {high}");
}

#[test]
fn averages_begin_with_the_flow_and_first_sample() {
    let flow = one_flow(20, "duration = \"20 s\"\nwarmup = \"5 s\"", "start = \"19 s\"");
    let path = &flow.paths[0];
    let srtt = path.srtt_mean_s.expect("there were samples");
    assert!(srtt >= 0.020, "{srtt}");
    assert!(path.cwnd_mean_bytes > 14_480.0, "{}", path.cwnd_mean_bytes);
}

static SCENARIO: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '5 s', warmup = '1 s'")
        .link(
            "fast",
            ["A", "B"],
            "rate = '10 Mbit/s', delay = '5 ms', loss = { model = 'bernoulli', rate = 0.01 }",
        )
        .link("slow", ["A", "B"], "rate = '3 Mbit/s', delay = '40 ms'")
        .flow("M", ["A", "B"], "protocol = 'mptcp'")
        .flow("S", ["A", "B"], "protocol = 'cmt-sctp', start = '0.5 s'")
        .flow(
            "T",
            ["A", "B"],
            "protocol = 'tcp', start = '1.5 s', workload = { kind = 'file', size = '300 kB' }",
        )
});

/// A separate folder for this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Mean over the time in which the value is known, and the largest value, from `since` until `until`.
fn mean_max(rows: &[(f64, Option<f64>)], since: f64, until: f64) -> (f64, f64) {
    let ends = rows.iter().skip(1).map(|row| row.0).chain([until]);
    let (mut sum, mut span, mut max) = (0.0, 0.0, 0.0_f64);
    for (&(begin, value), end) in rows.iter().zip(ends) {
        let (begin, end) = (begin.max(since), end.min(until));
        if let Some(value) = value
            && end > begin
        {
            sum += value * (end - begin);
            span += end - begin;
            max = max.max(value);
        }
    }
    (sum / span, max)
}

/// The rows of a column, by the identifying columns after the time.
fn column(text: &str, names: usize, wanted: &str) -> BTreeMap<String, Vec<(f64, Option<f64>)>> {
    let mut lines = text.lines();
    let at = lines.next().unwrap().split(',').position(|name| name == wanted).unwrap();
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let subject = cells[1..=names].join("/");
        all.entry(subject).or_default().push((cells[0].parse().unwrap(), cells[at].parse().ok()));
    }
    all
}

fn run_traced() -> (RunResult, PathBuf) {
    let scenario = scenario::parse(&SCENARIO, "scenario", &[]).unwrap();
    let plain = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap();
    let folder = folder("every-change");
    let options = RunOptions { trace: Some(folder.clone()), trace_changes: true, ..RunOptions::default() };
    let result = anabranch_sim::run(&scenario, &options).unwrap();
    assert_eq!(plain, result, "tracing every change does not change the run");
    (result, folder)
}

#[test]
fn means_and_maxima_equal_those_of_a_replay() {
    let (result, folder) = run_traced();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (paths, buffers) = (read("paths.csv"), read("buffers.csv"));
    for flow in &result.flows {
        for path in &flow.paths {
            let of =
                |name| mean_max(&column(&paths, 2, name)[&format!("{}/{}", flow.name, path.name)], 1.0, 5.0);
            let (cwnd, outstanding, srtt) = (of("cwnd_bytes"), of("outstanding_bytes"), of("srtt_us"));
            let what = format!("{} {}", flow.name, path.name);
            assert!(
                close(path.cwnd_mean_bytes, cwnd.0, 1e-6),
                "{what}: {} for {}",
                path.cwnd_mean_bytes,
                cwnd.0
            );
            assert!(
                close(path.cwnd_max_bytes as f64, cwnd.1, 1e-9),
                "{what}: {} for {}",
                path.cwnd_max_bytes,
                cwnd.1
            );
            let found = path.outstanding_mean_bytes;
            assert!(close(found, outstanding.0, 1e-6), "{what}: {found} for {}", outstanding.0);
            let Some(found) = path.srtt_mean_s else {
                assert!(srtt.0.is_nan(), "{what}: no round-trip time for {}", srtt.0);
                continue;
            };
            assert!(close(found, srtt.0 / 1e6, 1e-3), "{what}: {found} for {}", srtt.0 / 1e6);
        }
        for (found, name) in [
            (flow.reordering_buffer_bytes, "reordering_buffer_bytes"),
            (flow.receive_buffer_bytes, "receive_buffer_bytes"),
        ] {
            let found = found.expect("a simulation reports this buffer");
            let (mean, max) = mean_max(&column(&buffers, 1, name)[&flow.name], 1.0, 5.0);
            assert!(close(found.mean, mean, 1e-6), "{} {name}: {} for {mean}", flow.name, found.mean);
            assert!(close(found.max as f64, max, 1e-9), "{} {name}: {} for {max}", flow.name, found.max);
        }
        let (_, delivered) = mean_max(&column(&buffers, 1, "delivered_bytes")[&flow.name], 0.0, 9.0);
        assert!(close(delivered, flow.delivered_bytes as f64, 1e-12), "{} delivered {delivered}", flow.name);
    }
}

#[test]
fn subflow_gaps_count_in_mptcp_buffers() {
    let text = SCENARIO.split("[[flow]]").take(2).collect::<Vec<_>>().join("[[flow]]");
    let one_path = text.replace("protocol = \"mptcp\"", "protocol = \"mptcp\"\npaths = \"default\"");
    let scenario = scenario::parse(&one_path, "scenario", &[]).unwrap();
    let result = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap();
    // One subflow with losses: all out-of-order data waits for a gap of this subflow.
    let held = result.flows[0].reordering_buffer_bytes.expect("a simulation reports this buffer");
    assert!(
        result.flows[0].paths[0].retransmissions > 10 && held.mean > 100.0 && held.max > 10_000,
        "{held:?}"
    );
}
