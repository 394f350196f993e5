//! Packets of the simulator, sent again through the emulator's network: every packet arrives at the same
//! time, with the same marks, or is dropped for the same reason.
#![cfg(target_os = "linux")]

use anabranch_base::time::Time;
use anabranch_net::emulator::{Arrived, EmulatedNetwork};
use anabranch_netem::Interface;
use anabranch_scenario::Scenario;
use anabranch_scenario::result::LinkResult;
use std::fmt::Write as _;
use std::path::Path;

/// A packet at an end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    at: Time,
    interface: Interface,
    bytes: Vec<u8>,
}

/// The packets of a capture: its enhanced packet blocks.
fn packets(file: &Path) -> Vec<Seen> {
    let content = std::fs::read(file).expect("the capture was written");
    let word = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut seen) = (0, Vec::new());
    while at < content.len() {
        if word(at) == 6 {
            let time = Time::from_nanos(u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)));
            let bytes = content[at + 28..at + 28 + word(at + 20) as usize].to_vec();
            seen.push(Seen { at: time, interface: Interface(word(at + 8)), bytes });
        }
        at += word(at + 4) as usize;
    }
    seen
}

/// Runs a scenario in the simulator; returns packets sent by hosts, packets that arrived there, and the
/// links.
fn simulated(name: &str, scenario: &Scenario) -> (Vec<Seen>, Vec<Seen>, Vec<LinkResult>) {
    let pcap = std::env::temp_dir().join(format!("anabranch-{name}-{}.pcapng", std::process::id()));
    let options =
        anabranch_sim::RunOptions { pcap: Some(pcap.clone().into()), ..anabranch_sim::RunOptions::default() };
    let result = anabranch_sim::run(scenario, &options).expect("the run succeeds");
    let all = packets(&pcap);
    std::fs::remove_file(&pcap).expect("the capture exists");
    let mut network = EmulatedNetwork::new(scenario, scenario.seed).expect("the same network");
    let network = network.network();
    // The interfaces that follow those of the link ends are for dropped packets.
    let at_host = |seen: &Seen| {
        seen.interface.index() < 2 * scenario.links.len()
            && network.nodes()[network.owner(seen.interface)].host
    };
    let own = |seen: &Seen| {
        let packet = anabranch_net::emulator::RawPacket::new(seen.bytes.clone()).expect("a packet");
        Interface::of_address(packet.source()) == Some(seen.interface)
    };
    let (sent, arrived) = all.into_iter().filter(at_host).partition(own);
    (sent, arrived, result.links)
}

/// Sends the same packets at the same times through the emulated network.
fn emulated(scenario: &Scenario, sent: &[Seen]) -> (Vec<Seen>, Vec<LinkResult>) {
    let mut network = EmulatedNetwork::new(scenario, scenario.seed).expect("a network");
    let mut arrived = Vec::new();
    let mut deliver = |Arrived { at, to, packet }| {
        arrived.push(Seen { at, interface: to, bytes: packet.into_bytes() });
    };
    for Seen { at, interface, bytes } in sent {
        network.advance(*at, &mut deliver);
        network.send(*at, *interface, bytes.clone());
    }
    let end = Time::ZERO + scenario.duration;
    // Events exactly at the end do not belong to the run.
    network.advance(Time::from_nanos(end.as_nanos() - 1), &mut deliver);
    assert_eq!(network.unreachable(), 0);
    let links = network.links(end, scenario);
    (arrived, links)
}

/// Checks that both results are equal; returns the links.
fn compare_with_simulator(name: &str, text: &str) -> Vec<LinkResult> {
    let scenario = anabranch_scenario::parse(text, name, &[]).expect("a scenario");
    let (sent, expected, links) = simulated(name, &scenario);
    let (arrived, emulated_links) = emulated(&scenario, &sent);
    assert!(expected.len() > 1000, "{} packets arrived", expected.len());
    assert_eq!(arrived.len(), expected.len());
    let mut sorted = [arrived, expected];
    // Simultaneous arrivals at several hosts have no order.
    for seen in &mut sorted {
        seen.sort_by_key(|seen| (seen.at, seen.interface));
    }
    for (ours, theirs) in sorted[0].iter().zip(&sorted[1]) {
        assert_eq!((ours.at, ours.interface), (theirs.at, theirs.interface));
        assert_eq!(ours.bytes, theirs.bytes, "at {:?}", ours.at);
    }
    assert_eq!(emulated_links, links);
    links
}

fn dropped(links: &[LinkResult], cause: &str) -> u64 {
    links.iter().map(|link| link.drops_by_cause[cause]).sum()
}

