//! Scenarios in the user-space world: the same contents and nearly the same rates as in the simulator.
//!
//! The rates are low and the queues long, so that a busy machine, which is late by tens of milliseconds, does
//! not affect the compared values.
#![cfg(target_os = "linux")]

use anabranch_net::user;
use anabranch_scenario::Scenario;
use anabranch_scenario::result::{FlowResult, RunResult};
use anabranch_sim::{RunError, RunOptions};

/// Two links of 4 and 2 Mbit/s with 10 and 20 ms between two hosts, and a flow with these keys.
fn scenario(seconds: u32, flow: &str) -> Scenario {
    let text = format!(
        r#"
duration = "{seconds} s"
warmup = "500 ms"

[link_defaults]
queue = {{ kind = "fifo", limit = "60 packets" }}

[[link]]
name = "upper"
between = ["phone", "server"]
rate = "4 Mbit/s"
delay = "10 ms"

[[link]]
name = "lower"
between = ["phone", "server"]
rate = "2 Mbit/s"
delay = "20 ms"

[[flow]]
name = "upload"
from = "phone"
to = "server"
{flow}
"#
    );
    parse(&text)
}

fn parse(text: &str) -> Scenario {
    anabranch_scenario::parse(text, "user.toml", &[]).expect("the scenario is valid")
}

fn run(scenario: &Scenario) -> RunResult {
    user::run(scenario, &RunOptions::default(), None, &mut |_| {}, &mut |_| true).expect("the run succeeds")
}

fn simulated(scenario: &Scenario) -> RunResult {
    anabranch_sim::run(scenario, &RunOptions::default()).expect("the run succeeds")
}

/// A client with two paths to a server, each through a separate router, with these tables and a flow with these keys.
fn routed(flow: &str, tables: &str) -> Scenario {
    let text = r#"
duration = "6 s"

[link_defaults]
rate = "5 Mbit/s"
delay = "5 ms"
queue = { kind = "codel", ecn = true, limit = "100 packets" }

[[link]]
name = "wifi"
between = ["C", "N1"]

[[link]]
name = "cell"
between = ["C", "N2"]

[[link]]
name = "north"
between = ["N1", "S"]
mtu = 1400

[[link]]
name = "south"
between = ["N2", "S"]
loss = { model = "bernoulli", rate = 0.01 }
"#;
    let flow = format!("[[flow]]\nname = \"F\"\nfrom = \"C\"\nto = \"S\"\n{flow}\n");
    parse(&format!("{text}{flow}workload = {{ kind = \"file\", size = \"200 kB\" }}\n{tables}"))
}

/// All written data has arrived, and the connection has ended.
fn assert_whole(flow: &FlowResult, bytes: u64) {
    assert_eq!((flow.written_bytes, flow.delivered_bytes), (bytes, bytes), "{flow:?}");
    assert!(flow.state == "closed" && flow.completion_s.is_some(), "{flow:?}");
}

#[test]
fn goodput_is_near_that_of_the_simulator() {
    let flows = [
        "protocol = \"tcp\"\ncongestion = \"reno\"",
        "protocol = \"mptcp\"\ncongestion = \"lia\"\npaths = \"disjoint\"",
        "protocol = \"cmt-sctp\"\ncongestion = \"cmt-rpv2\"",
    ];
    // Runs in real time sleep most of the time.
    std::thread::scope(|scope| {
        for flow in flows {
            scope.spawn(move || {
                let scenario = scenario(4, flow);
                let [user, sim] = [run(&scenario), simulated(&scenario)];
                let goodput = |result: &RunResult| result.flows[0].goodput_bps;
                let ratio = goodput(&user) / goodput(&sim);
                assert!((0.95..1.05).contains(&ratio), "{flow}: {ratio}");
                assert_eq!(user.flows[0].paths.len(), sim.flows[0].paths.len(), "{flow}");
            });
        }
    });
}

#[test]
fn transfers_arrive_whole() {
    let flows = [
        "protocol = \"tcp\"",
        "protocol = \"mptcp\"\ncongestion = \"olia\"\ndss_checksum = true",
        "protocol = \"sctp\"\nstreams = 3",
        "protocol = \"cmt-sctp\"\nordered = false\nudp_encapsulation = true",
    ];
    std::thread::scope(|scope| {
        for flow in flows {
            scope.spawn(move || {
                let flow = format!("{flow}\nworkload = {{ kind = \"file\", size = \"300 kB\" }}");
                let text = scenario(8, &flow);
                assert_whole(&run(&text).flows[0], 300_000);
            });
        }
    });
}

