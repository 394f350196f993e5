//! Flows between the same hosts share their addresses and ports, as on a real machine.

use super::cases::text::read;
use anabranch_sim::scenario::Scenario;
use anabranch_sim::{RunOptions, RunResult, run};
use std::collections::BTreeSet;

/// Two links between the hosts `A` and `B`, and flows from one to the other: the name of each and its settings.
fn between_two_hosts(seconds: u64, flows: &[(String, &str)]) -> Scenario {
    let links = "[[link]]\nname = \"one\"\nbetween = [\"A\", \"B\"]\nrate = \"20 Mbit/s\"\ndelay = \"5 ms\"\n\
                 [[link]]\nname = \"two\"\nbetween = [\"A\", \"B\"]\nrate = \"10 Mbit/s\"\ndelay = \"20 ms\"\n";
    let flow = |(name, settings): &(String, &str)| {
        format!("[[flow]]\nname = \"{name}\"\nfrom = \"A\"\nto = \"B\"\n{settings}\n")
    };
    let flows: String = flows.iter().map(flow).collect();
    let text = format!("duration = \"{seconds} s\"\nwarmup = \"1 s\"\nseed = 1\n{links}{flows}");
    read(&text, &[])
}

/// Runs a scenario with every packet checked, so that the receiving host must find the same connection as the engine,
/// and again in order of time: the result must not depend on which end a listener handles first.
fn run_both_ways(scenario: &Scenario) -> RunResult {
    let checked = RunOptions { check_wire: true, ..RunOptions::default() };
    let result = run(scenario, &checked).expect("the host finds the connection of every packet");
    let ordered =
        run(scenario, &RunOptions { in_order: true, ..RunOptions::default() }).expect("the run succeeds");
    assert_eq!(ordered.digest, result.digest);
    result
}

/// The ports at `A` and at `B` of a flow's first path.
fn first_ports(result: &RunResult, flow: usize) -> (u16, u16) {
    let port = |end: &str| end.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let path = &result.flows[flow].paths[0];
    (port(&path.local), port(&path.remote))
}

/// The protocols, each with one listener for its flows.
const PROTOCOLS: [(&str, &str); 5] = [
    ("tcp", "protocol = \"tcp\""),
    ("mptcp", "protocol = \"mptcp\"\ncongestion = \"lia\"\npaths = \"fullmesh\""),
    ("sctp", "protocol = \"sctp\""),
    ("cmt-sctp", "protocol = \"cmt-sctp\"\ncongestion = \"lia\""),
    ("udp", "protocol = \"udp\"\nworkload = { kind = \"rate\", rate = \"1 Mbit/s\" }"),
];

#[test]
fn two_flows_of_each_protocol_share_a_listener() {
    for (protocol, settings) in PROTOCOLS {
        let flows = [0, 1].map(|number| (format!("{protocol}-{number}"), settings));
        let result = run_both_ways(&between_two_hosts(10, &flows));
        let [first, second] = [0, 1].map(|flow| first_ports(&result, flow));
        assert_eq!((first.1, second.1), (5001, 5001), "{protocol}");
        assert_ne!(first.0, second.0, "{protocol}");
        for flow in &result.flows {
            assert!(flow.goodput_bps > 0.9e6, "{}: {} bit/s", flow.name, flow.goodput_bps);
        }
    }
}

#[test]
fn join_finds_its_connection_by_token() {
    let (_, mptcp) = PROTOCOLS[1];
    let flows = [0, 1, 2].map(|number| (format!("mptcp-{number}"), mptcp));
    let result = run_both_ways(&between_two_hosts(10, &flows));
    let mut ends = BTreeSet::new();
    for flow in &result.flows {
        assert_eq!(flow.paths.len(), 2, "{}: each link leads to a different address", flow.name);
        for path in &flow.paths {
            assert!(path.remote.ends_with(":5001"), "{}: all joins go to the one port", path.remote);
            assert!(ends.insert((path.local.clone(), path.remote.clone())), "{} twice", path.local);
        }
        // Data used both paths, so the second was joined to the right connection.
        assert!(flow.paths.iter().all(|path| path.goodput_bps > 1e5), "{}: {:?}", flow.name, flow.paths);
    }
}

#[test]
fn flows_of_all_protocols_share_hosts() {
    let names = |number| PROTOCOLS.map(|(name, settings)| (format!("{name}-{number}"), settings));
    let flows = [names(0), names(1)].concat();
    let result = run_both_ways(&between_two_hosts(10, &flows));
    // TCP and Multipath TCP share one port space, SCTP and CMT-SCTP another, and UDP has a third. So these are the
    // listeners.
    let listeners = [5001, 5002, 5001, 5002, 5001];
    for (flow, ran) in result.flows.iter().enumerate() {
        assert_eq!(first_ports(&result, flow).1, listeners[flow % 5], "{}", ran.name);
        assert!(ran.goodput_bps > 0.0, "{} has no share", ran.name);
    }
}

#[test]
fn hosts_find_the_flow_of_every_packet() {
    let names = |number| PROTOCOLS.map(|(name, settings)| (format!("{name}-{number}"), settings));
    let flows: Vec<_> = (0..5).flat_map(names).collect();
    let options = RunOptions { check_wire: true, ..RunOptions::default() };
    let result = run(&between_two_hosts(20, &flows), &options).expect("no two flows have the same ends");
    assert_eq!(result.flows.len(), 25);
    for flow in &result.flows {
        assert!(flow.goodput_bps > 0.0, "{} has no share", flow.name);
        let paths = flow.paths.len();
        assert!(!flow.name.starts_with("mptcp") || paths >= 2, "{}: {paths}", flow.name);
    }
}
