//! Routers that choose among equally short paths, and routes that override shortest paths, in whole runs.

use super::cases::text::read;
use anabranch_sim::scenario::Scenario;
use anabranch_sim::scenario::result::RunResult;
use anabranch_sim::{RunOptions, run};

/// Two links of 10 Mbit/s between two routers, and a flow over them.
const PARALLEL: &str = include_str!("../../../../examples/equal-paths.toml");

/// Four routers, each with a host, whose routes lead around in one direction.
const RING: &str = include_str!("../../../../examples/ring.toml");

/// The result of a run, which is the same with packets in order and with encoded packets.
fn result(scenario: &Scenario, seed: u64) -> RunResult {
    let plain = run(scenario, &RunOptions { seed: Some(seed), ..RunOptions::default() }).unwrap();
    let again = RunOptions { seed: Some(seed), in_order: true, check_wire: true, ..RunOptions::default() };
    assert_eq!(run(scenario, &again).unwrap().digest, plain.digest, "seed {seed}");
    plain
}

#[test]
fn subflows_use_both_of_two_equal_paths() {
    let scenario = read(PARALLEL, &[("duration", "10 s"), ("warmup", "2 s")]);
    let goodputs = (1..=20).map(|seed| result(&scenario, seed).flows[0].goodput_bps);
    let mean = goodputs.sum::<f64>() / 20.0;
    assert!(mean > 15e6, "{mean}");
}

#[test]
fn first_path_is_used_without_ecmp() {
    let scenario = read(PARALLEL, &[("ecmp", "false"), ("duration", "5 s"), ("warmup", "1 s")]);
    let result = result(&scenario, 1);
    assert!((9.0e6..10.0e6).contains(&result.flows[0].goodput_bps));
    let unused = result.links.iter().filter(|link| link.name == "q");
    assert!(unused.into_iter().all(|link| link.packets == 0));
}

#[test]
fn paths_of_the_result_are_those_of_the_packets() {
    let scenario = read(PARALLEL, &[("duration", "5 s"), ("warmup", "0 s")]);
    for seed in 1..=6 {
        let result = result(&scenario, seed);
        for name in ["p", "q"] {
            let link =
                result.links.iter().find(|link| link.name == name && link.direction == "reverse").unwrap();
            let carries =
                |path: &&anabranch_sim::scenario::result::PathResult| path.links.contains(&link.name);
            let sent: u64 = result.flows[0].paths.iter().filter(carries).map(|path| path.data_packets).sum();
            // Some data still waits at the end, and the link carries acknowledgements, too.
            let offered = link.packets + link.drops;
            assert!(
                (sent.saturating_sub(200)..sent + 1000).contains(&offered),
                "{name}: {sent} of {offered}"
            );
        }
    }
}

#[test]
fn errors_reach_the_sender_over_equal_paths() {
    // Behind the equal paths is a narrow link.
    let narrow = [("link.R2-server.mtu", "1200"), ("duration", "5 s"), ("warmup", "1 s")];
    for protocol in ["tcp", "sctp"] {
        let text = PARALLEL
            .replace("direction = \"reverse\"\n", "")
            .replace("protocol = \"mptcp\"\npaths = \"ndiffports:4\"", &format!("protocol = \"{protocol}\""));
        for seed in 1..=4 {
            let result = result(&read(&text, &narrow), seed);
            assert!(result.flows[0].goodput_bps > 8e6, "{protocol}, seed {seed}");
        }
    }
}

#[test]
fn routes_lead_around_the_ring() {
    let result = result(&read(RING, &[("duration", "5 s"), ("warmup", "1 s")]), 1);
    for flow in &result.flows {
        assert_eq!(flow.paths[0].links.len(), 5, "{:?}", flow.paths[0].links);
        // Each link of the ring carries three of the four flows, and acknowledgements of the fourth.
        assert!((1.5e6..5.0e6).contains(&flow.goodput_bps), "{}", flow.goodput_bps);
    }
}
