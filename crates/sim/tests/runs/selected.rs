//! Random values drawn before a run, and selection of captured packets.

use anabranch_base::time::{Duration, Time};
use anabranch_sim::report::capture::Settings;
use anabranch_sim::scenario::result::RunResult;
use anabranch_sim::{RunError, RunOptions, scenario};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use std::path::{Path, PathBuf};

static SCENARIO: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '3 s', warmup = '0 s'")
        .link("L", ["A", "R"], "rate = '10 Mbit/s', queue = { kind = 'fifo', limit = '20 packets' }")
        .link("M", ["R", "B"], "rate = '5 Mbit/s', delay = '5 ms'")
        .keys("loss = { model = 'bernoulli', rate = 0.02 }")
        .flow("F", ["A", "B"], "protocol = 'tcp', start = { uniform = ['0.5 s', '1 s'] }")
        .flow("U", ["A", "B"], "protocol = 'udp'")
        .keys("workload = { kind = 'messages', message = { exponential = '500 B' }, interval = '2 ms', distribution = 'exponential' }")
});

fn run(text: &str, options: &RunOptions) -> Result<RunResult, RunError> {
    anabranch_sim::run(&scenario::parse(text, "scenario", &[]).unwrap(), options)
}

#[test]
fn random_start_does_not_shift_other_draws() {
    let starts: Vec<f64> = (0..40)
        .map(|seed| {
            let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
            run(&SCENARIO, &options).unwrap().flows[0].start_s
        })
        .collect();
    assert!(starts.iter().all(|start| (0.5..=1.0).contains(start)), "{starts:?}");
    let mean = starts.iter().sum::<f64>() / 40.0;
    assert!((mean - 0.75).abs() < 0.08 && (starts[0] - starts[1]).abs() > 1e-6, "{starts:?}");
    let fixed = SCENARIO.replace("{ uniform = [\"0.5 s\", \"1 s\"] }", "\"0.5 s\"");
    let [random, fixed] = [&*SCENARIO, &*fixed].map(|text| run(text, &RunOptions::default()).unwrap());
    assert_eq!(random.flows[1].written_bytes, fixed.flows[1].written_bytes, "the datagrams are the same");
}

#[test]
fn random_offset_is_shared_by_both_directions() {
    let folder = folder("offset");
    std::fs::create_dir_all(&folder).unwrap();
    // An opportunity every 10 ms, and none in the first second of three.
    let moments: Vec<String> = (100..=300).map(|number| (number * 10).to_string()).collect();
    std::fs::write(folder.join("gap.mahi"), moments.join("\n")).unwrap();
    let text = SCENARIO.replace(
        "rate = \"5 Mbit/s\"",
        "rate = { trace = \"gap.mahi\", offset = { uniform = [\"0 s\", \"3 s\"] } }",
    );
    let file = folder.join("scenario.toml");
    let scenario = scenario::parse(&text, file.to_str().unwrap(), &[]).unwrap();
    let mut seen = Vec::new();
    for seed in 0..6 {
        let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
        let mut run = anabranch_sim::Simulation::new(scenario.clone(), &options).unwrap();
        let moment = Time::ZERO + Duration::from_millis(1000);
        let offered = [2, 3].map(|direction| {
            run.datapath()
                .link(anabranch_netem::Interface(direction))
                .at(moment)
                .totals(moment)
                .offered_bytes
                .unwrap()
        });
        assert_eq!(offered[0], offered[1], "seed {seed}");
        assert!(offered[0] <= 101 * 1500, "seed {seed}");
        seen.push(offered[0]);
    }
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 3, "{seen:?}");
}

/// A separate folder for this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("selected-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// The packets of a capture: number of the interface, bytes kept, bytes on the wire; and the names of the interfaces.
fn packets(settings: &Settings) -> (Vec<(u32, u32, u32)>, Vec<String>, RunResult) {
    let options = RunOptions { pcap: Some(settings.clone()), ..RunOptions::default() };
    let result = run(&SCENARIO, &options).unwrap();
    let capture = std::fs::read(&settings.file).unwrap();
    std::fs::remove_file(&settings.file).unwrap();
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
    let (mut at, mut packets, mut names) = (0, Vec::new(), Vec::new());
    while at < capture.len() {
        match word(at) {
            // The first option of an interface is its name.
            1 => {
                let len = usize::from(u16::from_le_bytes(capture[at + 18..at + 20].try_into().unwrap()));
                names.push(String::from_utf8(capture[at + 20..at + 20 + len].to_vec()).unwrap());
            }
            6 => packets.push((word(at + 8), word(at + 20), word(at + 24))),
            _ => {}
        }
        at += word(at + 4) as usize;
    }
    (packets, names, result)
}

#[test]
fn capture_contains_the_selection() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("selected.pcapng");
    let (all, names, result) = packets(&Settings { file: file.clone(), ..Settings::default() });
    assert_eq!(names[..4], ["A:L", "R:L", "R:M", "B:M"]);
    assert_eq!(names[4..], ["A:L dropped", "R:L dropped", "R:M dropped", "B:M dropped"]);
    for (link, interface) in result.links.iter().zip([4, 5, 6, 7]) {
        let dropped = all.iter().filter(|packet| packet.0 == interface).count() as u64;
        assert_eq!(dropped, link.drops, "{} {}", link.name, link.direction);
    }
    assert!(result.links[2].drops > 20);

    let snaplen = Some(96);
    let (short, ..) = packets(&Settings { file: file.clone(), snaplen, ..Settings::default() });
    assert_eq!(short.len(), all.len());
    assert!(short.iter().zip(&all).all(|(short, all)| (short.1, short.2) == (all.2.min(96), all.2)));

    let ends = vec!["B:M".to_owned()];
    let (at_receiver, names, _) = packets(&Settings { file: file.clone(), ends, ..Settings::default() });
    assert_eq!(names, ["B:M", "B:M dropped"]);
    let expected = all.iter().filter(|packet| [3, 7].contains(&packet.0)).count();
    assert_eq!(at_receiver.len(), expected);

    let flows = vec!["F".to_owned()];
    let (one, ..) =
        packets(&Settings { file: file.clone(), flows, ends: vec!["A".to_owned()], ..Settings::default() });
    let sent = one.iter().filter(|packet| packet.0 == 0 && packet.2 > 100).count() as u64;
    assert!(result.flows[0].paths[0].data_packets.abs_diff(sent) <= 3, "{sent}");
}

#[test]
fn unknown_names_cannot_be_captured() {
    let file = folder("nothing");
    for (ends, flows, says) in [
        (vec!["A:M".to_owned()], vec![], "no node, link or link end \"A:M\""),
        (vec![], vec!["G".to_owned()], "no flow \"G\""),
    ] {
        let pcap = Some(Settings { file: file.clone(), ends, flows, ..Settings::default() });
        let error = run(&SCENARIO, &RunOptions { pcap, ..RunOptions::default() }).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    assert!(!file.exists());
}
