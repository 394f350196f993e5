//! Minimum performance of SCTP and CMT-SCTP in whole runs, relative to the paths' capacity and to TCP.

use anabranch_sim::scenario;
use anabranch_sim::{RunOptions, RunResult};
use anabranch_testkit::scenario_text::ScenarioText;

/// Ratio of payload to length on the wire in a full packet of SCTP messages of 1452 bytes.
const PAYLOAD_RATIO: f64 = 1452.0 / 1500.0;

const BULK_SETTINGS: &str = r#"
send_buffer = "1 MB"
receive_buffer = "500 kB"
ordered = false
workload = { kind = "saturated", message = "1452 B" }
"#;

fn run(text: &str, seed: u64) -> RunResult {
    let scenario = scenario::parse(text, "scenario", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    anabranch_sim::run(&scenario, &RunOptions { seed: Some(seed), ..RunOptions::default() }).unwrap()
}

/// Goodput of one association over two links between the same hosts; `second` has the keys of the second
/// link.
fn two_paths(congestion: &str, second: &str) -> f64 {
    let text = ScenarioText::new("duration = '60 s'")
        .link_defaults("rate = '10 Mbit/s', delay = '1 ms'")
        .keys("queue = { kind = 'fifo', limit = '100 packets' }")
        .link("first", ["S", "D"], "")
        .link("second", ["S", "D"], "")
        .keys(second)
        .flow("F", ["S", "D"], &format!("protocol = 'cmt-sctp', congestion = '{congestion}'"))
        .keys("nr_sack = true, buffer_splitting = 'both'")
        .keys(BULK_SETTINGS);
    run(&text, 1).flows[0].goodput_bps / 1e6
}

/// Two hosts at each end of a bottleneck; the first pair has a second link at both ends if `multihomed`.
fn bottleneck(rate: u32, queue: &str, flows: &str, multihomed: bool) -> String {
    let text = ScenarioText::new("duration = '120 s', warmup = '20 s'")
        .link_defaults("rate = '1 Gbit/s', delay = '1 ms', jitter = '0.1 ms'")
        .keys("queue = { kind = 'fifo', limit = '1000 packets' }")
        .link("bottleneck", ["R1", "R2"], &format!("rate = '{rate} Mbit/s', delay = '10 ms'"))
        .keys(&format!("jitter = '0 ms', queue = {{ kind = '{queue}', limit = '100 packets' }}"));
    let second: &[_] = if multihomed { &[("S0", "R1", "a"), ("R2", "D0", "b")] } else { &[] };
    let first = [("S0", "R1", "c"), ("S1", "R1", "d"), ("R2", "D0", "e"), ("R2", "D1", "f")];
    let links = first.iter().chain(second);
    links
        .fold(text, |text, (from, to, name)| text.link(name, [from, to], ""))
        .table("[flow_defaults]", "send_buffer = '4 MB', receive_buffer = '4 MB'")
        .to_string()
        + flows
}

/// Goodputs of the two flows, Mbit/s, mean over `seeds`.
fn shares(text: &str, seeds: u64) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for seed in 1..=seeds {
        let result = run(text, seed);
        for (sum, flow) in sums.iter_mut().zip(&result.flows) {
            *sum += flow.goodput_bps / 1e6 / seeds as f64;
        }
    }
    sums
}

const TCP: &str =
    "[[flow]]\nname = \"tcp\"\nfrom = \"S1\"\nto = \"D1\"\nprotocol = \"tcp\"\nstart = \"0.1 s\"\n";

/// Two disjoint paths add up; the minimum is 95 % of the rates after framing, and 19.2 Mbit/s with New Reno.
#[test]
fn goodput_of_equal_paths_adds_up() {
    for congestion in ["reno", "cmt-rpv1", "cmt-rpv2", "lia"] {
        let goodput = two_paths(congestion, "");
        println!("{congestion}: {goodput:.2} Mbit/s over two paths of 10 Mbit/s");
        assert!(goodput >= 0.95 * 20.0 * PAYLOAD_RATIO, "{congestion}: {goodput} Mbit/s");
        assert!(congestion != "reno" || goodput >= 19.2, "{goodput} Mbit/s");
    }
}

