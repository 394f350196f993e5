//! Handovers: a phone leaves a network and joins another one, with the addresses that it had or with new ones.

use anabranch_sim::scenario::result::{FlowResult, PathResult};
use anabranch_sim::{RunOptions, RunResult, scenario};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fmt::Write;

/// A phone with WLAN and a mobile network, which begins down, and a server behind a router.
static NETWORK: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '60 s'")
        .link_defaults("queue = { kind = 'fifo', limit = '100 packets' }")
        .link("wlan", ["phone", "internet"], "rate = '20 Mbit/s', delay = '10 ms'")
        .link("mobile", ["phone", "internet"], "rate = '10 Mbit/s', delay = '50 ms', state = 'down'")
        .link("core", ["internet", "server"], "rate = '1 Gbit/s'")
        .flow("F", ["phone", "server"], "")
});

/// Round trip of the mobile network, seconds.
const MOBILE_RTT: f64 = 0.1;

/// WLAN goes down at 20 s, and the mobile network comes up at `up` seconds.
fn handover(flow: &str, up: f64, address: &str) -> String {
    format!(
        "{NETWORK}{flow}\n\
         [[event]]\nat = \"20 s\"\nlink = \"wlan\"\nset = {{ state = \"down\" }}\n\
         [[event]]\nat = \"{up} s\"\nlink = \"mobile\"\nset = {{ state = \"up\", address = \"{address}\" }}\n"
    )
}

