//! Main routing tables, and SYNs that are retransmitted on other address pairs (Becke2014 §5.1.2.1, figures 5.4 and 5.5b).

use anabranch_sim::RunOptions;
use anabranch_sim::scenario::{self, result::RunResult};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

/// A client and a server with two links each, of which only C1 and R1, and C2 and R2, are connected.
static DISJOINT: LazyText = LazyText::new(|| {
    ScenarioText::new("title = 'disjoint', duration = '10 s'")
        .link_defaults("rate = '10 Mbit/s', delay = '5 ms'")
        .link("C1", ["C", "N1"], "")
        .link("R1", ["N1", "R"], "")
        .link("C2", ["C", "N2"], "")
        .link("R2", ["N2", "R"], "")
});

fn run(host: &str, flow: &str) -> RunResult {
    run_on(&DISJOINT, host, flow)
}

fn run_on(links: &str, host: &str, flow: &str) -> RunResult {
    let text = format!("{links}{host}\n[[flow]]\nfrom = \"C\"\nto = \"R\"\n{flow}\n");
    let scenario =
        scenario::parse(&text, "routing.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let written = scenario::parse(&scenario::to_toml(&scenario), "written.toml", &[]).unwrap();
    assert_eq!(written, scenario);
    let options = RunOptions { check_wire: true, ..RunOptions::default() };
    anabranch_sim::run(&scenario, &options).unwrap()
}

const TABLE: &str = "[[host]]\nname = \"C\"\ndefault_route = \"C1\"";

#[test]
fn unbound_flow_leaves_by_the_default_route() {
    for protocol in ["tcp", "mptcp"] {
        let to = |link| run(TABLE, &format!("protocol = \"{protocol}\"\ninitial_path = \"{link}\""));
        let (reached, lost) = (to("R1"), to("R2"));
        assert!(reached.flows[0].goodput_bps > 8e6, "{protocol}");
        // A handshake takes a round trip of 20 ms and the transmission of SYN and SYN/ACK.
        assert!(reached.flows[0].setup_s.is_some_and(|s| (0.02..0.021).contains(&s)), "{protocol}");
        assert_eq!((lost.flows[0].setup_s, lost.flows[0].delivered_bytes), (None, 0), "{protocol}");
        assert_eq!(lost.flows[0].state, "opening");
        // SYNs at 0, 1, 3 and 7 s.
        assert_eq!(lost.unreachable_packets, Some(4), "{protocol}");
    }
}

#[test]
fn route_or_bound_address_overrides_default_route() {
    let routed = format!("{TABLE}\nroutes = [[\"R2\", \"C2\"]]");
    for (table, path) in [(routed.as_str(), "\"R2\""), (TABLE, "[\"C2\", \"R2\"]"), ("", "\"R2\"")] {
        let flow = &run(table, &format!("protocol = \"tcp\"\ninitial_path = {path}")).flows[0];
        assert!(flow.goodput_bps > 8e6, "{table} {path}");
        assert_eq!(flow.paths[0].links, ["C2", "R2"]);
    }
}

#[test]
fn syn_on_next_pair_avoids_the_default_route() {
    let flow = |paths: &str| {
        let settings = "protocol = \"mptcp\"\ninitial_path = \"R2\"\nsyn_retransmission = \"multipath\"";
        run(TABLE, &format!("{settings}\npaths = \"{paths}\"")).flows.remove(0)
    };
    let disjoint = flow("fullmesh");
    // One timeout of 1 s, then a round trip of 20 ms.
    assert!(disjoint.setup_s.is_some_and(|s| (1.02..1.021).contains(&s)), "{:?}", disjoint.setup_s);
    let mut used: Vec<_> =
        disjoint.paths.iter().map(|path| (path.links.concat(), path.goodput_bps > 6e6)).collect();
    used.sort();
    assert_eq!(used, [("C1R1".to_owned(), true), ("C2R2".to_owned(), true)]);
    assert_eq!(flow("default").paths.len(), 1);
}

#[test]
fn later_connection_begins_on_working_pair() {
    let flow = |name: &str, start: &str, more: &str| {
        format!(
            "name = \"{name}\"\nprotocol = \"mptcp\"\ninitial_path = \"R2\"\nstart = \"{start}\"\n{more}\n\
             [[flow]]\nfrom = \"C\"\nto = \"R\"\n"
        )
    };
    let multipath = "syn_retransmission = \"multipath\"";
    let setups = |second: &str| {
        let flows = flow("first", "0 s", multipath) + &flow("second", "3 s", second);
        let last = flows.strip_suffix("[[flow]]\nfrom = \"C\"\nto = \"R\"\n").unwrap();
        run(TABLE, last).flows.into_iter().map(|flow| flow.setup_s).collect::<Vec<_>>()
    };
    let at_once = |setup: Option<f64>| setup.is_some_and(|s| s < 0.5);
    let remembered = setups(multipath);
    assert!(remembered[0].is_some_and(|s| (1.02..1.021).contains(&s)), "{remembered:?}");
    assert!(at_once(remembered[1]), "{remembered:?}");
    // Without the option the flow retransmits SYNs only on its own pair, which is not connected.
    assert_eq!(setups("")[1], None);
    // Only one pair is tried: the one that worked.
    let limited = setups(&format!("{multipath}\nsyn_pairs = 1"));
    assert!(at_once(limited[1]), "{limited:?}");
}

#[test]
fn tried_pairs_are_limited() {
    let settings =
        "protocol = \"mptcp\"\ninitial_path = \"R2\"\nsyn_retransmission = \"multipath\"\nsyn_pairs = 1";
    assert_eq!(run(TABLE, settings).flows[0].setup_s, None);
}

#[test]
fn redundant_table_changes_nothing() {
    let flow = "protocol = \"mptcp\"\ninitial_path = \"R1\"";
    assert_eq!(run(TABLE, flow).digest, run("", flow).digest);
}

/// A client and a server with two links each, all to one router.
fn crossed_links() -> String {
    DISJOINT.replace("N1", "N").replace("N2", "N")
}

const MAIN_ONLY: &str = "[[host]]\nname = \"C\"\ndefault_route = \"C1\"\npolicy_routing = false";

#[test]
fn main_table_applies_without_policy_routing() {
    for (protocol, more) in
        [("mptcp", "paths = \"fullmesh\""), ("cmt-sctp", ""), ("mptcp", "paths = \"disjoint\"")]
    {
        let run = |tables: &str, direction: &str| {
            let flow = format!("protocol = \"{protocol}\"\n{more}\ndirection = \"{direction}\"");
            run_on(&crossed_links(), tables, &flow).flows.remove(0)
        };
        // Both outgoing subflows share one link, but not in the opposite direction: the server answers to
        // both addresses.
        let (set_up, not, back) = (run("", "forward"), run(MAIN_ONLY, "forward"), run(MAIN_ONLY, "reverse"));
        assert!(set_up.goodput_bps > 17e6, "{protocol} {more} {}", set_up.goodput_bps);
        assert!((8.5e6..10e6).contains(&not.goodput_bps), "{protocol} {more} {}", not.goodput_bps);
        assert!(back.goodput_bps > 17e6, "{protocol} {more} {}", back.goodput_bps);
        assert!(not.paths.len() >= 2, "{protocol} {more}");
        assert!(not.paths.iter().all(|path| path.links[0] == "C1"), "{protocol} {more}");
        // With a route to one of the server's addresses over the other link, both carry data again.
        let routed = format!("{MAIN_ONLY}\nroutes = [[\"R2\", \"C2\"]]");
        assert!(run(&routed, "forward").goodput_bps > 17e6, "{protocol} {more}");
    }
}

#[test]
fn server_without_policy_routing_uses_one_link() {
    let table = MAIN_ONLY.replace("\"C\"", "\"R\"").replace("C1", "R1");
    let sends = |direction: &str| {
        let flow = format!("protocol = \"mptcp\"\ndirection = \"{direction}\"");
        run_on(&crossed_links(), &table, &flow).flows.remove(0).goodput_bps
    };
    assert!(sends("forward") > 17e6 && (8.5e6..10e6).contains(&sends("reverse")));
}

#[test]
fn pairs_without_a_main_route_are_omitted() {
    let flow = &run(MAIN_ONLY, "protocol = \"mptcp\"\npaths = \"fullmesh\"").flows[0];
    // Both addresses of the client send over C1, to the only address of the server that C1 reaches. Packets
    // of the server to the address at C2 leave by R1 into a network without a route to it.
    assert_eq!(flow.paths.len(), 1);
    assert_eq!(flow.paths[0].links, ["C1", "R1"]);
}

#[test]
fn table_without_connection_is_refused() {
    let wrong = |host: &str, flow: &str| {
        let text = format!("{DISJOINT}{host}\n[[flow]]\nname = \"F\"\nfrom = \"C\"\nto = \"R\"\n{flow}\n");
        scenario::parse(&text, "routing.toml", &[]).expect_err("the scenario is invalid").to_string()
    };
    let by_path = wrong(MAIN_ONLY, "protocol = \"tcp\"\ninitial_path = \"R2\"");
    assert!(
        by_path.contains("flow \"F\": no route connects \"C\" with \"R\" in both directions"),
        "{by_path}"
    );
    assert!(by_path.contains("since all packets of \"C\" leave by its [[host]] table"), "{by_path}");
    let both = format!("{MAIN_ONLY}\n{}", MAIN_ONLY.replace("\"C\"", "\"R\"").replace("C1", "R2"));
    let crossed = wrong(&both, "protocol = \"tcp\"\ninitial_path = \"C1\"");
    assert!(crossed.contains("\"C\" or \"R\""), "{crossed}");
    let stranger = wrong(
        "[[host]]\nname = \"N1\"\ndefault_route = \"C1\"\npolicy_routing = false",
        "protocol = \"tcp\"",
    );
    assert!(stranger.contains("where no flow begins or ends"), "{stranger}");
}
