//! Subflows through gateways by loose source routes, in whole runs.

use super::cases::text::read;
use anabranch_sim::scenario::Scenario;
use anabranch_sim::scenario::result::{RouterResult, RunResult};
use anabranch_sim::{RunOptions, run};

/// A client behind a mesh with two gateways of 10 Mbit/s.
const GATEWAYS: &str = include_str!("../../../../examples/gateways.toml");

/// The result of a run, which is the same with encoded packets.
fn result(scenario: &Scenario, seed: u64) -> RunResult {
    let plain = run(scenario, &RunOptions { seed: Some(seed), ..RunOptions::default() }).unwrap();
    let again = RunOptions { seed: Some(seed), in_order: true, check_wire: true, ..RunOptions::default() };
    assert_eq!(run(scenario, &again).unwrap().digest, plain.digest, "seed {seed}");
    plain
}

fn mbit_per_s(result: &RunResult) -> f64 {
    result.flows[0].goodput_bps / 1e6
}

/// Routes of the paths with acknowledged data.
fn used(result: &RunResult) -> Vec<Vec<&str>> {
    let paths = result.flows[0].paths.iter().filter(|path| path.goodput_bps > 0.0);
    paths.map(|path| path.links.iter().map(String::as_str).collect()).collect()
}

/// Counts at a router: packets with source routes, and of these the followed, dropped and invalid ones.
fn counts(result: &RunResult, node: &str) -> [u64; 4] {
    let of_node = result.routers.iter().find(|router| router.node == node);
    of_node.map_or([0; 4], |router| {
        let RouterResult { source_routed, followed, dropped, invalid, .. } = router;
        [*source_routed, *followed, *dropped, *invalid]
    })
}

#[test]
fn both_gateways_carry_an_upload() {
    let scenario = read(GATEWAYS, &[]);
    for seed in 1..=20 {
        let result = result(&scenario, seed);
        println!("seed {seed}: {:.3} Mbit/s", mbit_per_s(&result));
        assert!(mbit_per_s(&result) > 18.0, "seed {seed}: {} Mbit/s", mbit_per_s(&result));
        let first = ["home", "mesh-1", "uplink-1", "far"];
        let second = ["home", "mesh-2", "uplink-2", "far"];
        assert_eq!(used(&result), [first, second, first], "seed {seed}");
        for gateway in ["G1", "G2"] {
            let [all, followed, dropped, invalid] = counts(&result, gateway);
            assert!(all > 1000 && followed == all && dropped + invalid == 0, "seed {seed}: {result:?}");
        }
        assert_eq!(counts(&result, "mesh")[1..], [0; 3], "the mesh is no hop");
        // The gateways have removed all options.
        assert_eq!(counts(&result, "internet"), [0; 4]);
    }
}

#[test]
fn dropped_routes_leave_the_initial_subflow() {
    let drop = [("router.G1.source_routes", "drop"), ("router.G2.source_routes", "drop")];
    let ignore = [("router.G1.source_routes", "ignore"), ("router.G2.source_routes", "ignore")];
    for set in [&drop[..], &ignore, &[("router.mesh.source_routes", "drop")]] {
        let scenario = read(GATEWAYS, set);
        for seed in 1..=20 {
            let result = result(&scenario, seed);
            println!("seed {seed}: {:.3} Mbit/s", mbit_per_s(&result));
            assert!(mbit_per_s(&result) > 9.0, "seed {seed}: {} Mbit/s", mbit_per_s(&result));
            assert_eq!(used(&result), [["home", "mesh-1", "uplink-1", "far"]], "seed {seed}");
            let dropped: u64 = result.routers.iter().map(|router| router.dropped).sum();
            assert!(dropped > 2 && result.routers.iter().all(|router| router.followed == 0), "{result:?}");
        }
    }
}

#[test]
fn mesh_without_the_option_is_passed_if_it_ignores() {
    let scenario = read(GATEWAYS, &[("router.mesh.source_routes", "ignore")]);
    assert!(mbit_per_s(&result(&scenario, 1)) > 18.0);
}

#[test]
fn route_of_several_routers_is_followed() {
    // To G2 by G1: over the mesh twice, once with the address of the first hop.
    let set = ("host.client.gateways", "[[\"G1\", \"G2\"], \"G1\"]");
    let scenario = read(GATEWAYS, &[set]);
    let result = result(&scenario, 1);
    let around = ["home", "mesh-1", "mesh-1", "mesh-2", "uplink-2", "far"];
    let links: Vec<_> = result.flows[0].paths.iter().map(|path| path.links.as_slice()).collect();
    assert_eq!(links[2], around);
    // G1 is a hop of both routes.
    let (first, second) = (counts(&result, "G1"), counts(&result, "G2"));
    assert!(first[1] == first[0] && first[1] > second[1] && second[1] > 100, "{:?}", result.routers);
}

#[test]
fn narrow_uplink_limits_packets_of_all_subflows() {
    let scenario = read(GATEWAYS, &[("link.uplink-2.mtu", "1400"), ("duration", "10 s")]);
    let result = result(&scenario, 1);
    assert!(mbit_per_s(&result) > 17.0, "{} Mbit/s", mbit_per_s(&result));
    assert!(result.links.iter().all(|link| link.drops_by_cause["mtu"] == 0));
}

#[test]
fn gateways_with_a_nat_split_a_download() {
    let nat = |node: &str, inside: &str| {
        format!("[[middlebox]]\nnode = \"{node}\"\nfrom = [\"{inside}\"]\ndoes = {{ kind = \"nat\" }}\n")
    };
    let text = format!("{GATEWAYS}direction = \"reverse\"\n{}{}", nat("G1", "mesh-1"), nat("G2", "mesh-2"));
    let result = result(&read(&text, &[]), 1);
    println!("{:.3} Mbit/s", mbit_per_s(&result));
    assert!(mbit_per_s(&result) > 17.0, "{} Mbit/s", mbit_per_s(&result));
}

#[test]
fn renumbered_gateway_is_found_again() {
    // New addresses at the mesh's link to G2: the client sends to the new address of the gateway.
    let event = "[[event]]\nat = \"5 s\"\nlink = \"mesh-2\"\nset = { state = \"up\", address = \"new\" }\n";
    let text = format!("{GATEWAYS}\n{event}");
    let result = result(&read(&text, &[("warmup", "8 s")]), 1);
    assert!(mbit_per_s(&result) > 18.0, "{} Mbit/s", mbit_per_s(&result));
}