fn run(text: &str) -> RunResult {
    let scenario =
        scenario::parse(text, "handover.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let options = RunOptions { check_wire: true, ..RunOptions::default() };
    anabranch_sim::run(&scenario, &options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn flow(text: &str) -> FlowResult {
    run(text).flows.remove(0)
}

/// Schedulers of Multipath TCP, with a small and a large receive buffer.
fn multipath() -> impl Iterator<Item = String> {
    let schedulers = ["lowest-rtt", "redundant", "consn"];
    let keys = |scheduler: &str, buffer: &str| {
        format!("protocol = \"mptcp\"\nscheduler = \"{scheduler}\"\nreceive_buffer = \"{buffer}\"")
    };
    schedulers.into_iter().flat_map(move |scheduler| ["100 kB", "1 MB"].map(|buffer| keys(scheduler, buffer)))
}

/// The flow in both directions.
fn both_directions(flow: &str) -> [String; 2] {
    [flow.to_owned(), format!("{flow}\ndirection = \"reverse\"")]
}

#[test]
fn make_before_break_pauses_briefly() {
    for keys in multipath().filter(|keys| !keys.contains("consn")).flat_map(|keys| both_directions(&keys)) {
        for address in ["same", "new"] {
            let flow = flow(&handover(&keys, 18.0, address));
            let gap = flow.gap_s.expect("there are events");
            assert!(gap <= 0.3, "{gap} s with {keys}, {address}");
            assert_eq!(flow.state, "open");
        }
    }
}

#[test]
fn break_before_make_continues_within_a_second() {
    let sctp = ["sctp", "cmt-sctp"].map(|protocol| format!("protocol = \"{protocol}\"\nasconf = true"));
    for keys in multipath().chain(sctp).flat_map(|keys| both_directions(&keys)) {
        for (up, address) in [(20.0, "same"), (20.0, "new"), (22.0, "same"), (22.0, "new")] {
            let flow = flow(&handover(&keys, up, address));
            let gap = flow.gap_s.expect("there are events");
            assert!(gap <= up - 20.0 + 1.0 + MOBILE_RTT, "{gap} s with {keys}, {up}, {address}");
            assert_eq!(flow.state, "open");
        }
    }
}

fn path<'a>(flow: &'a FlowResult, name: &str) -> &'a PathResult {
    let names: Vec<_> = flow.paths.iter().map(|path| &path.name).collect();
    flow.paths.iter().find(|path| path.name == name).unwrap_or_else(|| panic!("{name} is none of {names:?}"))
}

#[test]
fn renumbered_link_is_a_path_with_another_address() {
    let text = format!(
        "{NETWORK}protocol = \"mptcp\"\n[[event]]\nat = \"10 s\"\nlink = \"wlan\"\nset = {{ state = \"up\", address = \"new\" }}\n"
    );
    let flow = flow(&text.replace("state = \"down\"", ""));
    let [old, new] = ["wlan>core", "wlan>core#2"].map(|name| path(&flow, name));
    assert!(!old.usable && new.usable);
    assert_eq!(
        [&old.local, &new.local].map(|end| end.split(':').next().unwrap_or("")),
        ["10.0.0.1", "100.64.64.1"]
    );
    assert_eq!(new.links, ["wlan", "core"]);
    let after = new.first_data_after_event_s.expect("new data arrives");
    assert!(after > 0.02 && after < 0.5, "{after} s");
    assert!(old.first_data_after_event_s.is_none_or(|after| after < 0.02), "data on the way arrives");
    assert_eq!(path(&flow, "mobile>core").first_data_after_event_s, None, "no event concerns its links");
}

/// A TCP connection has one address: after a new one it ends by its user timeout.
#[test]
fn tcp_ends_by_its_timeout() {
    let keys = "protocol = \"tcp\"\nuser_timeout = \"10 s\"";
    let event = "[[event]]\nat = \"10 s\"\nlink = \"wlan\"\nset = { state = \"up\", address = \"new\" }\n";
    let result = run(&format!("{NETWORK}{keys}\n{event}"));
    assert_eq!(result.flows[0].state, "timed-out");
    assert!(result.flows[0].gap_s.is_some_and(|gap| gap > 49.9), "{:?}", result.flows[0].gap_s);
    assert!(result.unreachable_packets.is_some_and(|count| count > 0));
    // A connection that begins later has the new address.
    let later = run(&format!("{NETWORK}{keys}\nstart = \"11 s\"\n{event}"));
    assert_eq!((later.flows[0].state.as_str(), later.unreachable_packets), ("open", Some(0)));
    assert!(later.flows[0].paths[0].local.starts_with("100.64.64.1:"), "{}", later.flows[0].paths[0].local);
}

#[test]
fn event_makes_a_path_a_backup_and_back() {
    let event = |at: u32, backup: &str| {
        format!("[[event]]\nat = \"{at} s\"\nflow = \"F\"\nset = {{ backup = [{backup}] }}\n")
    };
    let network = NETWORK.replace("state = \"down\"", "").replace("60 s", "30 s");
    let bytes = |text: &str| {
        let flow = flow(text);
        ["wlan>core", "mobile>core"].map(|name| (path(&flow, name).goodput_bps, path(&flow, name).backup))
    };
    let keys = "protocol = \"mptcp\"\n";
    let [both, _] = bytes(&format!("{network}{keys}{}", event(29, "")));
    let [wlan, mobile] = bytes(&format!("{network}{keys}{}", event(10, "\"wlan\"")));
    assert!(wlan.1 && !mobile.1 && wlan.0 < 0.45 * both.0, "{wlan:?} {mobile:?}, before {both:?}");
    let [again, _] = bytes(&format!("{network}{keys}{}{}", event(10, "\"wlan\""), event(20, "")));
    assert!(!again.1 && again.0 > 1.5 * wlan.0, "{again:?} {wlan:?}");
    // The event also holds for a flow that begins after it, and for a path that joins after it.
    for late in [format!("{keys}start = \"5 s\"\n"), keys.to_owned()] {
        let network = if late == keys { NETWORK.replace("60 s", "30 s") } else { network.clone() };
        let up = "[[event]]\nat = \"4 s\"\nlink = \"mobile\"\nset = { state = \"up\" }\n";
        let [wlan, mobile] = bytes(&format!("{network}{late}{up}{}", event(2, "\"mobile\"")));
        assert!(!wlan.1 && mobile.1 && mobile.0 < 1e3, "{wlan:?} {mobile:?}");
    }
}

#[test]
fn event_sets_the_primary_destination() {
    let network = ScenarioText::new("duration = '20 s'")
        .link("one", ["A", "B"], "rate = '10 Mbit/s', delay = '5 ms'")
        .link("two", ["A", "B"], "rate = '10 Mbit/s', delay = '5 ms'")
        .flow("F", ["A", "B"], "protocol = 'sctp'")
        .event("10 s", "flow = 'F', set = { primary = 'two' }");
    for direction in ["", "direction = \"reverse\"\n"] {
        let flow = flow(&network.replace("[[event]]", &format!("{direction}[[event]]")));
        let [one, two] = ["one", "two"].map(|name| path(&flow, name));
        assert!((0.9..1.1).contains(&(one.goodput_bps / two.goodput_bps)), "{one:?} {two:?}");
        let after = two.first_data_after_event_s.expect("new data arrives");
        assert!(after < 0.1, "{after} s");
    }
}

/// After break before make, the data that `ConSN` sends again is one consecutive range in order.
#[test]
fn consn_repeats_consecutive_ranges() {
    let text =
        handover("protocol = \"mptcp\"\nscheduler = \"consn\"\nreceive_buffer = \"1 MB\"", 22.0, "new");
    let scenario = scenario::parse(&text, "handover.toml", &[]).expect("a scenario");
    let folder = std::env::temp_dir().join(format!("handover-{}", std::process::id()));
    let options = RunOptions { trace: Some(folder.clone()), ..RunOptions::default() };
    anabranch_sim::run(&scenario, &options).expect("the run succeeds");
    let decisions = std::fs::read_to_string(folder.join("decisions.csv")).expect("the trace has decisions");
    std::fs::remove_dir_all(&folder).expect("the folder was made above");
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for line in decisions.lines().skip(1) {
        let cells: Vec<_> = line.split(',').collect();
        let at: f64 = cells[0].parse().expect("a time");
        if at >= 20.0 && cells[5] == "reinjection" {
            let [offset, len] = [3, 4].map(|cell| cells[cell].parse::<u64>().expect("a number of bytes"));
            match ranges.last_mut() {
                Some((_, end)) if *end == offset => *end += len,
                _ => ranges.push((offset, offset + len)),
            }
        }
    }
    assert!(!ranges.is_empty(), "data is sent again");
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:?}");
    assert_eq!(ranges.len(), 1, "{ranges:?}");
}

