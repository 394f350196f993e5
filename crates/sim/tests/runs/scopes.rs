//! Links with link-local addresses (RFC 4007; Becke2014 §5.2.3.2, figure 5.10).

use anabranch_sim::RunOptions;
use anabranch_sim::scenario::{self, result::FlowResult};
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

/// Two hosts, joined by three cables.
static TWO_CABLES: LazyText = LazyText::new(|| {
    ScenarioText::new("title = 'cables', duration = '12 s', warmup = '2 s', ip = 'v6'")
        .link_defaults("rate = '4 Mbit/s', delay = '5 ms'")
        .link("one", ["C", "R"], "scope = 'link-local'")
        .link("two", ["C", "R"], "scope = 'link-local'")
        .link("three", ["C", "R"], "scope = 'link-local'")
});

fn text(flow: &str) -> String {
    format!("{TWO_CABLES}[[flow]]\nfrom = \"C\"\nto = \"R\"\nreceive_buffer = \"4 MB\"\n{flow}\n")
}

fn run(text: &str) -> FlowResult {
    let scenario =
        scenario::parse(text, "cables.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let written = scenario::parse(&scenario::to_toml(&scenario), "written.toml", &[]).unwrap();
    assert_eq!(written, scenario);
    let options = RunOptions { check_wire: true, ..RunOptions::default() };
    anabranch_sim::run(&scenario, &options).unwrap().flows.remove(0)
}

/// The links of the paths that carried data.
fn used(flow: &FlowResult) -> Vec<&str> {
    let carried = flow.paths.iter().filter(|path| path.goodput_bps > 1e6);
    carried.flat_map(|path| path.links.iter().map(String::as_str)).collect()
}

#[test]
fn cmt_sctp_keeps_to_link_local_handshake_path() {
    for first in ["one", "three"] {
        for direction in ["forward", "reverse"] {
            let flow = run(&text(&format!(
                "protocol = \"cmt-sctp\"\ninitial_path = \"{first}\"\ndirection = \"{direction}\""
            )));
            assert_eq!(used(&flow), [first], "{direction}");
            assert!((3.5e6..4e6).contains(&flow.goodput_bps), "{}", flow.goodput_bps);
        }
    }
}

#[test]
fn address_pairs_identify_the_interface() {
    for protocol in ["protocol = \"mptcp\"", "protocol = \"cmt-sctp\"\npaths = \"fullmesh\""] {
        let flow = run(&text(protocol));
        assert_eq!(used(&flow).len(), 3, "{protocol}: {:?}", used(&flow));
        assert!(flow.goodput_bps > 10e6, "{protocol}: {}", flow.goodput_bps);
    }
}

#[test]
fn global_addresses_make_every_destination_a_path() {
    let flow = run(&text("protocol = \"cmt-sctp\"").replace("link-local", "global"));
    assert_eq!(used(&flow), ["one", "two", "three"]);
}

#[test]
fn addresses_have_the_link_local_prefix() {
    let flow = run(&text("protocol = \"tcp\"\ninitial_path = \"two\""));
    assert_eq!(flow.paths[0].links, ["two"]);
    assert!(flow.goodput_bps > 3.5e6);
}

#[test]
fn errors_name_the_problem() {
    let refused = |text: &str| scenario::parse(text, "cables.toml", &[]).unwrap_err().to_string();
    let v4 = refused(&text("protocol = \"tcp\"").replace("\"v6\"", "\"v4\""));
    assert!(v4.contains("scope of link \"one\" is \"link-local\", which needs IPv6"), "{v4}");
    let forwarded = text("protocol = \"tcp\"").replacen("[\"C\", \"R\"]", "[\"C\", \"N\"]", 1);
    let forwarded = refused(&forwarded);
    assert!(forwarded.contains("but \"N\" is a router"), "{forwarded}");
}