/// Paths that differ by 200 ms in round-trip time and more than ten times in rate: at least 90 % with
/// splitting and NR-SACK.
#[test]
fn goodput_of_different_paths_adds_up() {
    let goodput = two_paths("reno", "rate = \"0.8 Mbit/s\"\ndelay = \"101 ms\"");
    println!("{goodput:.2} Mbit/s over 10 and 0.8 Mbit/s");
    assert!(goodput >= 0.9 * 10.8 * PAYLOAD_RATIO, "{goodput} Mbit/s");
}

/// With New Reno, an SCTP and a TCP flow share a bottleneck with RED equally, within 5 %. The TCP flow has
/// the settings of SCTP's RFC: acknowledgements delayed by at most 200 ms, timeouts of at least 1 s.
#[test]
fn sctp_and_tcp_share_a_bottleneck_equally() {
    for rate in [5, 20, 100] {
        let sctp = format!(
            "[[flow]]\nname = \"sctp\"\nfrom = \"S0\"\nto = \"D0\"\nprotocol = \"sctp\"\n\
             workload = {{ kind = \"saturated\", message = \"1452 B\" }}\n{TCP}\
             timestamps = false\ndelayed_ack = \"200 ms\"\nrto_min = \"1 s\"\n"
        );
        let seeds = if rate == 100 { 6 } else { 24 };
        let [sctp, tcp] = shares(&bottleneck(rate, "red", &sctp, false), seeds);
        println!("{rate} Mbit/s: SCTP {sctp:.2}, TCP {tcp:.2}, ratio {:.3}", sctp / tcp);
        assert!((0.95..=1.05).contains(&(sctp / tcp)), "{rate} Mbit/s: SCTP {sctp}, TCP {tcp}");
        assert!(sctp + tcp > 0.8 * f64::from(rate), "{rate} Mbit/s: SCTP {sctp}, TCP {tcp}");
    }
}

/// A coupled control with two paths through one bottleneck takes about as much as one TCP flow; an uncoupled
/// one takes more.
#[test]
fn coupled_controls_share_a_bottleneck_with_tcp() {
    for (congestion, range) in [("lia", 0.4..=0.6), ("cmt-rpv2", 0.4..=0.6), ("reno", 0.6..=0.75)] {
        let flow = format!(
            "[[flow]]\nname = \"cmt\"\nfrom = \"S0\"\nto = \"D0\"\nprotocol = \"cmt-sctp\"\nordered = false\n\
             congestion = \"{congestion}\"\nworkload = {{ kind = \"saturated\", message = \"1452 B\" }}\n{TCP}"
        );
        let [cmt, tcp] = shares(&bottleneck(100, "fifo", &flow, true), 2);
        let share = cmt / (cmt + tcp);
        println!("{congestion}: CMT-SCTP {cmt:.1}, TCP {tcp:.1} Mbit/s, share {share:.2}");
        assert!(range.contains(&share), "{congestion}: CMT-SCTP {cmt}, TCP {tcp} Mbit/s");
        assert!(cmt + tcp > 85.0, "{congestion}: CMT-SCTP {cmt}, TCP {tcp} Mbit/s");
    }
}

/// A flow with the defaults of its protocol over one link; Mbit/s from the second second to the tenth.
fn alone(protocol: &str, link: &str) -> f64 {
    let text = format!(
        "duration = \"10 s\"\nwarmup = \"2 s\"\n[[link]]\nname = \"L\"\nbetween = [\"S\", \"D\"]\n{link}\n\
         [[flow]]\nname = \"F\"\nfrom = \"S\"\nto = \"D\"\nprotocol = \"{protocol}\"\n"
    );
    run(&text, 1).flows[0].goodput_bps / 1e6
}

