use super::super::endpoints::KernelEndpoint;
use super::super::routing::{DefaultRoute as Gateway, Link};
use super::*;
use crate::config::Config;

/// Configuration with both links as uplinks.
const BOTH: &str = "[[uplink]]\ninterface = \"w0\"\n[[uplink]]\ninterface = \"w1\"\n";

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn address(link: u32, text: &str) -> Address {
    Address { link, ip: ip(text), flags: 0, scope: 0 }
}

fn gateway(link: u32, via: Option<&str>, metric: u32) -> Gateway {
    let via = via.map(ip);
    let v4 = via.is_none_or(|via| via.is_ipv4());
    Gateway { v4, table: MAIN, next_hop: NextHop::Interface { link, via }, metric, source: None, protocol: 3 }
}

/// Creates the state of a machine with two links, each with an address and a gateway.
fn view() -> View {
    View {
        links: vec![Link::test(1, "w0", true, false), Link::test(2, "w1", true, false)],
        addresses: vec![address(1, "192.0.2.1"), address(2, "198.51.100.1")],
        gateways: vec![gateway(1, Some("192.0.2.254"), 100), gateway(2, Some("198.51.100.254"), 200)],
        ..View::default()
    }
}

fn planned(text: &str, view: &View, remembered: &Remembered) -> Plan {
    planned_with(text, view, remembered, &[])
}

fn planned_with(text: &str, view: &View, remembered: &Remembered, silent: &[&str]) -> Plan {
    let config = Config::parse(text, "uplinks.toml").expect("a valid file");
    let uplinks: Vec<_> = config.uplink.iter().map(|uplink| (uplink, uplink.usage)).collect();
    plan(&uplinks, 1100, view, remembered, &silent.iter().copied().map(ip).collect())
}

fn endpoints(plan: &Plan) -> Vec<String> {
    let shown = |endpoint: &Endpoint| {
        format!("{}%{}{}", endpoint.address, endpoint.link, if endpoint.backup { " backup" } else { "" })
    };
    plan.parts.endpoints.iter().map(shown).collect()
}

fn routes(plan: &Plan) -> Vec<String> {
    plan.parts.routes.iter().map(|route| route.command("add", &|link| format!("if{link}"))).collect()
}

#[test]
fn silent_uplink_has_no_endpoint_if_others_answer() {
    let silent = |silent: &[&str], view: &View| planned_with(BOTH, view, &Remembered::new(), silent);
    let all = planned(BOTH, &view(), &Remembered::new());
    let one = silent(&["192.0.2.1"], &view());
    assert_eq!(endpoints(&one), ["198.51.100.1%2"]);
    assert_eq!(one.states[&("w0".to_owned(), Some(ip("192.0.2.1")))], State::Silent);
    // Probes over the silent uplink continue, since its rules and its default route stay.
    assert_eq!((&one.open, &one.parts.rules, routes(&one)), (&all.open, &all.parts.rules, routes(&all)));
    assert_eq!(one.open, [(ip("192.0.2.1"), "w0".to_owned()), (ip("198.51.100.1"), "w1".to_owned())].into());
    // If probes over all uplinks have no answer, the cause may lie behind them, so all endpoints are kept.
    let mut there = view();
    there.installed = all.parts;
    assert_eq!(endpoints(&silent(&["192.0.2.1", "198.51.100.1"], &there)), ["192.0.2.1%1", "198.51.100.1%2"]);
}

#[test]
fn each_uplink_has_rules_routes_and_an_endpoint() {
    let plan = planned(BOTH, &view(), &Remembered::new());
    assert_eq!(endpoints(&plan), ["192.0.2.1%1", "198.51.100.1%2"]);
    let rules: Vec<_> = plan.parts.rules.iter().map(|rule| rule.command("add")).collect();
    assert_eq!(rules.len(), 4);
    assert_eq!(
        rules[0],
        "ip -4 rule add from 192.0.2.1 lookup main suppress_prefixlength 0 priority 600 protocol 198"
    );
    assert_eq!(rules[3], "ip -4 rule add from 198.51.100.1 lookup 1102 priority 601 protocol 198");
    assert_eq!(
        routes(&plan)[..2],
        [
            "ip -4 route add default via 192.0.2.254 dev if1 onlink table 1101 metric 1 proto 198",
            "ip -4 route add unreachable default table 1101 metric 2 proto 198"
        ]
    );
}