#[test]
fn middleboxes_and_events_work_on_bytes() {
    let boxed = |does: &str| format!("[[middlebox]]\nnode = \"N1\"\ndoes = {{ {does} }}\n");
    let mptcp = "protocol = \"mptcp\"\ncongestion = \"lia\"\ndss_checksum = true\necn = true";
    let outage = ["down", "up"].iter().enumerate().map(|(at, state)| {
        format!("[[event]]\nat = \"{at}50 ms\"\nlink = \"wifi\"\nset = {{ state = \"{state}\" }}\n")
    });
    let cases = [
        (mptcp, boxed("kind = \"split\"")),
        (mptcp, boxed("kind = \"nat\"")),
        (mptcp, boxed("kind = \"strip-options\"")),
        (mptcp, outage.collect()),
        ("protocol = \"cmt-sctp\"\ncongestion = \"cmt-rpv2\"", String::new()),
    ];
    std::thread::scope(|scope| {
        for (flow, tables) in cases {
            scope.spawn(move || {
                let scenario = routed(flow, &tables);
                let [result, sim] = [run(&scenario), simulated(&scenario)];
                assert_whole(&result.flows[0], 200_000);
                let seen = |result: &RunResult| (result.flows[0].fallback, result.flows[0].paths.len());
                assert_eq!(seen(&result), seen(&sim), "{tables}");
                assert!(result.middleboxes.iter().all(|found| found.changed > 0), "{result:?}");
            });
        }
    });
}

#[test]
fn result_states_world_and_lateness() {
    let result = run(&scenario(1, "protocol = \"tcp\""));
    assert_eq!((result.world.as_str(), result.digest), ("user", None));
    let lateness = result.host.expect("a real-time run has lateness").lateness;
    let packets: u64 = result.links.iter().map(|link| link.packets).sum();
    assert!(lateness.packets > 0 && packets > 0);
    assert!(lateness.mean_s > 0.0 && lateness.mean_s <= lateness.max_s);
    assert!(result.wall_s >= 1.0);
}

#[test]
fn stopped_run_ends_at_once() {
    let scenario = scenario(3600, "protocol = \"mptcp\"");
    let mut reports = 0;
    let stopped = user::run(&scenario, &RunOptions::default(), None, &mut |_| {}, &mut |_| {
        reports += 1;
        reports < 5
    });
    let Err(RunError::Interrupted { at }) = stopped else { panic!("{stopped:?}") };
    assert!(at.as_secs_f64() < 3600.0);
}

#[test]
fn new_address_of_a_link_is_a_new_path() {
    let event = "[[event]]\nat = \"1 s\"\nlink = \"lower\"\nset = { state = \"up\", address = \"new\" }";
    let result = run(&scenario(4, &format!("protocol = \"mptcp\"\n{event}")));
    let flow = &result.flows[0];
    // A join to the withdrawn address may come first, and fails.
    let is_new = |address: &str| address.starts_with("100.64.");
    let new = flow.paths.iter().find(|path| is_new(&path.local) && is_new(&path.remote));
    let new = new.unwrap_or_else(|| panic!("{:?}", flow.paths));
    assert!(new.usable && new.goodput_bps > 5e5, "{new:?}");
    assert_eq!(flow.state, "open");
    assert!(new.first_data_after_event_s.is_some() && flow.gap_s.is_some());
}