/// One packet in twenty arrives 5 ms late, after about twenty later packets.
#[test]
fn reordering_hardly_reduces_goodput() {
    for protocol in ["sctp", "cmt-sctp"] {
        for delay in [2, 10, 20] {
            let link = format!(
                "rate = \"50 Mbit/s\"\ndelay = \"{delay} ms\"\nreorder = {{ rate = 0.05, delay = \"5 ms\" }}"
            );
            let goodput = alone(protocol, &link);
            assert!(goodput >= 45.0, "{protocol}, {delay} ms: {goodput} Mbit/s");
        }
    }
}

/// Two paths of 10 Mbit/s, one of which fails at 10 s and recovers at 30 s, with default settings except the
/// buffers.
#[test]
fn failed_path_does_not_slow_the_other() {
    for (protocol, buffer) in
        [("cmt-sctp", "500 kB"), ("cmt-sctp", "1 MB"), ("cmt-sctp", "4 MB"), ("sctp", "1 MB")]
    {
        let measured = |from: u32, to: u32| {
            let event = |at: u32, state: &str| {
                let set =
                    format!("[[event]]\nat = \"{at} s\"\nlink = \"A\"\nset = {{ state = \"{state}\" }}\n");
                if at < to { set } else { String::new() }
            };
            let text = format!(
                r#"
duration = "{to} s"
warmup = "{from} s"
link_defaults = {{ rate = "10 Mbit/s", delay = "10 ms" }}
link = [{{ name = "A", between = ["S", "D"] }}, {{ name = "B", between = ["S", "D"] }}]
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "{protocol}"
send_buffer = "{buffer}"
receive_buffer = "{buffer}"
"#
            );
            run(&(text + &event(10, "down") + &event(30, "up")), 1).flows[0].goodput_bps / 1e6
        };
        let remaining = 10.0 * PAYLOAD_RATIO;
        let (at_once, during, after) = (measured(11, 12), measured(12, 31), measured(33, 40));
        println!(
            "{protocol}, {buffer}: {at_once:.2} and {during:.2} Mbit/s with one path, {after:.2} with both"
        );
        assert!(protocol == "sctp" || at_once >= 0.9 * remaining, "{protocol}, {buffer}: {at_once} Mbit/s");
        assert!(during >= 0.9 * remaining, "{protocol}, {buffer}: {during} Mbit/s over one path");
        let both = if protocol == "sctp" { 0.9 * remaining } else { 1.4 * remaining };
        assert!(after >= both, "{protocol}, {buffer}: {after} Mbit/s once the path is back");
    }
}

/// The link towards the only destination fails: it is still reachable from the sender's other address.
#[test]
fn destination_is_reached_from_another_address() {
    for (protocol, setting) in
        [("sctp", ""), ("cmt-sctp", ""), ("sctp", "potentially_failed_threshold = false\n")]
    {
        let measured = |from: u32, to: u32| {
            let text = format!(
                r#"
duration = "{to} s"
warmup = "{from} s"
link_defaults = {{ rate = "10 Mbit/s", delay = "5 ms" }}
link = [{{ name = "A", between = ["S", "R"] }}, {{ name = "B", between = ["S", "R"] }}, {{ name = "C", between = ["R", "D"] }}]
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "{protocol}"
{setting}
[[event]]
at = "5 s"
link = "A"
set = {{ state = "down" }}
"#
            );
            run(&text, 1)
        };
        let after = measured(9, 20);
        let goodput = after.flows[0].goodput_bps / 1e6;
        assert_eq!(after.flows[0].paths[0].links, ["B", "C"], "{protocol}, {setting}");
        assert!(
            goodput >= 0.9 * 10.0 * PAYLOAD_RATIO,
            "{protocol}, {setting}: {goodput} Mbit/s from the fourth second on"
        );
    }
}