#[test]
fn emulated_queues_equal_simulated_ones() {
    for (queue, cause) in [
        ("{ kind = \"fifo\", limit = \"20 packets\" }", "queue"),
        ("{ kind = \"red\", limit = \"40 packets\", ecn = true }", "aqm"),
        ("{ kind = \"codel\", limit = \"200 packets\" }", "aqm"),
        ("{ kind = \"fq-codel\", limit = \"200 packets\" }", "aqm"),
    ] {
        let text = format!(
            r#"
title = "Queues"
duration = "6 s"
warmup = "1 s"
[link_defaults]
rate = "100 Mbit/s"
[[link]]
between = ["A", "R"]
[[link]]
between = ["B", "R"]
[[link]]
name = "slow"
between = ["R", "S"]
rate = "8 Mbit/s"
delay = "15 ms"
queue = {queue}
[[link]]
between = ["S", "C"]
[[flow]]
from = "A"
to = "C"
protocol = "tcp"
ecn = true
workload = {{ kind = "saturated" }}
[[flow]]
from = "B"
to = "C"
protocol = "tcp"
workload = {{ kind = "saturated" }}
[[flow]]
name = "datagrams"
from = "B"
to = "C"
protocol = "udp"
workload = {{ kind = "rate", rate = "2 Mbit/s", message = "900 B" }}
"#
        );
        let links = compare_with_simulator("queues", &text);
        assert!(dropped(&links, cause) > 0, "{queue}");
        if queue.contains("ecn") {
            assert!(links.iter().any(|link| link.marks > 0));
        }
    }
}

#[test]
fn emulated_impairments_equal_simulated_ones() {
    let links = compare_with_simulator(
        "impairments",
        r#"
title = "Impairments"
duration = "8 s"
warmup = "1 s"
ip = "v6"
[[link]]
name = "one"
between = ["A", "B"]
rate = "10 Mbit/s"
delay = "10 ms"
jitter = "3 ms"
loss = { model = "bernoulli", rate = 0.005 }
reorder = { rate = 0.01, delay = "4 ms" }
[[link]]
name = "two"
between = ["A", "B"]
rate = "6 Mbit/s"
delay = "25 ms"
loss = { model = "gilbert-elliott", to_bad = 0.01, to_good = 0.3, loss_bad = 0.5 }
[[flow]]
from = "A"
to = "B"
protocol = "mptcp"
congestion = "lia"
workload = { kind = "saturated" }
[[event]]
at = "2 s"
link = "one"
set = { rate = "4 Mbit/s", delay = "20 ms" }
[[event]]
at = "3 s"
link = "two"
set = { state = "down" }
[[event]]
at = "5 s"
link = "two"
set = { state = "up" }
[[event]]
at = "6 s"
link = "one"
set = { loss = { model = "bernoulli", rate = 0.02 } }
"#,
    );
    assert!(dropped(&links, "loss") > 0 && dropped(&links, "down") > 0);
}

#[test]
fn emulated_routers_choose_like_simulated_ones() {
    let mut text = r#"
title = "Equally short paths"
duration = "3 s"
[link_defaults]
rate = "20 Mbit/s"
delay = "3 ms"
[[link]]
between = ["A", "R"]
[[link]]
name = "p"
between = ["R", "S"]
loss = { model = "list", packets = [9, 20], data_only = true }
[[link]]
name = "q"
between = ["R", "S"]
duplicate = { rate = 0.05 }
[[link]]
between = ["R", "T"]
[[link]]
between = ["T", "S"]
[[link]]
between = ["S", "C"]
"#
    .to_owned();
    for (protocol, rest) in [
        ("tcp", ""),
        ("mptcp", "paths = \"ndiffports:4\""),
        ("sctp", ""),
        ("sctp", "udp_encapsulation = true"),
        ("udp", "workload = { kind = \"rate\", rate = \"1 Mbit/s\" }"),
        ("tcp", "congestion = \"cubic\""),
    ] {
        let number = text.matches("[[flow]]").count();
        let _ = write!(
            text,
            "[[flow]]\nname = \"F{number}\"\nfrom = \"A\"\nto = \"C\"\nprotocol = \"{protocol}\"\n{rest}\n"
        );
    }
    for ip in ["v4", "v6"] {
        let links =
            compare_with_simulator("ecmp", &text.replace("duration", &format!("ip = \"{ip}\"\nduration")));
        assert!(
            links.iter().filter(|link| ["p", "q"].contains(&link.name.as_str())).all(|link| link.packets > 0)
        );
        assert!(dropped(&links, "loss") > 0);
    }
}

#[test]
fn emulated_network_control_equals_simulated_one() {
    let text = include_str!("../../../examples/network-control.toml")
        .replace("duration = \"30 s\"", "duration = \"9 s\"")
        .replace("warmup = \"10 s\"", "warmup = \"7 s\"");
    for ip in ["v4", "v6"] {
        let text = text.replace("duration", &format!("ip = \"{ip}\"\nduration"));
        let links = compare_with_simulator("network-control", &text);
        let ways = links.iter().filter(|link| ["p", "q", "r"].contains(&link.name.as_str()));
        let mut loads: Vec<f64> =
            ways.filter(|link| link.direction == "forward").map(|link| link.utilisation).collect();
        loads.sort_by(f64::total_cmp);
        assert!(loads[0] > 0.9, "each way carries a path: {loads:?}");
    }
}
