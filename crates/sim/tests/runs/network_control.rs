//! Paths that request their routes from routers, in whole runs.

use super::cases::text::read;
use anabranch_sim::scenario::Scenario;
use anabranch_sim::scenario::result::{FlowResult, RunResult};
use anabranch_sim::{RunOptions, run};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Three links of 10 Mbit/s between two routers, a TCP flow, and a flow of CMT-SCTP with two paths.
const THREE_WAYS: &str = include_str!("../../../../examples/network-control.toml");

/// The same network, and a flow of Multipath TCP with two subflows.
fn with_mptcp() -> String {
    THREE_WAYS.replace("\"cmt-sctp\"", "\"mptcp\"\npaths = \"disjoint\"")
}

/// The result of a run, which is the same with encoded packets.
fn result(scenario: &Scenario, seed: u64) -> RunResult {
    let plain = run(scenario, &RunOptions { seed: Some(seed), ..RunOptions::default() }).unwrap();
    let again = RunOptions { seed: Some(seed), in_order: true, check_wire: true, ..RunOptions::default() };
    assert_eq!(run(scenario, &again).unwrap().digest, plain.digest, "seed {seed}");
    plain
}

/// The links between the routers that a flow's paths use.
fn ways(flow: &FlowResult) -> BTreeSet<&str> {
    let links = flow.paths.iter().flat_map(|path| path.links.iter().map(String::as_str));
    links.filter(|link| ["p", "q", "r"].contains(link)).collect()
}

#[test]
fn each_path_gets_one_of_three_free_routes() {
    let scenario = read(THREE_WAYS, &[]);
    for seed in 1..=20 {
        let result = result(&scenario, seed);
        let [tcp, cmt] = [0, 1].map(|at| result.flows[at].goodput_bps / 1e6);
        println!("seed {seed}: TCP {tcp:.3} Mbit/s, CMT-SCTP {cmt:.3} Mbit/s");
        assert!(tcp >= 9.0 && cmt >= 18.0, "seed {seed}: TCP {tcp}, CMT-SCTP {cmt} Mbit/s");
        assert!(ways(&result.flows[0]).is_disjoint(&ways(&result.flows[1])), "seed {seed}");
        assert_eq!(ways(&result.flows[1]).len(), 2, "seed {seed}");
        for path in &result.flows[1].paths {
            let [record] = &*path.network_control else { panic!("one router: {:?}", path.network_control) };
            assert_eq!((record.router.as_str(), record.rate_bps, record.shared), ("R1", 10e6, false));
            assert_eq!((record.delay_s, record.loss), (0.01, 0.0));
            assert!(record.free_rate_bps < 1e6, "the path uses its way: {record:?}");
        }
    }
}

#[test]
fn routers_without_network_control_change_nothing() {
    let router = ("router.R1.network_control", "false");
    let mut separate = 0;
    for seed in 1..=9 {
        let of = |set: &[(&str, &str)]| {
            let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
            run(&read(THREE_WAYS, set), &options).unwrap().flows
        };
        let (with, without) = (of(&[router]), of(&[router, ("flow.cmt.network_control", "false")]));
        assert!(with[1].paths.iter().all(|path| path.network_control.is_empty()));
        let sum = |flows: &[FlowResult]| flows.iter().map(|flow| flow.goodput_bps).sum::<f64>();
        let ratio = sum(&with) / sum(&without);
        println!("seed {seed}: with requests {ratio:.5} of the goodputs without");
        assert!((ratio - 1.0).abs() < 0.01, "seed {seed}: {ratio}");
        // Where flows compete, each packet changes which one loses packets; the sum does not change.
        if without[0].goodput_bps > 9e6 {
            separate += 1;
            let ratio = with[1].goodput_bps / without[1].goodput_bps;
            assert!((ratio - 1.0).abs() < 0.01, "seed {seed}: {ratio}");
        }
    }
    assert!(separate > 1);
}