/// Two paths of 10 Mbit/s, one with forty times the round-trip time. Most SACKs for its data return over the other
/// path.
#[test]
fn long_path_is_filled_next_to_a_short_one() {
    for congestion in ["reno", "cmt-rpv2"] {
        let text = format!(
            r#"
duration = "60 s"
warmup = "30 s"
link_defaults = {{ rate = "10 Mbit/s" }}
link = [
    {{ name = "short", between = ["S", "D"], delay = "5 ms" }},
    {{ name = "long", between = ["S", "D"], delay = "200 ms" }},
]
[[flow]]
name = "F"
from = "S"
to = "D"
protocol = "cmt-sctp"
congestion = "{congestion}"
send_buffer = "4 MB"
receive_buffer = "4 MB"
"#
        );
        let goodput = run(&text, 1).flows[0].goodput_bps / 1e6;
        println!("{congestion}: {goodput:.2} Mbit/s over 10 and 400 ms");
        assert!(goodput >= 17.0, "{congestion}: {goodput} Mbit/s");
    }
}

/// Ordered delivery with default settings over different pairs of paths, from the table of docs/lab-notes/cmt-sctp.md:
/// rate of the second in Mbit/s, its delay in ms, both buffers in kB.
#[test]
fn second_path_does_not_reduce_goodput() {
    let pairs = [
        ("1", 10, 100),
        ("1", 10, 400),
        ("2", 40, 100),
        ("0.5", 10, 100),
        ("0.5", 100, 100),
        ("0.5", 400, 400),
        ("10", 100, 100),
        ("10", 400, 100),
        ("2", 100, 100),
        ("2", 100, 4000),
        ("5", 100, 100),
        ("5", 100, 400),
    ];
    for (rate, delay, buffer) in pairs {
        let text = ScenarioText::new("duration = '25 s', warmup = '5 s'")
            .link("first", ["S", "D"], "rate = '10 Mbit/s', delay = '10 ms'")
            .link("second", ["S", "D"], &format!("rate = '{rate} Mbit/s', delay = '{delay} ms'"))
            .flow("F", ["S", "D"], "protocol = 'cmt-sctp'")
            .keys(&format!("send_buffer = '{buffer} kB', receive_buffer = '{buffer} kB'"));
        let goodput = run(&text, 1).flows[0].goodput_bps / 1e6;
        println!("{rate} Mbit/s, {delay} ms, {buffer} kB: {goodput:.2} Mbit/s");
        assert!(
            goodput >= 0.95 * 10.0 * PAYLOAD_RATIO,
            "{rate} Mbit/s, {delay} ms, {buffer} kB: {goodput} Mbit/s"
        );
    }
}

/// Unordered messages are delivered on arrival, so that no message waits behind a gap. Rescheduling would move all data of
/// the second path (ADSL in Adhari2011) to the first: 9.68 instead of 10.45 Mbit/s.
#[test]
fn rescheduling_moves_no_unordered_messages() {
    let goodput = |rescheduling: &str| {
        let text = ScenarioText::new("duration = '20 s'")
            .link("A", ["S", "D"], "rate = '10 Mbit/s', delay = '2 ms', mtu = 1492")
            .keys("queue = { kind = 'fifo', limit = '10 packets' }")
            .link("B", ["S", "D"], "rate = '0.8 Mbit/s', delay = '28 ms', mtu = 1492")
            .keys("queue = { kind = 'fifo', limit = '100 packets' }")
            .flow("F", ["S", "D"], "protocol = 'cmt-sctp', congestion = 'reno', ordered = false")
            .keys("send_buffer = '300 kB', receive_buffer = '100 kB'")
            .keys(&format!("chunk_rescheduling = {rescheduling}"))
            .keys("workload = { kind = 'saturated', message = '1444 B' }");
        run(&text, 1).flows[0].goodput_bps
    };
    let [with, without] = ["0.4", "false"].map(goodput);
    assert!(with >= 0.97 * without, "{with} and {without} bit/s");
}