#[test]
fn link_without_carrier_is_unused_except_the_last() {
    let mut view = view();
    view.links[0] = Link::test(1, "w0", false, false);
    let first = planned(BOTH, &view, &Remembered::new());
    assert_eq!(endpoints(&first), ["198.51.100.1%2"]);
    assert_eq!((first.parts.rules.len(), first.parts.routes.len()), (4, 3));
    view.installed = first.parts;
    view.links[1] = Link::test(2, "w1", false, false);
    assert_eq!(endpoints(&planned(BOTH, &view, &Remembered::new())), ["198.51.100.1%2"]);
    // When the address is removed as well, no endpoint remains.
    view.addresses.pop();
    assert!(endpoints(&planned(BOTH, &view, &Remembered::new())).is_empty());
}

#[test]
fn missing_parts_are_reported() {
    let mut view = view();
    view.gateways.pop();
    let text = format!("{BOTH}[[uplink]]\ninterface = \"w2\"\n[[uplink]]\ninterface = \"w3\"\n");
    view.links.push(Link::test(3, "w2", true, false));
    let plan = planned(&text, &view, &Remembered::new());
    let state = |name: &str, address: Option<&str>| plan.states[&(name.to_owned(), address.map(ip))].clone();
    assert_eq!(state("w1", Some("198.51.100.1")), State::NoGateway);
    assert_eq!((state("w2", None), state("w3", None)), (State::NoAddress, State::Missing));
    assert!(plan.parts.rules.iter().all(|rule| rule.from == ip("192.0.2.1")));
}

#[test]
fn two_links_in_one_network_have_a_table_each() {
    let mut view = view();
    view.addresses[1] = address(2, "192.0.2.2");
    view.gateways[1] = gateway(2, Some("192.0.2.254"), 200);
    let plan = planned(BOTH, &view, &Remembered::new());
    assert_eq!(endpoints(&plan), ["192.0.2.1%1", "192.0.2.2%2"]);
    assert!(routes(&plan)[2].contains("via 192.0.2.254 dev if2 onlink table 1102"));
}

#[test]
fn point_to_point_link_needs_no_gateway() {
    let mut view = view();
    view.gateways.clear();
    view.links[0] = Link::test(1, "w0", true, true);
    let plan = planned(BOTH, &view, &Remembered::new());
    assert_eq!(endpoints(&plan), ["192.0.2.1%1"]);
    assert_eq!(routes(&plan)[0], "ip -4 route add default dev if1 table 1101 metric 1 proto 198");
}

#[test]
fn gateway_of_the_file_has_precedence() {
    let text = "[[uplink]]\ninterface = \"w0\"\ngateway = \"192.0.2.77\"\n";
    assert!(routes(&planned(text, &view(), &Remembered::new()))[0].contains("via 192.0.2.77 dev if1"));
    // An IPv4 gateway does not affect IPv6.
    let mut view = view();
    view.addresses.push(address(1, "2001:db8::1"));
    view.gateways.push(gateway(1, Some("fe80::1"), 1024));
    let plan = planned(text, &view, &Remembered::new());
    assert!(
        routes(&plan).iter().any(|route| route.contains("-6 route add default via fe80::1 dev if1 onlink"))
    );
}

#[test]
fn ipv6_address_is_the_one_the_kernel_selects() {
    let mut view = view();
    view.gateways.push(gateway(1, Some("fe80::1"), 1024));
    let flagged = |text: &str, flags: u32| Address { flags, ..address(1, text) };
    let link_local = Address { scope: 253, ..address(1, "fe80::2") };
    let tentative = flagged("2001:db8::5", 0x40);
    let old = flagged("2001:db8::3", Address::SECONDARY | Address::DEPRECATED);
    let temporary = flagged("2001:db8::4", Address::SECONDARY);
    view.addresses.extend([link_local, tentative, old, temporary, address(1, "2001:db8::6")]);
    assert_eq!(endpoints(&planned(BOTH, &view, &Remembered::new()))[2..], ["2001:db8::6%1"]);
    view.links[0].prefers_temporary = true;
    let plan = planned(BOTH, &view, &Remembered::new());
    assert_eq!(endpoints(&plan)[2..], ["2001:db8::4%1"]);
    // Two rules for each address make its packets use the link, in addition to the rules for IPv4.
    assert_eq!(plan.parts.rules.len(), 4 + 6);
}