#[test]
fn arrivals_and_calls_are_those_of_the_simulator() {
    let file = "workload = { kind = \"file\", size = { exponential = \"5 kB\" }, arrivals = { mean_interval = \"100 ms\" } }";
    let call = "[[flow]]\nfrom = \"phone\"\nto = \"server\"\nname = \"call\"\nprotocol = \"udp\"\nvoice = \"g711\"\n\
                playout = \"1 s\"\nworkload = { kind = \"messages\", message = \"160 B\", interval = \"20 ms\" }";
    let scenario = scenario(4, &format!("protocol = \"tcp\"\n{file}\n{call}"));
    let (found, expected) = (run(&scenario), simulated(&scenario));
    let arrived = |result: &RunResult| result.flows[0].arrived.expect("arrivals");
    assert_eq!(arrived(&found), arrived(&expected));
    let (files, calls) = (&found.flows[0], &found.flows[1]);
    assert_eq!(files.refused, Some(0));
    let slowdown = files.slowdown.expect("files finish");
    assert!(slowdown.p50 > 0.9, "{slowdown:?}");
    assert!(calls.jitter_s.is_some() && calls.lost_share == Some(0.0));
    // A second of playout delay hides the lateness of a busy machine.
    let [found, expected] = [calls, &expected.flows[1]].map(|flow| flow.mos.expect("a rating"));
    assert!((found - expected).abs() < 0.5, "{found} for {expected}");
}

#[test]
fn recorded_run_is_repeated() {
    let folder = std::env::temp_dir();
    let outage = "[[event]]\nat = \"300 ms\"\nlink = \"upper\"\nset = { state = \"down\" }\n";
    let flows = [
        ("tcp", format!("protocol = \"tcp\"\nworkload = {{ kind = \"file\", size = \"100 kB\" }}\n{outage}")),
        ("mptcp", format!("protocol = \"mptcp\"\ndss_checksum = true\n{outage}")),
        ("sctp", "protocol = \"cmt-sctp\"\nordered = false".to_owned()),
    ];
    std::thread::scope(|scope| {
        for (name, flow) in flows {
            let file = folder.join(format!("anabranch-user-{name}-{}", std::process::id()));
            scope.spawn(move || {
                let scenario = scenario(1, &flow);
                let options = RunOptions { seed: Some(7), ..RunOptions::default() };
                let result = user::run(&scenario, &options, Some(&file), &mut |_| {}, &mut |_| true);
                assert_eq!(result.expect("the run succeeds").seed, 7);
                let outcome =
                    anabranch_replay::replay(std::fs::File::open(&file).expect("the recording exists"));
                std::fs::remove_file(file).expect("ours");
                let outcome = outcome.expect("a whole recording");
                assert_eq!(outcome.difference, None, "{name}");
                assert!(outcome.counts.sent > 50 && outcome.duration.as_secs_f64() >= 1.0, "{outcome:?}");
            });
        }
    });
}

#[test]
fn recording_of_a_stopped_run_is_whole() {
    let file = std::env::temp_dir().join(format!("anabranch-stopped-{}", std::process::id()));
    let scenario = scenario(3600, "protocol = \"mptcp\"");
    let mut reports = 0;
    let stopped = user::run(&scenario, &RunOptions::default(), Some(&file), &mut |_| {}, &mut |_| {
        reports += 1;
        reports < 8
    });
    assert!(matches!(stopped, Err(RunError::Interrupted { .. })));
    let outcome = anabranch_replay::replay(std::fs::File::open(&file).expect("the recording exists"));
    std::fs::remove_file(file).expect("ours");
    let outcome = outcome.expect("a whole recording");
    assert!(outcome.difference.is_none() && outcome.counts.sent > 10, "{outcome:?}");
}

#[test]
fn source_routes_lead_through_both_gateways() {
    let text = include_str!("../../../examples/gateways.toml");
    let text =
        text.replace("\"30 s\"", "\"6 s\"").replace("\"5 s\"", "\"1 s\"").replace("10 Mbit/s", "3 Mbit/s");
    let goodput = |text: &str| {
        let result = run(&parse(text));
        println!("{:.3} Mbit/s, {:?}", result.flows[0].goodput_bps / 1e6, result.routers);
        (result.flows[0].goodput_bps, result.routers)
    };
    let (both, routers) = goodput(&text);
    assert!(both > 5.0e6 && routers.iter().all(|router| router.dropped == 0), "{both} {routers:?}");
    let (first, routers) = goodput(
        &text
            .replace("name = \"G1\"\nsource_routes = \"forward\"", "name = \"G1\"")
            .replace("name = \"G2\"\nsource_routes = \"forward\"", "name = \"G2\""),
    );
    assert!(first > 2.5e6 && first < 3.0e6 && routers.iter().any(|router| router.dropped > 0), "{first}");
}
