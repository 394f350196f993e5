//! Links with both versions of IP, with several addresses, and with addresses of other links.

use anabranch_sim::scenario::result::FlowResult;
use anabranch_sim::{RunOptions, RunResult, scenario};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

/// Two links between a client and a server, with both versions of IP.
static NETWORK: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '20 s', ip = 'both'")
        .link_defaults("rate = '10 Mbit/s', delay = '10 ms'")
        .link("one", ["C", "S"], "")
        .link("two", ["C", "S"], "")
        .flow("F", ["C", "S"], "")
});

fn parse(text: &str) -> scenario::Scenario {
    scenario::parse(text, "dual.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn run(text: &str) -> RunResult {
    let scenario = parse(text);
    let options = RunOptions { check_wire: true, ..RunOptions::default() };
    anabranch_sim::run(&scenario, &options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn flow(text: &str) -> FlowResult {
    run(text).flows.remove(0)
}

fn names(flow: &FlowResult) -> Vec<&str> {
    flow.paths.iter().map(|path| path.name.as_str()).collect()
}

const PATHS: [&str; 4] = ["one:v4", "one:v6", "two:v4", "two:v6"];

#[test]
fn multipath_protocols_use_both_versions() {
    for protocol in ["mptcp", "cmt-sctp", "sctp"] {
        let flow = flow(&format!("{NETWORK}protocol = \"{protocol}\""));
        let mut found = names(&flow);
        found.sort_unstable();
        assert_eq!(found, PATHS, "{protocol}");
        for path in &flow.paths {
            let ends = [&path.local, &path.remote].map(|end| end.contains("2001:db8"));
            assert_eq!(ends, [path.name.ends_with(":v6"); 2], "both ends have one version: {path:?}");
            assert!(protocol == "sctp" || path.goodput_bps > 1e6, "{protocol} {}", path.name);
        }
        let expected = if protocol == "sctp" { 9e6 } else { 18e6 };
        assert!(flow.goodput_bps > expected, "{protocol} {}", flow.goodput_bps);
    }
}

#[test]
fn encoded_packets_give_the_same_digest() {
    for protocol in ["mptcp", "cmt-sctp"] {
        let text = format!("{NETWORK}protocol = \"{protocol}\"").replace("20 s", "5 s");
        let plain = anabranch_sim::run(&parse(&text), &RunOptions::default()).unwrap();
        let in_order = RunOptions { in_order: true, ..RunOptions::default() };
        let ordered = anabranch_sim::run(&parse(&text), &in_order).unwrap();
        assert_eq!([&run(&text).digest, &ordered.digest], [&plain.digest; 2], "{protocol}");
    }
}

#[test]
fn initial_path_selects_the_version() {
    for (protocol, least) in [("tcp", 9e6), ("mptcp", 2e6), ("sctp", 9e6)] {
        let flow = flow(&format!("{NETWORK}protocol = \"{protocol}\"\ninitial_path = \"two:v6\""));
        let first = flow.paths.iter().find(|path| path.name == "two:v6").expect("a path");
        assert!(first.goodput_bps > least, "{protocol} {}", first.goodput_bps);
        assert!(protocol == "sctp" || flow.paths[0].name == "two:v6", "{protocol}");
    }
    let flow = flow(&format!("{NETWORK}protocol = \"tcp\""));
    assert_eq!(names(&flow), ["one:v4"]);
}

#[test]
fn segments_follow_the_version_of_their_path() {
    // A full packet has 1448 bytes of data over IPv4 and 1428 over IPv6.
    let flow = flow(&format!("{NETWORK}protocol = \"mptcp\""));
    for path in &flow.paths {
        let per_packet = path.throughput_bps / 8.0 * 20.0 / path.data_packets as f64;
        let full = if path.name.ends_with(":v6") { 1428.0 } else { 1448.0 };
        // The mapping of Multipath TCP takes 24 bytes of each packet.
        assert!((per_packet - (full - 24.0)).abs() < 4.0, "{} {per_packet}", path.name);
    }
}

#[test]
fn link_of_one_version_has_one_path() {
    let text = NETWORK.replace("name = \"two\"", "name = \"two\"\nip = \"v6\"");
    for protocol in ["mptcp", "cmt-sctp"] {
        let flow = flow(&format!("{text}protocol = \"{protocol}\""));
        let mut found = names(&flow);
        found.sort_unstable();
        assert_eq!(found, ["one:v4", "one:v6", "two"], "{protocol}");
        assert!(flow.goodput_bps > 18e6, "{protocol} {}", flow.goodput_bps);
    }
}

#[test]
fn several_addresses_make_paths_over_one_link() {
    let text =
        NETWORK.replace("ip = \"both\"", "").replace("name = \"one\"", "name = \"one\"\naddresses = [2, 1]");
    let flow = flow(&format!("{text}protocol = \"mptcp\""));
    let ends: Vec<_> = flow.paths.iter().map(|path| path.local.split(':').next().unwrap()).collect();
    assert_eq!(
        (names(&flow), ends),
        (vec!["one", "one#2", "two"], vec!["10.0.0.1", "172.16.0.1", "10.0.0.5"])
    );
    assert!(flow.paths.iter().all(|path| path.goodput_bps > 1e6));
}

#[test]
fn paths_of_both_versions_return_after_an_outage() {
    let events = "\n[[event]]\nat = \"5 s\"\nlink = \"one\"\nset = { state = \"down\" }\n\
                  [[event]]\nat = \"8 s\"\nlink = \"one\"\nset = { state = \"up\", address = \"ADDRESS\" }\n";
    for (protocol, address, least) in
        [("mptcp", "same", 15e6), ("mptcp", "new", 15e6), ("cmt-sctp", "same", 12e6)]
    {
        let events = events.replace("ADDRESS", address);
        let text = format!("{NETWORK}protocol = \"{protocol}\"\n{events}")
            .replace("name = \"one\"", "name = \"one\"\naddresses = 2");
        let flow = flow(&text);
        assert_eq!(flow.state, "open", "{protocol}");
        let back = |version: &str| {
            let returned = |path: &&scenario::result::PathResult| {
                path.name.starts_with("one")
                    && path.name.contains(version)
                    && path.usable
                    && path.goodput_bps > 1e4
            };
            flow.paths.iter().filter(returned).count()
        };
        assert!(back(":v4") > 0 && back(":v6") > 0, "{protocol} {address} {:?}", names(&flow));
        assert!(flow.goodput_bps > least, "{protocol} {address} {}", flow.goodput_bps);
    }
}

#[test]
fn shared_address_is_reached_over_both_links() {
    // The server has one address on two links; the client has two.
    let text = ScenarioText::new("duration = '20 s'")
        .link_defaults("rate = '10 Mbit/s'")
        .link("near-1", ["C", "R1"], "")
        .link("near-2", ["C", "R2"], "")
        .link("far-1", ["R1", "S"], "")
        .link("far-2", ["R2", "S"], "address_of = 'far-1'")
        .flow("F", ["C", "S"], "");
    for protocol in ["mptcp", "cmt-sctp"] {
        let flow = flow(&format!("{text}protocol = \"{protocol}\""));
        let links: Vec<_> = flow.paths.iter().map(|path| path.links.join(" ")).collect();
        if protocol == "mptcp" {
            assert_eq!(links, ["near-1 far-1", "near-2 far-2"]);
            assert!(flow.goodput_bps > 18e6, "{}", flow.goodput_bps);
        } else {
            assert_eq!(links, ["near-1 far-1"], "one destination is one path");
            assert!(flow.goodput_bps > 9e6);
        }
    }
}

#[test]
fn more_than_64_pairs_are_refused() {
    let text = NETWORK.replace("name = \"one\"", "name = \"one\"\naddresses = 6");
    for (protocol, paths) in [("mptcp", 6 * 6 * 2 + 2), ("cmt-sctp", 6 * 6 * 2 + 2)] {
        let text = format!("{text}protocol = \"{protocol}\"\npaths = \"fullmesh\"");
        let error = anabranch_sim::run(&parse(&text), &RunOptions::default()).unwrap_err().to_string();
        assert!(error.contains(&format!("make {paths} paths")) && error.contains("at most 64"), "{error}");
    }
}
