//! Gateways of hosts, and source routes at routers.

use super::super::model::*;
use super::super::{parse, to_toml};
use anabranch_middlebox::source_route::SourceRoutes;
use anabranch_netem::{Interface, InterfaceAddress};

/// A host A at the router M, which two routers connect with B's router, and a flow.
const MESH: &str = "duration = \"1 s\"\n[link_defaults]\nrate = \"1 Mbit/s\"\n\
    [[link]]\nname = \"a\"\nbetween = [\"A\", \"M\"]\n[[link]]\nname = \"b\"\nbetween = [\"I\", \"B\"]\n\
    [[link]]\nname = \"m1\"\nbetween = [\"M\", \"G1\"]\n[[link]]\nname = \"m2\"\nbetween = [\"M\", \"G2\"]\n\
    [[link]]\nname = \"u1\"\nbetween = [\"G1\", \"I\"]\n[[link]]\nname = \"u2\"\nbetween = [\"G2\", \"I\"]\n\
    [[flow]]\nfrom = \"A\"\nto = \"B\"\nprotocol = \"mptcp\"\npaths = \"binder\"\n";

fn with(rest: &str, sets: &[(&str, &str)]) -> Result<Scenario, String> {
    let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let parsed = parse(&format!("{MESH}{rest}"), "s.toml", &sets);
    parsed.map_err(|error| {
        assert!(error.line.is_some() || !sets.is_empty(), "{error}");
        error.to_string()
    })
}

fn gateways(list: &str) -> String {
    format!("[[host]]\nname = \"A\"\ngateways = {list}\n")
}

#[test]
fn gateways_are_parsed_and_round_trip() {
    let routers = "[[router]]\nname = \"G1\"\nsource_routes = \"forward\"\n\
                   [[router]]\nname = \"G2\"\nsource_routes = \"ignore\"\n[[router]]\nname = \"M\"\n";
    let text = format!("{}{routers}", gateways("[\"G1\", [\"M\", \"G2\"]]"));
    let scenario = with(&text, &[]).unwrap();
    let names = |hops: &[&str]| hops.iter().map(|&hop| hop.to_owned()).collect::<Vec<_>>();
    assert_eq!(scenario.hosts[0].gateways, [names(&["G1"]), names(&["M", "G2"])]);
    let policies: Vec<_> = scenario.routers.iter().map(|router| router.source_routes).collect();
    assert_eq!(policies, [SourceRoutes::Forward, SourceRoutes::Ignore, SourceRoutes::Drop]);
    let written = to_toml(&scenario);
    assert_eq!(parse(&written, "again.toml", &[]).as_ref(), Ok(&scenario));
    assert_eq!((written.matches("source_routes").count(), written.matches("gateways").count()), (2, 1));
}

#[test]
fn hops_have_the_nearest_addresses() {
    let scenario = with(&gateways("[\"G2\", [\"M\", \"G2\"], [\"I\", \"G2\"]]"), &[]).unwrap();
    let mut network = scenario.network().unwrap();
    let routes = scenario.source_routes(&mut network, (0, &scenario.flows[0])).unwrap();
    let addresses = |hops: &[InterfaceAddress]| {
        hops.iter().map(|hop| scenario.address(*hop).to_string()).collect::<Vec<_>>()
    };
    // G2 has the second address of link m2 (number 3) and the first one of u2 (number 5).
    assert_eq!(addresses(&routes[0].hops), ["10.0.0.14"]);
    assert_eq!(addresses(&routes[1].hops), ["10.0.0.2", "10.0.0.14"]);
    assert_eq!(addresses(&routes[2].hops)[1], "10.0.0.21");
    let links = |links: &[Interface]| {
        links.iter().map(|link| scenario.links[link.link()].name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(links(&routes[0].links), ["a", "m2", "u2", "b"]);
    assert_eq!(links(&routes[1].links), ["a", "m2", "u2", "b"]);
    assert_eq!(links(&routes[2].links)[3..], ["u2", "u2", "b"]);
}

#[test]
fn wrong_gateways_are_refused() {
    let ten: Vec<_> = (0..10).map(|hop| ["\"M\"", "\"G2\""][hop % 2]).collect();
    let nine = format!("[[{}]]", ten[1..].join(", "));
    assert!(with(&gateways(&nine), &[]).is_ok());
    for (rest, expected) in [
        (
            String::new(),
            "s.toml:26: paths of flow \"A-B\" is \"binder\", but host \"A\" has no gateways; add gateways = [\"name of a \
             router\"] to its [[host]]",
        ),
        (gateways("[]"), "host \"A\" has no gateways"),
        (
            gateways("[\"G3\"]"),
            "s.toml:29: gateways of host \"A\" name \"G3\", which no link leads to; did you mean \"G1\"?",
        ),
        (
            gateways("[\"G1\", \"B\"]"),
            "gateways of host \"A\" name \"B\", a node at the end of a flow, which does not forward; name a router",
        ),
        (
            format!("{}[[link]]\nname = \"z\"\nbetween = [\"G4\", \"G5\"]\n", gateways("[[\"M\", \"G4\"]]")),
            "s.toml:26: paths of flow \"A-B\" is \"binder\", but no route over IPv4 leads from \"M\" to \"G4\"; correct the \
             gateways of host \"A\", or the routes",
        ),
        (
            gateways("[[\"M\", \"M\", \"G1\"]]"),
            "s.toml:29: gateways of host \"A\" name \"M\" twice in succession; name it once",
        ),
        (gateways("[[]]"), "s.toml:29: gateways"),
        (gateways("\"G1\""), "s.toml:29: gateways"),
        (gateways("[1]"), "s.toml:29: gateways"),
        (gateways(&format!("[[{}]]", ten.join(", "))), "write from 1 to 9"),
        (
            format!("{}[[router]]\nname = \"G1\"\nsource_routes = \"yes\"\n", gateways("[\"G1\"]")),
            "s.toml:32: source_routes of [[router]] number 1 is \"yes\"; the valid values are forward, ignore, drop",
        ),
    ] {
        let error = with(&rest, &[]).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let one = gateways("[\"G1\"]");
    for (set, expected) in [
        (
            ("ip", "v6"),
            "s.toml:26: paths of flow \"A-B\" is \"binder\", which needs IPv4, and the flow begins over IPv6; set ip = \
             \"v4\" or \"both\", or choose another path manager",
        ),
        (
            ("flow.A-B.network_control", "1 s"),
            "s.toml:26: network_control of flow \"A-B\" excludes paths = \"binder\"",
        ),
        (("flow.A-B.scheduler", "nca"), "s.toml:26: scheduler of flow \"A-B\" is \"nca\""),
    ] {
        let error = with(&one, &[set]).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
