//! Versions of IP and addresses of links.

use super::super::{Scenario, parse, to_toml};
use crate::model::{IpVersion, IpVersions, SharedAddress};
use crate::result::PathNames;
use anabranch_netem::{Interface, InterfaceAddress};

const TEXT: &str = r#"
    duration = "1 s"
    ip = "both"
    [link_defaults]
    rate = "10 Mbit/s"
    [[link]]
    name = "wlan"
    between = ["A", "R"]
    addresses = [2, 1]
    [[link]]
    name = "mobile"
    between = ["A", "R"]
    ip = "v4"
    [[link]]
    name = "core"
    between = ["R", "B"]
    [[link]]
    name = "spare"
    between = ["R", "B"]
    address_of = "core"
    [[flow]]
    name = "F"
    from = "A"
    to = "B"
    protocol = "mptcp"
    initial_path = ["wlan:v6", "core:v6"]
    [[flow]]
    name = "G"
    from = "B"
    to = "A"
    protocol = "sctp"
    initial_path = "wlan:v6"
    [[event]]
    at = "0.5 s"
    flow = "G"
    set = { primary = "wlan:v4" }
"#;

fn scenario() -> Scenario {
    parse(TEXT, "test", &[]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn keys_of_addresses_round_trip() {
    let scenario = scenario();
    let [wlan, mobile, _, spare] = &scenario.links[..] else { panic!("four links") };
    assert_eq!((wlan.ip, wlan.addresses), (None, [2, 1]));
    assert_eq!(mobile.ip, Some(IpVersions::V4));
    assert_eq!(spare.address_of, Some(SharedAddress { link: 2, end: 1 }));
    assert_eq!(scenario.flows[0].initial_version, Some(IpVersion::V6));
    assert_eq!(scenario.used_versions(), IpVersions::Both);
    assert_eq!(parse(&to_toml(&scenario), "again", &[]).unwrap(), scenario);
}

#[test]
fn pairs_are_within_a_version() {
    let scenario = scenario();
    let mut network = scenario.network().unwrap();
    let name = |address| scenario.address_name(address);
    let pairs: Vec<_> = network.connected_pairs(0).map(|pair| pair.map(name).join(" ")).collect();
    let expected =
        ["wlan:v4 core:v4", "wlan:v4#2 core:v4", "wlan:v6 core:v6", "wlan:v6#2 core:v6", "mobile core:v4"];
    assert_eq!(pairs, expected);
    let first = scenario.first_pair(&mut network, (0, &scenario.flows[0]));
    assert_eq!(first.map(name), ["wlan:v6", "core:v6"]);
}

#[test]
fn path_names_gain_the_version_where_needed() {
    let scenario = scenario();
    let address = |link, end, version, number| {
        let interface = Interface::new(link, end);
        scenario.address(InterfaceAddress { interface, version, number })
    };
    let (v4, v6) = (IpVersion::V4, IpVersion::V6);
    let mut names = PathNames::default();
    let mut name = |at, [local, remote]: [_; 2]| names.of(at, &scenario, [local, remote]).to_owned();
    assert_eq!(name(0, [address(0, 0, v4, 0), address(2, 1, v4, 0)]), "wlan>core:v4");
    assert_eq!(name(1, [address(0, 0, v6, 0), address(2, 1, v6, 0)]), "wlan>core:v6");
    assert_eq!(name(2, [address(0, 0, v6, 1), address(2, 1, v6, 0)]), "wlan>core:v6#2");
    assert_eq!(name(3, [address(1, 0, v4, 0), address(2, 1, v4, 0)]), "mobile>core");
}
