//! Basic properties of simulated congestion control, in whole runs: a flow fills its link, flows share,
//! coupled controls share as in their publications, and a path failure costs only time.

use super::cases::text::read;
use anabranch_sim::{RunOptions, RunResult};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use std::fmt::Write;

fn run(text: &str, settings: &[(&str, &str)]) -> RunResult {
    anabranch_sim::run(&read(text, settings), &RunOptions::default()).expect("the run succeeds")
}

fn goodput(result: &RunResult, flow: usize) -> f64 {
    result.flows[flow].goodput_bps
}

/// A scenario of this length, warm-up included, with fast links unless configured otherwise.
fn scenario_of(
    [duration, warmup]: [u32; 2],
    links: &[(&str, [&str; 2], &str)],
    flows: &[(&str, [&str; 2], &str)],
) -> String {
    let mut text = format!("duration = \"{duration} s\"\nwarmup = \"{warmup} s\"\n");
    text += "[link_defaults]\nrate = \"1 Gbit/s\"\ndelay = \"0.1 ms\"\n";
    text += "queue = { kind = \"fifo\", limit = \"1000 packets\" }\n";
    for (name, [a, b], more) in links {
        let _ = writeln!(text, "[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\n{more}");
    }
    for (name, [from, to], more) in flows {
        let _ = writeln!(text, "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"");
        let _ = writeln!(text, "congestion = \"reno\"\n{more}");
    }
    text
}

/// 20 Mbit/s and 10 ms, with this queue.
fn bottleneck(queue: &str) -> String {
    format!("rate = \"20 Mbit/s\"\ndelay = \"10 ms\"\nqueue = {{ {queue} }}")
}

/// Two TCP flows through one bottleneck.
fn dumbbell() -> String {
    let links = [
        ("a", ["S0", "R1"], ""),
        ("b", ["S1", "R1"], ""),
        ("bottleneck", ["R1", "R2"], &bottleneck("kind = \"fifo\", limit = \"50 packets\"")),
        ("c", ["R2", "D0"], ""),
        ("d", ["R2", "D1"], ""),
    ];
    let tcp = "protocol = \"tcp\"";
    scenario_of([60, 10], &links, &[("F0", ["S0", "D0"], tcp), ("F1", ["S1", "D1"], tcp)])
}

#[test]
fn reno_flow_fills_link_with_bdp_queue() {
    // 20 Mbit/s and 20.8 ms: 34.7 packets; the queue holds 50. 1448 of 1500 bytes are payload.
    for (rate, queue) in
        [("20 Mbit/s", "50 packets"), ("100 Mbit/s", "200 packets"), ("5 Mbit/s", "20 packets")]
    {
        let settings = [
            ("link.bottleneck.rate", rate),
            ("link.bottleneck.queue.limit", queue),
            ("flow.F1.start", "59 s"),
        ];
        let result = run(&dumbbell(), &settings);
        let mbps: f64 = rate.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        let share = goodput(&result, 0) / (mbps * 1e6 * 1448.0 / 1500.0);
        assert!((0.97..=1.0).contains(&share), "{rate}: {share}");
    }
}

#[test]
fn two_reno_flows_share_a_red_bottleneck() {
    let settings = [("duration", "320 s"), ("warmup", "20 s"), ("link.bottleneck.queue.kind", "red")];
    let result = run(&dumbbell(), &settings);
    let jain = result.jain.expect("two flows have an index");
    assert!(jain >= 0.99, "{jain}");
}

/// A multipath flow with two subflows and a TCP flow through one RED bottleneck of 20 ms round-trip time.
fn shared() -> String {
    let links = [
        ("first", ["S0", "R1"], ""),
        ("second", ["S0", "R1"], ""),
        ("single", ["S1", "R1"], ""),
        ("bottleneck", ["R1", "R2"], &bottleneck("kind = \"red\", limit = \"100 packets\"")),
        ("first-end", ["R2", "D0"], ""),
        ("second-end", ["R2", "D0"], ""),
        ("single-end", ["R2", "D1"], ""),
    ];
    let flows = [
        ("multipath", ["S0", "D0"], "protocol = \"mptcp\"\npaths = \"disjoint\""),
        ("single", ["S1", "D1"], "protocol = \"tcp\""),
    ];
    scenario_of([220, 20], &links, &flows)
}

#[test]
fn coupled_subflows_take_half_of_the_link() {
    let expected = [("reno", 2.0 / 3.0, 0.05), ("lia", 0.5, 0.07), ("olia", 0.5, 0.07), ("balia", 0.5, 0.07)];
    for (congestion, share, tolerance) in expected {
        for seed in ["1", "2"] {
            let result = run(&shared(), &[("flow.multipath.congestion", congestion), ("seed", seed)]);
            let (multipath, single) = (goodput(&result, 0), goodput(&result, 1));
            let measured = multipath / (multipath + single);
            assert!((measured - share).abs() <= tolerance, "{congestion}, seed {seed}: {measured}");
        }
    }
}

/// Two paths of different delay, the second one over two routers.
static OUTAGE: LazyText = LazyText::new(|| {
    ScenarioText::new("title = 'Outage', duration = '60 s', warmup = '5 s'")
        .link_defaults("rate = '10 Mbit/s', queue = { kind = 'fifo', limit = '50 packets' }")
        .link("first", ["S", "D"], "delay = '10 ms'")
        .link("far", ["S", "R"], "rate = '1 Gbit/s'")
        .link("near", ["R", "Q"], "rate = '1 Gbit/s'")
        .link("second", ["Q", "D"], "delay = '25 ms'")
        .flow("F", ["S", "D"], "protocol = 'mptcp', congestion = 'lia', paths = 'disjoint'")
});

#[test]
fn outage_loses_no_byte_and_goodput_recovers() {
    // The goodput of a span is measured by a run that ends with it and has its start as the end of the
    // warm-up: equal seeds make equal runs. A run fails if a byte is delivered twice, out of order or from a
    // wrong offset.
    let span = |from: f64, to: f64, link: &str| {
        let event = |(at, state): (f64, &str)| {
            format!("[[event]]\nat = \"{at} s\"\nlink = \"{link}\"\nset = {{ state = \"{state}\" }}\n")
        };
        let events = [(20.0, "down"), (30.0, "up")].into_iter().filter(|&(at, _)| at < to).map(event);
        let text = OUTAGE.to_owned() + &events.collect::<String>();
        goodput(&run(&text, &[("warmup", &format!("{from} s")), ("duration", &format!("{to} s"))]), 0)
    };
    for link in ["first", "second", "far", "near"] {
        let before = span(10.0, 20.0, link);
        let during = span(23.0, 30.0, link);
        // A host with an address on the link is notified and notifies the other, so that a new subflow begins
        // at once. Of a link between routers ("near") no host is notified: the old subflow's timeout has
        // doubled up to 12.8 s when the path returns, and detecting the recovery may take that long.
        let back = if link == "near" { 44.8 } else { 32.2 };
        let after = span(back, back + 10.0, link);
        assert!(before > 17.5e6, "{link}: {before}");
        assert!(during > 8.5e6 && during < 10e6, "{link}: {during}");
        assert!(after > 0.9 * before, "{link}: {after} after {before}");
    }
}
