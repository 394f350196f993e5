//! Middleboxes in whole runs, and the reaction of connections.

use anabranch_sim::scenario::result::{FlowResult, RunResult};
use anabranch_sim::{RunOptions, run, scenario};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};
use proptest::prelude::*;

/// A client with two paths to a server, each through a separate node.
static TWO_WAYS: LazyText = LazyText::new(|| {
    ScenarioText::new("title = 'two ways', duration = '10 s', warmup = '1 s'")
        .link_defaults("rate = '10 Mbit/s', delay = '10 ms'")
        .link("wifi", ["C", "N1"], "")
        .link("cell", ["C", "N2"], "")
        .link("north", ["N1", "R"], "")
        .link("south", ["N2", "R"], "")
        .link("last", ["R", "S"], "rate = '100 Mbit/s', delay = '1 ms'")
});

/// The result of a run. A second run, with every packet encoded and parsed, must have the same result.
fn outcome(flow: &str, middleboxes: &str) -> RunResult {
    outcome_after("10 s", flow, middleboxes)
}

fn outcome_after(duration: &str, flow: &str, middleboxes: &str) -> RunResult {
    let network = TWO_WAYS.replace("10 s", duration);
    let text = format!("{network}{middleboxes}\n[[flow]]\nname = \"F\"\nfrom = \"C\"\nto = \"S\"\n{flow}\n");
    let scenario =
        scenario::parse(&text, "boxes.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let written = scenario::parse(&scenario::to_toml(&scenario), "written.toml", &[]).unwrap();
    assert_eq!(written, scenario);
    let result = run(&scenario, &RunOptions::default()).unwrap();
    let checked = run(&scenario, &RunOptions { check_wire: true, ..RunOptions::default() }).unwrap();
    assert_eq!(checked.digest, result.digest);
    result
}

fn at(node: &str, does: &str) -> String {
    format!("\n[[middlebox]]\nnode = \"{node}\"\ndoes = {{ {does} }}\n")
}

fn nat(node: &str, inside: &str) -> String {
    format!("\n[[middlebox]]\nnode = \"{node}\"\nfrom = [\"{inside}\"]\ndoes = {{ kind = \"nat\" }}\n")
}

const MPTCP: &str = "protocol = \"mptcp\"\npaths = \"fullmesh\"\ninitial_path = \"wifi\"";

fn only(result: &RunResult) -> &FlowResult {
    let [flow] = &result.flows[..] else { panic!("{:?}", result.flows) };
    flow
}

/// The number of paths that carried data first.
fn used(flow: &FlowResult) -> usize {
    flow.paths.iter().filter(|path| path.goodput_bps > 1e6).count()
}

#[test]
fn path_that_strips_syn_options_is_not_used() {
    let result = outcome(MPTCP, &at("N2", "kind = \"strip-options\", data = false"));
    let flow = only(&result);
    assert!((used(flow), flow.fallback) == (1, false) && flow.goodput_bps > 9e6, "{flow:?}");
    assert!(result.middleboxes[0].changed > 0);
    assert_eq!((&*result.middleboxes[0].node, &*result.middleboxes[0].kind), ("N2", "strip-options"));
}

#[test]
fn stripped_first_path_causes_plain_tcp() {
    let result = outcome(MPTCP, &at("N1", "kind = \"strip-options\""));
    let flow = only(&result);
    assert!(flow.fallback && flow.goodput_bps > 9e6, "{flow:?}");
}

#[test]
fn options_lost_after_handshake_lose_no_byte() {
    for node in ["N1", "N2"] {
        let file = format!("{MPTCP}\nworkload = {{ kind = \"file\", size = \"4 MB\" }}");
        let result = outcome(&file, &at(node, "kind = \"strip-options\", syn = false"));
        assert_eq!(only(&result).delivered_bytes, 4_000_000, "{node}: {:?}", only(&result));
    }
}

#[test]
fn dropped_syns_leave_plain_tcp_or_one_path() {
    let result = outcome(MPTCP, &at("N1", "kind = \"drop-syn\""));
    let flow = only(&result);
    assert!(flow.fallback && flow.goodput_bps > 5e6, "{flow:?}");
    assert!(result.middleboxes[0].dropped >= 2, "{:?}", result.middleboxes);
    let result = outcome(MPTCP, &at("N2", "kind = \"drop-syn\", capable = false"));
    assert_eq!((used(only(&result)), only(&result).fallback), (1, false));
}

#[test]
fn split_or_merged_segments_arrive_whole() {
    for does in ["kind = \"split\", size = 300", "kind = \"merge\", size = 1400, wait = \"5 ms\""] {
        for checksum in [false, true] {
            let flow = format!(
                "{MPTCP}\nmtu = 600\ndss_checksum = {checksum}\nworkload = {{ kind = \"file\", size = \"4 MB\" }}"
            );
            let result = outcome(&flow, &at("N1", does));
            assert_eq!(only(&result).delivered_bytes, 4_000_000, "{does} {checksum}: {:?}", only(&result));
            // If mappings are lost, the path is soon abandoned.
            let least = if does.contains("split") { 500 } else { 5 };
            assert!(result.middleboxes[0].changed > least, "{:?}", result.middleboxes);
        }
    }
}

#[test]
fn connections_from_behind_a_nat_work() {
    for direction in ["forward", "reverse", "both"] {
        let flow = format!("{MPTCP}\ndirection = \"{direction}\"");
        let result = outcome(&flow, &(nat("N1", "wifi") + &nat("N2", "cell")));
        let flow = only(&result);
        let names: Vec<_> =
            flow.paths.iter().map(|path| (&path.name, path.goodput_bps, &path.links)).collect();
        assert_eq!(used(flow), 2, "{direction}: {names:?}");
        assert!(flow.goodput_bps > 17e6 && !flow.fallback, "{direction}: {flow:?}");
        let passed: Vec<_> =
            result.middleboxes.iter().map(|seen| (seen.changed > 1_000, seen.dropped)).collect();
        assert_eq!(passed, [(true, 0), (true, 0)], "{direction}");
    }
    for protocol in ["tcp", "udp"] {
        let workload = if protocol == "udp" {
            "{ kind = \"rate\", rate = \"1 Mbit/s\" }"
        } else {
            "{ kind = \"saturated\" }"
        };
        let flow = format!("protocol = \"{protocol}\"\nworkload = {workload}");
        assert!(only(&outcome(&flow, &nat("N1", "wifi"))).goodput_bps > 9e5, "{protocol}");
    }
}

#[test]
fn host_behind_a_nat_is_not_reachable() {
    // In this scenario the server opens the connection.
    let flow = MPTCP.replace("initial_path = \"wifi\"", "");
    let text = format!(
        "{TWO_WAYS}{}\n[[flow]]\nname = \"F\"\nfrom = \"S\"\nto = \"C\"\n{flow}\n",
        nat("N1", "wifi") + &nat("N2", "cell")
    );
    let scenario = scenario::parse(&text, "boxes.toml", &[]).unwrap();
    let result = run(&scenario, &RunOptions::default()).unwrap();
    assert_eq!(only(&result).delivered_bytes, 0);
    assert!(result.middleboxes.iter().any(|seen| seen.dropped > 0));
}

#[test]
fn errors_of_narrow_links_pass_a_nat() {
    // Packets of the server are too large for the client's link, and the error is translated on its way back.
    let narrow = TWO_WAYS.replace("between = [\"N1\", \"R\"]", "between = [\"N1\", \"R\"]\nmtu = 1200");
    let flow = "[[flow]]\nname = \"F\"\nfrom = \"C\"\nto = \"S\"\nprotocol = \"tcp\"\ninitial_path = \"wifi\"\nmtu = 1500";
    for direction in ["forward", "reverse"] {
        let text = format!("{narrow}{}\n{flow}\ndirection = \"{direction}\"\n", nat("N1", "wifi"));
        let scenario = scenario::parse(&text, "boxes.toml", &[]).unwrap();
        let result = run(&scenario, &RunOptions::default()).unwrap();
        assert!(only(&result).goodput_bps > 8e6, "{direction} {:?}", only(&result));
    }
}

#[test]
fn plain_sctp_does_not_pass_a_nat() {
    let result = outcome("protocol = \"sctp\"", &(nat("N1", "wifi") + &nat("N2", "cell")));
    assert_eq!(only(&result).delivered_bytes, 0);
}

#[test]
fn shaper_limits_each_flow() {
    let shaper = at("R", "kind = \"shaper\", rate = \"2 Mbit/s\"");
    // Each of the two subflows gets the shaper's rate.
    let result = outcome(MPTCP, &shaper);
    assert!((3.4e6..4e6).contains(&only(&result).goodput_bps), "{:?}", only(&result).goodput_bps);
    let result = outcome("protocol = \"tcp\"", &shaper);
    assert!((1.7e6..2e6).contains(&only(&result).goodput_bps), "{:?}", only(&result).goodput_bps);
    let udp = "protocol = \"udp\"\nworkload = { kind = \"rate\", rate = \"5 Mbit/s\" }";
    let result = outcome(udp, &shaper);
    let flow = only(&result);
    assert!((1.7e6..2e6).contains(&flow.goodput_bps) && result.middleboxes[0].dropped > 1_000, "{flow:?}");
}

/// A firewall at a node, whose inside is that link.
fn firewall(node: &str, inside: &str, answer: &str) -> String {
    format!(
        "\n[[middlebox]]\nnode = \"{node}\"\nfrom = [\"{inside}\"]\ndoes = {{ kind = \"firewall\", answer = \"{answer}\" }}\n"
    )
}

#[test]
fn join_passes_a_firewall_from_inside_only() {
    for answer in ["drop", "reset", "icmp"] {
        // The inside of the first is the client's side, that of the second the server's.
        let result = outcome(MPTCP, &firewall("N2", "cell", answer));
        let flow = only(&result);
        assert!((used(flow), flow.fallback) == (2, false) && flow.goodput_bps > 17e6, "{answer}: {flow:?}");
        assert_eq!((result.middleboxes[0].dropped, result.middleboxes[0].changed), (0, 0));
        let result = outcome(MPTCP, &firewall("N2", "south", answer));
        let flow = only(&result);
        assert!((used(flow), flow.fallback) == (1, false) && flow.goodput_bps > 9e6, "{answer}: {flow:?}");
        assert!(result.middleboxes[0].dropped > 0, "{answer}");
    }
}

#[test]
fn connection_from_outside_meets_a_firewall() {
    for (answer, state) in [("drop", "opening"), ("reset", "refused"), ("icmp", "opening")] {
        let result = outcome("protocol = \"tcp\"\ninitial_path = \"wifi\"", &firewall("N1", "north", answer));
        let flow = only(&result);
        assert_eq!((flow.delivered_bytes, &*flow.state), (0, state), "{answer}");
    }
    // SCTP, and datagrams of an application that is not answered, make state from inside.
    for protocol in ["sctp", "udp\"\nworkload = { kind = \"rate\", rate = \"1 Mbit/s\" }\n#\""] {
        for (inside, passes) in [("wifi", true), ("north", false)] {
            let flow = format!("protocol = \"{protocol}\"");
            let boxes = firewall("N1", inside, "drop") + &firewall("N2", "cell", "drop");
            let result = outcome(&flow, &boxes);
            let is_first = result.middleboxes[0].dropped == 0;
            assert_eq!(is_first, passes, "{protocol} {inside}: {:?}", result.middleboxes);
        }
    }
}

#[test]
fn host_without_mptcp_falls_back() {
    for (from, to) in [(true, true), (true, false), (false, true), (false, false)] {
        let host = |name: &str, mptcp: bool| format!("\n[[host]]\nname = \"{name}\"\nmptcp = {mptcp}\n");
        for direction in ["forward", "reverse"] {
            let flow = format!("{MPTCP}\ndirection = \"{direction}\"");
            let result = outcome(&flow, &(host("C", from) + &host("S", to)));
            let flow = only(&result);
            let expected = if from && to { (2, false) } else { (1, true) };
            assert_eq!((used(flow), flow.fallback), expected, "{from} {to} {direction}: {flow:?}");
            let goodput = expected.0 as f64 * 10e6;
            assert!((0.85 * goodput..goodput).contains(&flow.goodput_bps), "{:?}", flow.goodput_bps);
        }
    }
}

/// A middlebox of any kind, in the notation of scenarios.
fn any_middlebox() -> impl Strategy<Value = (String, bool)> {
    let flags = any::<[bool; 6]>();
    let size = 1_u32..1_600;
    (0..7_u8, flags, size, 1_u32..30).prop_map(|(kind, [mptcp, timestamps, sack, scale, syn, data], size, n)| {
        let does = match kind {
            0 => format!(
                "kind = \"strip-options\", mptcp = {mptcp}, timestamps = {timestamps}, sack = {sack}, window_scale = {scale}, \
                 syn = {syn}, data = {data}"
            ),
            1 => format!("kind = \"drop-syn\", capable = {mptcp}, join = {sack}"),
            2 => format!("kind = \"split\", size = {}", size.max(100)),
            3 => format!("kind = \"merge\", size = {}, wait = \"{n} ms\"", size + 1),
            4 => format!("kind = \"shaper\", rate = \"{n} Mbit/s\", limit = \"{} packets\"", n + 40),
            5 => format!("kind = \"nat\", timeout = \"{} s\"", 60 * n),
            _ => format!("kind = \"firewall\", tcp_timeout = \"{} s\", limit = {n}", 60 * n),
        };
        (does, kind >= 5)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Checks that every byte arrives, or that the result reports a failure.
    #[test]
    fn lost_data_is_always_reported(
        first in any_middlebox(),
        second in any_middlebox(),
        third in any_middlebox(),
        reverse in any::<bool>(),
        multipath in any::<bool>(),
        checksum in any::<bool>(),
        timestamps in any::<bool>(),
    ) {
        let nodes = [("N1", "wifi", first), ("N2", "cell", second), ("R", "north\", \"south", third)];
        let boxes: Vec<_> = nodes
            .into_iter()
            .map(|(node, inside, (does, is_nat))| {
                let from = if is_nat { format!("from = [\"{inside}\"]\n") } else { String::new() };
                format!("\n[[middlebox]]\nnode = \"{node}\"\n{from}does = {{ {does} }}\n")
            })
            .collect();
        let boxes = boxes.concat();
        let protocol = if multipath {
            format!("{MPTCP}\ndss_checksum = {checksum}")
        } else {
            "protocol = \"tcp\"".to_owned()
        };
        let direction = if reverse { "reverse" } else { "forward" };
        let flow = format!(
            "{protocol}\ndirection = \"{direction}\"\ntimestamps = {timestamps}\n\
             workload = {{ kind = \"file\", size = \"300 kB\" }}"
        );
        let result = outcome_after("600 s", &flow, &boxes);
        let flow = only(&result);
        let ended_badly = !matches!(&*flow.state, "open" | "closed" | "opening");
        // If mappings are lost repeatedly, only isolated segments arrive, one per timeout.
        let merged = boxes.contains("merge") && multipath && flow.delivered_bytes > 30_000;
        prop_assert!(flow.delivered_bytes == 300_000 || ended_badly || merged, "{boxes}\n{flow:?}");
    }
}
