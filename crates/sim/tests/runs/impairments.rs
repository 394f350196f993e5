//! Losses of listed packets, duplicates, recorded traces and suspended links in whole runs.

use anabranch_sim::scenario::model::{Scenario, Workload};
use anabranch_sim::{RunOptions, RunResult, run, scenario};
use std::path::Path;

/// A flow over a link of 10 Mbit/s with these further keys.
fn parsed(protocol: &str, link: &str, rest: &str) -> Scenario {
    let text = format!(
        "duration = \"4 s\"\n[[link]]\nname = \"wire\"\nbetween = [\"A\", \"B\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n{link}\n\
         [[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"{protocol}\"\n{rest}"
    )
    .replace("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nrate", "delay = \"10 ms\"\nrate")
    .replace("delay = \"10 ms\"\ndelay", "delay");
    let files = |path: &Path| match path.to_str() {
        Some("rates.csv") => Ok("time_s,bit_per_s\n0,10e6\n0.5,0\n1,5e6\n2,0\n".to_owned()),
        Some("delays.csv") => Ok("time_s,delay_ms\n0,20\n0.7,5\n1.1,40\n".to_owned()),
        Some("losses.csv") => Ok("time_s,loss\n0,0\n1,0.1\n1.5,0\n".to_owned()),
        other => Err(format!("no file {other:?}")),
    };
    scenario::parse_with(&text, "s.toml", &[], &files).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The result of a run, which is the same with packets in order and with encoded packets.
fn result(scenario: &Scenario) -> RunResult {
    let plain = run(scenario, &RunOptions::default()).unwrap();
    for options in [
        RunOptions { in_order: true, ..RunOptions::default() },
        RunOptions { check_wire: true, ..RunOptions::default() },
    ] {
        assert_eq!(run(scenario, &options).unwrap().digest, plain.digest);
    }
    plain
}

const FILE_WORKLOAD: &str = "workload = { kind = \"file\", size = \"500 kB\" }\n";

#[test]
fn listed_data_packets_are_retransmitted_once() {
    for protocol in ["tcp", "mptcp", "sctp", "cmt-sctp"] {
        let lossy = "loss = { model = \"list\", packets = [3, 7, 20], data_only = true }\nreverse = { loss = { model = \"none\" } }";
        let result = result(&parsed(protocol, lossy, FILE_WORKLOAD));
        assert_eq!(result.links[0].drops_by_cause["loss"], 3, "{protocol}");
        let retransmissions: u64 = result.flows[0].paths.iter().map(|path| path.retransmissions).sum();
        assert_eq!(retransmissions, 3, "{protocol}");
        assert!(result.flows[0].completion_s.is_some(), "{protocol}");
    }
}

#[test]
fn duplicated_packets_are_delivered_once() {
    for protocol in ["tcp", "mptcp", "sctp", "cmt-sctp"] {
        let result = result(&parsed(protocol, "duplicate = { rate = 0.2 }", FILE_WORKLOAD));
        assert_eq!(result.flows[0].delivered_bytes, 500_000, "{protocol}");
        assert!(result.flows[0].completion_s.is_some(), "{protocol}");
    }
}

#[test]
fn duplicated_datagrams_are_delivered_once() {
    // A fifth of the datagrams takes half of the link's rate; half of the copies are lost.
    let lossy = "loss = { model = \"bernoulli\", rate = 0.5 }\nduplicate = { rate = 1 }";
    let rest = "workload = { kind = \"messages\", message = \"1 kB\", interval = \"2 ms\" }\n";
    let result = result(&parsed("udp", lossy, rest));
    let (flow, link) = (&result.flows[0], &result.links[0]);
    assert_eq!(link.packets, 2 * 2000, "both copies of each datagram leave, except those at the end");
    // Three of four datagrams arrive at least once; the standard deviation is 19.
    let delivered = flow.delivered_bytes / 1000;
    assert!((1420..=1580).contains(&delivered), "{delivered}");
}

#[test]
fn zero_rates_lose_no_packet() {
    for loss in ["{ model = \"bit-errors\", rate = 0 }", "{ model = \"bernoulli\", rate = 0 }"] {
        let result =
            result(&parsed("tcp", &format!("loss = {loss}\nduplicate = {{ rate = 0 }}"), FILE_WORKLOAD));
        assert!(result.links.iter().all(|link| link.drops_by_cause["loss"] == 0), "{loss}");
        let plain = run(&parsed("tcp", "", FILE_WORKLOAD), &RunOptions::default()).unwrap();
        assert_eq!(result.digest, plain.digest, "rates of zero change nothing");
    }
}

#[test]
fn suspended_link_loses_no_packet() {
    let stop = "[[event]]\nat = \"0.2 s\"\nlink = \"wire\"\nset = { rate = \"0 Mbit/s\" }\n\
                [[event]]\nat = \"1.2 s\"\nlink = \"wire\"\nset = { rate = \"10 Mbit/s\" }\n";
    for protocol in ["tcp", "cmt-sctp"] {
        let queue = "queue = { kind = \"fifo\", limit = \"1000 packets\" }";
        let result = result(&parsed(protocol, queue, &format!("{FILE_WORKLOAD}{stop}")));
        assert_eq!(result.links[0].drops, 0, "{protocol}");
        let done = result.flows[0].completion_s.expect("the file is complete");
        assert!((1.3..2.5).contains(&done), "{protocol}: {done}");
    }
}

#[test]
fn recordings_are_followed() {
    let mut scenario = parsed("tcp", "rate = { trace = \"rates.csv\", format = \"rate\" }", "");
    scenario.flows[0].workload = Workload::Saturated { message: None };
    let saturated = result(&scenario);
    // In every two seconds, half a second has 10 Mbit/s and one second 5 Mbit/s: 5 Mbit/s on average.
    let link = &saturated.links[0];
    assert!((0.85..=1.0).contains(&link.utilisation), "{}", link.utilisation);
    assert!((4.0e6..5.0e6).contains(&link.throughput_bps), "{}", link.throughput_bps);
    for link in [
        "delay = { trace = \"delays.csv\" }",
        "delay = { trace = \"delays.csv\", interpolate = \"linear\" }\njitter = \"3 ms\"",
        "loss = { model = \"trace\", file = \"losses.csv\" }",
    ] {
        let result = result(&parsed("mptcp", link, FILE_WORKLOAD));
        assert!(result.flows[0].completion_s.is_some(), "{link}");
    }
}