/// A sequence of handovers between two networks with addresses that stay or are new.
#[derive(Clone, Debug)]
struct Journey {
    keys: String,
    /// Time since the last event in ms, the link, its next state, and whether its address is new.
    steps: Vec<(u64, bool, bool, bool)>,
}

fn journey() -> impl Strategy<Value = Journey> {
    let keys = prop::sample::select(multipath().flat_map(|keys| both_directions(&keys)).collect::<Vec<_>>());
    let step = (50_u64..3_000, any::<bool>(), any::<bool>(), any::<bool>());
    (keys, prop::collection::vec(step, 1..8)).prop_map(|(keys, steps)| Journey { keys, steps })
}

impl Journey {
    /// The scenario: all its data is to arrive after the last event, which brings both networks up.
    fn text(&self) -> String {
        let mut events = String::new();
        let mut at = 0;
        for (wait, wlan, up, new) in &self.steps {
            at += wait;
            let link = if *wlan { "wlan" } else { "mobile" };
            let set = match (up, new) {
                (false, _) => "state = \"down\"",
                (true, false) => "state = \"up\", address = \"same\"",
                (true, true) => "state = \"up\", address = \"new\"",
            };
            writeln!(events, "[[event]]\nat = \"{at} ms\"\nlink = \"{link}\"\nset = {{ {set} }}")
                .expect("a string takes any text");
        }
        for link in ["wlan", "mobile"] {
            writeln!(events, "[[event]]\nat = \"26 s\"\nlink = \"{link}\"\nset = {{ state = \"up\" }}")
                .expect("a string takes any text");
        }
        let workload = "workload = { kind = \"file\", size = \"10 MB\" }";
        format!("{NETWORK}{}\n{workload}\n{events}", self.keys)
    }
}

/// Runs random journeys. Checks that all bytes arrive; the simulator checks the content of each. After that,
/// an event may interrupt the end of the connection.
fn check(journeys: u32) {
    let config = Config { cases: journeys, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let checked = runner.run(&journey(), |journey| {
        let flow = flow(&journey.text());
        prop_assert!(flow.completion_s.is_some(), "{}: {}", flow.state, journey.text());
        prop_assert_eq!(flow.delivered_bytes, 10_000_000, "{}", journey.text());
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn random_handovers_lose_no_connection_and_no_byte() {
    check(20);
}

#[test]
#[ignore = "minutes: cargo test --release -p anabranch-sim --test runs thousand_handovers -- --ignored"]
fn thousand_handovers_lose_no_byte() {
    check(1_000);
}
