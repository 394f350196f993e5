//! Traces are correct and do not change the run.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario;
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

static SCENARIO: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '5 s', warmup = '1 s'")
        .link("fast", ["A", "B"], "rate = '10 Mbit/s', delay = '5 ms'")
        .link("slow", ["A", "B"], "rate = '1 Mbit/s', delay = '30 ms'")
        .flow("F0", ["A", "B"], "protocol = 'cmt-sctp', congestion = 'cmt-rpv2'")
        .keys("workload = { kind = 'saturated', message = '1452 B' }")
        .flow("F1", ["A", "B"], "protocol = 'mptcp', paths = 'ndiffports:2'")
});

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn traces_are_complete_and_keep_the_digest() {
    let scenario = scenario::parse(&SCENARIO, "scenario", &[]).unwrap();
    let plain = anabranch_sim::run(&scenario, &RunOptions::default()).unwrap();
    let folder = folder("traces");
    let options = RunOptions { trace: Some(folder.clone()), ..RunOptions::default() };
    let traced = anabranch_sim::run(&scenario, &options).unwrap();
    assert_eq!((&traced.digest, traced.events), (&plain.digest, plain.events));
    assert_eq!(traced.flows, plain.flows);

    let text = std::fs::read_to_string(folder.join("paths.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("time_s,flow,path,cwnd_bytes,ssthresh_bytes,srtt_us,outstanding_bytes"));
    let mut paths = BTreeSet::new();
    let mut largest = 0;
    let mut last = 0.0;
    for line in lines {
        let fields: Vec<_> = line.split(',').collect();
        assert_eq!(fields.len(), 7, "{line}");
        let time: f64 = fields[0].parse().unwrap();
        assert!((last..5.0).contains(&time), "{line}");
        last = time;
        paths.insert(format!("{}/{}", fields[1], fields[2]));
        let cwnd: u64 = fields[3].parse().unwrap();
        if fields[1] == "F0" && fields[2] == "fast" && time >= 1.0 {
            largest = largest.max(cwnd);
        }
        assert!(fields[4].is_empty() || fields[4].parse::<u64>().is_ok(), "{line}");
    }
    let known: BTreeSet<_> = plain
        .flows
        .iter()
        .flat_map(|f| f.paths.iter().map(move |p| format!("{}/{}", f.name, p.name)))
        .collect();
    assert_eq!(paths, known);
    let (max, mean) = (plain.flows[0].paths[0].cwnd_max_bytes, plain.flows[0].paths[0].cwnd_mean_bytes);
    assert!(
        max as f64 >= mean && largest.abs_diff(max) <= 1500,
        "{largest} in the trace, {max} in the result"
    );

    let rows = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap().lines().count();
    assert!(rows("buffers.csv") > 100 && rows("queues.csv") > 100);
}

#[test]
fn error_names_an_uncreatable_folder() {
    let scenario = scenario::parse(&SCENARIO, "scenario", &[]).unwrap();
    let folder = folder("in-the-way");
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::fs::write(&folder, "a file").unwrap();
    let options = RunOptions { trace: Some(folder.join("traces")), ..RunOptions::default() };
    let error = anabranch_sim::run(&scenario, &options).unwrap_err().to_string();
    assert!(error.contains("in-the-way/traces"), "{error}");
    std::fs::remove_file(folder).unwrap();
}

#[test]
fn decisions_cover_all_data_with_reasons() {
    let settings = [("flow.F1.paths".to_owned(), "disjoint".to_owned())];
    let text = SCENARIO.replace("protocol = \"mptcp\"", "protocol = \"mptcp\"\nreceive_buffer = \"30 kB\"");
    let scenario = scenario::parse(&text, "scenario", &settings).unwrap();
    let folder = folder("decisions");
    let options = RunOptions { trace: Some(folder.clone()), ..RunOptions::default() };
    anabranch_sim::run(&scenario, &options).unwrap();
    let text = std::fs::read_to_string(folder.join("decisions.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("time_s,flow,path,offset_bytes,length_bytes,reason"));
    let mut flows = BTreeMap::from([("F0", Seen::default()), ("F1", Seen::default())]);
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let [_, flow, path, offset, len, reason] = cells[..] else { panic!("{line}") };
        let Seen { next, paths, reasons } = flows.get_mut(flow).unwrap();
        let (offset, len): (u64, u64) = (offset.parse().unwrap(), len.parse().unwrap());
        assert_eq!(path.is_empty(), len == 0, "{line}");
        reasons.insert(reason.to_owned());
        if reason == "new-data" {
            // New data is assigned once, from the first byte on.
            assert_eq!(offset, *next, "{line}");
            *next += len;
            paths.insert(path.to_owned());
        }
    }
    for (flow, Seen { next, paths, reasons }) in flows {
        assert!(next > 1_000_000 && paths.len() == 2, "{flow}: {next} bytes on {paths:?}");
        assert!(reasons.contains("congestion-window") || reasons.contains("receive-window"), "{reasons:?}");
        assert_eq!(reasons.contains("retransmission"), flow == "F0", "subflows retransmit by themselves");
    }
}

/// Summary of a flow's decisions.
#[derive(Default)]
struct Seen {
    next: u64,
    paths: BTreeSet<String>,
    reasons: BTreeSet<String>,
}