#[test]
fn each_subflow_gets_a_free_way_of_three() {
    for version in ["v4", "v6"] {
        let ip = format!("\"{version}\"");
        let scenario = read(&with_mptcp(), &[("ip", ip.as_str())]);
        for seed in 1..=20 {
            let result = result(&scenario, seed);
            let [tcp, mptcp] = [0, 1].map(|at| result.flows[at].goodput_bps / 1e6);
            println!("IP{version}, seed {seed}: TCP {tcp:.3} Mbit/s, Multipath TCP {mptcp:.3} Mbit/s");
            assert!(tcp >= 9.0 && mptcp >= 18.0, "{version}, seed {seed}: TCP {tcp}, MPTCP {mptcp} Mbit/s");
            assert!(ways(&result.flows[0]).is_disjoint(&ways(&result.flows[1])), "{version}, seed {seed}");
            assert_eq!(ways(&result.flows[1]).len(), 2, "{version}, seed {seed}");
            assert!(result.flows[1].paths.iter().all(|path| path.network_control.is_empty()));
        }
    }
}

#[test]
fn options_change_nothing_without_network_control() {
    let router = ("router.R1.network_control", "false");
    let (mut separate, mut sums) = (0, [0.0; 2]);
    for seed in 1..=20 {
        let of = |set: &[(&str, &str)]| {
            let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
            run(&read(&with_mptcp(), set), &options).unwrap().flows
        };
        let (with, without) = (of(&[router]), of(&[router, ("flow.cmt.network_control", "false")]));
        let sum = |flows: &[FlowResult]| flows.iter().map(|flow| flow.goodput_bps).sum::<f64>();
        let ratio = sum(&with) / sum(&without);
        println!("seed {seed}: with options {ratio:.5} of the goodputs without");
        sums = [sums[0] + sum(&with), sums[1] + sum(&without)];
        // Where flows compete, each packet changes which one loses packets.
        if without[0].goodput_bps > 9e6 {
            separate += 1;
            assert!((ratio - 1.0).abs() < 0.01, "seed {seed}: {ratio}");
        }
    }
    let ratio = sums[0] / sums[1];
    println!("all seeds: {ratio:.5}; {separate} without competition");
    assert!(separate > 1 && (ratio - 1.0).abs() < 0.01, "{ratio}");
}

#[test]
fn requests_fit_small_and_authenticated_packets() {
    for set in
        [("ip", "\"v6\""), ("flow.cmt.i_data", "true"), ("flow.cmt.asconf", "true"), ("flow.cmt.mtu", "600")]
    {
        let result = result(&read(THREE_WAYS, &[("duration", "15 s"), set]), 1);
        assert_eq!(ways(&result.flows[1]).len(), 2, "{set:?}");
        assert!(result.flows[1].goodput_bps > 16e6, "{set:?}: {}", result.flows[1].goodput_bps);
        assert!(result.flows[1].paths.iter().all(|path| path.network_control.len() == 1), "{set:?}");
    }
}

#[test]
fn path_leaves_a_failed_route() {
    let down = "[[event]]\nat = \"12 s\"\nlink = \"LINK\"\nset = { state = \"down\" }\n";
    for link in ["p", "q", "r"] {
        let text = format!("{THREE_WAYS}\n{}", down.replace("LINK", link));
        let flow = &result(&read(&text, &[]), 3).flows[1];
        assert!(!ways(flow).contains(link), "{link}: {:?}", ways(flow));
    }
}

#[test]
fn nine_routers_leave_eight_records() {
    let mut text =
        String::from("duration = \"4 s\"\n[link_defaults]\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"\n");
    for at in 0..10 {
        let [from, to] = [at, at + 1].map(|node| match node {
            0 => "A".to_owned(),
            10 => "B".to_owned(),
            router => format!("R{router}"),
        });
        writeln!(text, "[[link]]\nname = \"L{at}\"\nbetween = [\"{from}\", \"{to}\"]").expect("memory");
        if at > 0 {
            writeln!(text, "[[router]]\nname = \"R{at}\"\nnetwork_control = true").expect("memory");
        }
    }
    text += "[[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"cmt-sctp\"\nnetwork_control = true\n";
    let result = result(&read(&text, &[]), 1);
    let records = &result.flows[0].paths[0].network_control;
    let routers: Vec<_> = records.iter().map(|record| record.router.as_str()).collect();
    assert_eq!(routers, ["R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"]);
}
