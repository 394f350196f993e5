//! Controls that keep queues short: vegas, and the background transfers of ledbat.

use super::cases::text::read;
use anabranch_sim::{RunOptions, RunResult};
use std::fmt::Write as _;

/// TCP flows with these controls over a link of 10 Mbit/s with a buffer of 200 ms, measured after a minute.
fn run(controls: &[&str], more: &str) -> RunResult {
    let mut text = "duration = \"180 s\"\nwarmup = \"60 s\"\n[[link]]\nname = \"wire\"\nbetween = [\"R\", \"D\"]\n\
                    rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nqueue = { kind = \"fifo\", limit = \"250 kB\" }\n"
        .to_owned();
    for (number, control) in controls.iter().enumerate() {
        let _ = write!(
            text,
            "[[link]]\nbetween = [\"S{number}\", \"R\"]\nrate = \"100 Mbit/s\"\n[[flow]]\nfrom = \"S{number}\"\nto = \"D\"\n\
             protocol = \"tcp\"\ncongestion = \"{control}\"\n{more}\n"
        );
    }
    anabranch_sim::run(&read(&text, &[]), &RunOptions::default()).expect("the run succeeds")
}

/// Goodputs as shares of their sum, and that sum as a share of the link's payload.
fn shares(result: &RunResult) -> (Vec<f64>, f64) {
    let goodputs = result.flows.iter().map(|flow| flow.goodput_bps);
    let total: f64 = goodputs.clone().sum();
    (goodputs.map(|goodput| goodput / total).collect(), total / (10e6 * 1448.0 / 1500.0))
}

/// Mean time in the queue of the link, seconds.
fn queue_s(result: &RunResult) -> f64 {
    result.links[0].occupancy_bytes.mean * 8.0 / 10e6
}

#[test]
fn ledbat_alone_keeps_100_ms_of_queue() {
    for more in ["", "timestamps = false"] {
        let result = run(&["ledbat"], more);
        let (_, used) = shares(&result);
        assert!(used > 0.95, "{used}");
        assert!((0.08..=0.12).contains(&queue_s(&result)), "{}", queue_s(&result));
    }
}

#[test]
fn ledbat_yields_to_reno() {
    let (shares, used) = shares(&run(&["ledbat", "reno"], ""));
    assert!(shares[0] < 0.1, "{shares:?}");
    assert!(used > 0.95, "{used}");
}

#[test]
fn vegas_flows_share_equally() {
    let result = run(&["vegas", "vegas"], "");
    let (shares, used) = shares(&result);
    assert!((shares[0] / shares[1] - 1.0).abs() < 0.1, "{shares:?}");
    assert!(used > 0.95, "{used}");
    // Two to four packets of each flow.
    assert!((0.003..0.012).contains(&queue_s(&result)), "{}", queue_s(&result));
}

#[test]
fn westwood_fills_a_lossy_link_better_than_reno() {
    let lossy = |control| {
        let text = format!(
            "duration = \"60 s\"\nwarmup = \"10 s\"\n[[link]]\nbetween = [\"S\", \"D\"]\nrate = \"10 Mbit/s\"\ndelay = \"40 ms\"\n\
             loss = {{ model = \"bernoulli\", rate = 0.005 }}\nreverse = {{ loss = {{ model = \"none\" }} }}\n\
             [[flow]]\nfrom = \"S\"\nto = \"D\"\nprotocol = \"tcp\"\ncongestion = \"{control}\"\n"
        );
        let result = anabranch_sim::run(&read(&text, &[]), &RunOptions::default()).expect("the run succeeds");
        result.flows[0].goodput_bps
    };
    assert!(lossy("westwood") > 1.3 * lossy("reno"), "{} {}", lossy("westwood"), lossy("reno"));
}