#[test]
fn standby_uplinks_are_used_one_at_a_time() {
    let text = BOTH.replace("\"w1\"", "\"w1\"\nuse = \"standby\"")
        + "[[uplink]]\ninterface = \"w2\"\nuse = \"standby\"\n";
    let mut view = view();
    view.links.push(Link::test(3, "w2", true, true));
    view.addresses.push(address(3, "203.0.113.1"));
    assert_eq!(endpoints(&planned(&text, &view, &Remembered::new())), ["192.0.2.1%1"]);
    view.links[0] = Link::test(1, "w0", false, false);
    assert_eq!(endpoints(&planned(&text, &view, &Remembered::new())), ["198.51.100.1%2"]);
    view.links[1] = Link::test(2, "w1", false, false);
    assert_eq!(endpoints(&planned(&text, &view, &Remembered::new())), ["203.0.113.1%3"]);
}

#[test]
fn endpoints_of_other_programs_are_kept() {
    let mut view = view();
    let endpoint = Endpoint { address: ip("192.0.2.1"), link: 1, backup: true };
    view.endpoints.push(KernelEndpoint { id: 200, endpoint });
    let plan = planned(BOTH, &view, &Remembered::new());
    assert_eq!(endpoints(&plan), ["198.51.100.1%2"]);
    assert!(matches!(plan.states[&("w0".to_owned(), Some(ip("192.0.2.1")))], State::Foreign(_)));
    // Other programs already have eight endpoints, the kernel's maximum.
    let other = |last: u8| KernelEndpoint {
        id: last,
        endpoint: Endpoint { address: IpAddr::from([10, 0, 0, last]), ..endpoint },
    };
    view.endpoints.extend((1..=7).map(other));
    let plan = planned(BOTH, &view, &Remembered::new());
    assert!(endpoints(&plan).is_empty());
    assert_eq!(plan.states[&("w1".to_owned(), Some(ip("198.51.100.1")))], State::LimitReached);
}

#[test]
fn gateway_is_restored_after_link_was_down() {
    let (there, mut gone, mut remembered) = (view(), view(), Remembered::new());
    remember(&mut remembered, &there, &there);
    gone.links[0] = Link::test(1, "w0", false, false);
    gone.gateways.remove(0);
    remember(&mut remembered, &there, &gone);
    let back = View { gateways: gone.gateways.clone(), ..view() };
    remember(&mut remembered, &gone, &back);
    assert_eq!(endpoints(&planned(BOTH, &back, &remembered)).len(), 2);
    // A default route that was removed while the link was up is not restored.
    remember(&mut remembered, &there, &back);
    assert_eq!(endpoints(&planned(BOTH, &back, &remembered)).len(), 1);
    // When the link has lost its address, its stored default route is deleted.
    remember(&mut remembered, &there, &there);
    remember(&mut remembered, &there, &View { addresses: Vec::new(), ..there.clone() });
    assert!(remembered.is_empty());
}

#[test]
fn one_of_two_uplinks_with_the_same_address_is_used() {
    let mut view = view();
    view.addresses = vec![address(1, "192.168.8.100"), address(2, "192.168.8.100")];
    let shared = ip("192.168.8.100");
    let state = |plan: &Plan, name: &str| plan.states[&(name.to_owned(), Some(shared))].clone();
    let both = planned(BOTH, &view, &Remembered::new());
    assert_eq!(endpoints(&both), ["192.168.8.100%1"]);
    assert!(matches!(state(&both, "w0"), State::Used(..)));
    assert_eq!(state(&both, "w1"), State::SameAddress("w0".to_owned()));
    assert_eq!(both.parts.rules.len(), 2);
    assert_eq!(both.open[&shared], "w0");
    // When the first uplink goes down, the second is used.
    view.links[0] = Link::test(1, "w0", false, false);
    let second = planned(BOTH, &view, &Remembered::new());
    assert_eq!(endpoints(&second), ["192.168.8.100%2"]);
    assert_eq!(state(&second, "w0"), State::SameAddress("w1".to_owned()));
    // An uplink with the role "always" is used in preference to a backup.
    view.links[0] = Link::test(1, "w0", true, false);
    let backup = BOTH.replacen("\"w0\"", "\"w0\"\nuse = \"backup\"", 1);
    assert_eq!(endpoints(&planned(&backup, &view, &Remembered::new())), ["192.168.8.100%2"]);
}
