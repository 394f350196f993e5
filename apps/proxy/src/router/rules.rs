//! Generates the text of the rules that redirect the hosts' connections to the router: an nftables table, and a rule
//! and a route for each address family. `install` executes the text.

use super::names::NamedAddresses;
use crate::config::Router;
use crate::network::Network;
use core::fmt::Display;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Name of the nftables table.
pub const TABLE: &str = "anabranch-router";

/// Protocol number of the router's rules and routes (`FRA_PROTOCOL`, `RTA_PROTOCOL`), by which they are recognized; no
/// other program is known to use it.
pub const PROTOCOL: u32 = 197;

/// Priority of the rule. It comes after the kernel's rule for local addresses, and before rules that select an uplink
/// by the source address.
const PRIORITY: u32 = 500;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the option of the program `ip` for the family.
    pub const fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    /// Returns the loopback address of the family.
    pub const fn loopback(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        }
    }
}

/// Lists the address families that are enabled on this machine.
pub fn families() -> Vec<Family> {
    let off = std::fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6");
    let has_v6 = off.is_ok_and(|off| off.trim() == "0");
    if has_v6 { vec![Family::V4, Family::V6] } else { vec![Family::V4] }
}

/// Everything that the router installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Input of `nft -f` that creates or replaces the table.
    pub nft: String,
    /// Arguments of `ip` that add a rule or route, each with the arguments that remove it again.
    pub ip: Vec<[String; 2]>,
}

/// Returns the input of `nft -f` that removes the table. It is valid even if the table does not exist.
pub fn removal() -> String {
    format!("add table inet {TABLE}\ndelete table inet {TABLE}\n")
}

/// Generates the plan for these address families. `names` are the addresses of the names in `bypass` and `only`.
pub fn plan(router: &Router, families: &[Family], names: &NamedAddresses) -> Plan {
    let (mark, table) = (router.mark.as_ref(), router.table.as_ref());
    let ip = families.iter().map(|family| {
        let option = family.option();
        let rule =
            format!("priority {PRIORITY} fwmark {mark:#x}/{mark:#x} lookup {table} protocol {PROTOCOL}");
        let route = format!("local default dev lo table {table} proto {PROTOCOL}");
        [
            [format!("{option} route add {route}"), format!("{option} route del {route}")],
            [format!("{option} rule add {rule}"), format!("{option} rule del {rule}")],
        ]
    });
    Plan { nft: nft(router, families, names), ip: ip.flatten().collect() }
}

fn nft(router: &Router, families: &[Family], names: &NamedAddresses) -> String {
    let bypass = &router.bypass;
    let networks = |v4: bool| bypass.networks.iter().copied().filter(move |network| network.is_ipv4() == v4);
    let (networks4, networks6): (Vec<Network>, Vec<Network>) =
        (networks(true).collect(), networks(false).collect());
    let (names4, names6) = split(&names.bypass);
    let has_udp = router.via.as_ref().udp.is_some();
    let mut text = removal();
    let mut line = |line: &str| writeln!(text, "{line}").expect("writing to a String succeeds");
    line(&format!("table inet {TABLE} {{"));
    line(&set("networks4", "ipv4_addr", "flags interval\n\t\tauto-merge", &networks4));
    line(&set("networks6", "ipv6_addr", "flags interval\n\t\tauto-merge", &networks6));
    line(&set("names4", "ipv4_addr", "", &names4));
    line(&set("names6", "ipv6_addr", "", &names6));
    if router.only.is_some() {
        let [only4, only6] = only_servers(router, names);
        line(&set("only4", "ipv4_addr", "flags interval\n\t\tauto-merge", &only4));
        line(&set("only6", "ipv6_addr", "flags interval\n\t\tauto-merge", &only6));
    }
    line("\tchain prerouting {");
    line("\t\ttype filter hook prerouting priority mangle; policy accept;");
    let interfaces: Vec<_> = router.interfaces.as_ref().iter().map(|name| format!("\"{name}\"")).collect();
    line(&format!("\t\tiifname != {{ {} }} return", interfaces.join(", ")));
    line(if has_udp { "\t\tmeta l4proto != { tcp, udp } return" } else { "\t\tmeta l4proto != tcp return" });
    let divert = format!("meta mark set meta mark | {:#x} accept", router.mark.as_ref());
    let opens = "tcp flags & (fin | syn | rst | ack)";
    // SYNs do not match: for them the rule `tproxy` below applies, which also handles a connection of the router in
    // TIME-WAIT.
    line("\t\t# connections of the router");
    line(&format!("\t\t{opens} != syn socket transparent 1 {divert}"));
    line("\t\t# connections opened before the router started continue without it");
    line(&format!("\t\t{opens} != syn return"));
    line("\t\tfib daddr type local return");
    if has_udp {
        line("\t\tmeta l4proto udp fib daddr type != unicast return");
    }
    for rule in ["ip daddr @networks4", "ip6 daddr @networks6", "ip daddr @names4", "ip6 daddr @names6"] {
        line(&format!("\t\t{rule} return"));
    }
    if !bypass.ports.is_empty() {
        let header = if has_udp { "th" } else { "tcp" };
        line(&format!("\t\t{header} dport {{ {} }} return", list(&bypass.ports)));
    }
    if router.only.is_some() {
        line("\t\tip daddr != @only4 return");
        line("\t\tip6 daddr != @only6 return");
    }
    line("\t\t# without a listener, packets are forwarded as usual");
    for family in families {
        let (name, kind) = match family {
            Family::V4 => ("ipv4", "ip to 127.0.0.1"),
            Family::V6 => ("ipv6", "ip6 to [::1]"),
        };
        for protocol in if has_udp { &["tcp", "udp"][..] } else { &["tcp"] } {
            let port = router.port;
            line(&format!("\t\tmeta nfproto {name} meta l4proto {protocol} tproxy {kind}:{port} {divert}"));
        }
    }
    line("\t}");
    line("}");
    text
}

/// Returns the elements of the sets `only4` and `only6`.
fn only_servers(router: &Router, names: &NamedAddresses) -> [Vec<String>; 2] {
    let networks =
        router.only.iter().flat_map(|only| &only.as_ref().networks).map(|network| *network.as_ref());
    let (networks4, networks6): (Vec<Network>, Vec<Network>) = networks.partition(Network::is_ipv4);
    let (names4, names6) = split(&names.only);
    [(networks4, names4), (networks6, names6)].map(|(networks, names)| {
        let networks = networks.iter().map(ToString::to_string);
        networks.chain(names.iter().map(ToString::to_string)).collect()
    })
}

/// Returns the input of `nft -f` that replaces the addresses of the names in `bypass` and `only`.
pub fn renewal(router: &Router, names: &NamedAddresses) -> String {
    let texts = |addresses: Vec<IpAddr>| addresses.iter().map(ToString::to_string).collect();
    let (v4, v6) = split(&names.bypass);
    let mut sets: Vec<(&str, Vec<String>)> = vec![("names4", texts(v4)), ("names6", texts(v6))];
    if router.only.is_some() {
        let [only4, only6] = only_servers(router, names);
        sets.extend([("only4", only4), ("only6", only6)]);
    }
    let mut text = String::new();
    for (set, elements) in sets {
        writeln!(text, "flush set inet {TABLE} {set}").expect("writing to a String succeeds");
        if !elements.is_empty() {
            writeln!(text, "add element inet {TABLE} {set} {{ {} }}", list(&elements))
                .expect("writing to a String succeeds");
        }
    }
    text
}

/// Separates addresses by family.
fn split(names: &BTreeSet<IpAddr>) -> (Vec<IpAddr>, Vec<IpAddr>) {
    names.iter().partition(|address| address.is_ipv4())
}

/// Returns the definition of an nftables set.
fn set(name: &str, kind: &str, flags: &str, elements: &[impl Display]) -> String {
    let mut text = format!("\tset {name} {{\n\t\ttype {kind}\n");
    if !flags.is_empty() {
        writeln!(text, "\t\t{flags}").expect("writing to a String succeeds");
    }
    if !elements.is_empty() {
        writeln!(text, "\t\telements = {{ {} }}", list(elements)).expect("writing to a String succeeds");
    }
    text + "\t}"
}

fn list(elements: &[impl Display]) -> String {
    let elements: Vec<_> = elements.iter().map(ToString::to_string).collect();
    elements.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn router(more: &str) -> Router {
        let text = format!(
            "[router]\ninterfaces = [\"lan0\", \"wlan0\"]\nvia = {{ proxy = \"192.0.2.1:1080\" }}\n{more}"
        );
        Config::parse(&text, "proxy.toml").expect("a valid file").router.expect("the table exists")
    }

    #[test]
    fn settings_appear_in_the_rules() {
        let router = router(
            "port = 99\nmark = 0x10\ntable = 7\n[router.bypass]\nnetworks = [\"10.0.0.0/8\", \"fc00::/7\"]\nports = [25, 465]\n",
        );
        let bypass = ["192.0.2.7", "2001:db8::7"].map(|address| address.parse().unwrap()).into();
        let names = NamedAddresses { bypass, ..NamedAddresses::default() };
        let Plan { nft, ip } = plan(&router, &[Family::V4, Family::V6], &names);
        for part in [
            "iifname != { \"lan0\", \"wlan0\" } return",
            "elements = { 10.0.0.0/8 }",
            "elements = { fc00::/7 }",
            "elements = { 192.0.2.7 }",
            "elements = { 2001:db8::7 }",
            "tcp dport { 25, 465 } return",
            "tproxy ip to 127.0.0.1:99 meta mark set meta mark | 0x10 accept",
            "tproxy ip6 to [::1]:99 meta mark set meta mark | 0x10 accept",
        ] {
            assert!(nft.contains(part), "{part}: {nft}");
        }
        assert_eq!(
            ip[3],
            [
                "-6 rule add priority 500 fwmark 0x10/0x10 lookup 7 protocol 197",
                "-6 rule del priority 500 fwmark 0x10/0x10 lookup 7 protocol 197"
            ]
        );
        let Plan { nft, ip } = plan(&router, &[Family::V4], &names);
        assert!(!nft.contains("tproxy ip6") && ip.len() == 2);
        assert_eq!(
            renewal(&router, &names),
            "flush set inet anabranch-router names4\nadd element inet anabranch-router names4 { 192.0.2.7 }\n\
             flush set inet anabranch-router names6\nadd element inet anabranch-router names6 { 2001:db8::7 }\n"
        );
    }

    #[test]
    fn private_networks_bypass_the_proxy_by_default() {
        let Plan { nft, .. } = plan(&router(""), &[Family::V4], &NamedAddresses::default());
        assert!(nft.contains("192.168.0.0/16") && nft.contains("fc00::/7") && !nft.contains("dport"));
        let Plan { nft, .. } =
            plan(&router("bypass = { networks = [] }"), &[Family::V4], &NamedAddresses::default());
        assert!(!nft.contains("elements") && !nft.contains("udp") && !nft.contains("only"));
    }

    #[test]
    fn only_listed_servers_are_intercepted() {
        let router =
            router("only = { networks = [\"192.0.2.0/24\", \"2001:db8::/32\"], names = [\"a.example\"] }");
        let only = ["198.51.100.7".parse().unwrap()].into();
        let names = NamedAddresses { only, ..NamedAddresses::default() };
        let Plan { nft, .. } = plan(&router, &[Family::V4, Family::V6], &names);
        for part in [
            "elements = { 192.0.2.0/24, 198.51.100.7 }",
            "elements = { 2001:db8::/32 }",
            "\t\tip daddr != @only4 return\n\t\tip6 daddr != @only6 return\n\t\t# without a listener",
        ] {
            assert!(nft.contains(part), "{part}: {nft}");
        }
        assert_eq!(
            renewal(&router, &names),
            "flush set inet anabranch-router names4\nflush set inet anabranch-router names6\n\
             flush set inet anabranch-router only4\nadd element inet anabranch-router only4 { 192.0.2.0/24, 198.51.100.7 }\n\
             flush set inet anabranch-router only6\nadd element inet anabranch-router only6 { 2001:db8::/32 }\n"
        );
    }

    #[test]
    fn udp_is_intercepted_by_setting() {
        let text = "[router]\ninterfaces = [\"lan0\"]\nvia = { proxy = \"192.0.2.1:1080\", udp = \"stream\" }\n\
                    bypass = { ports = [53] }";
        let router =
            Config::parse(text, "proxy.toml").expect("a valid file").router.expect("the table exists");
        let Plan { nft, .. } = plan(&router, &[Family::V4, Family::V6], &NamedAddresses::default());
        for part in [
            "meta l4proto != { tcp, udp } return",
            "meta l4proto udp fib daddr type != unicast return",
            "th dport { 53 } return",
            "meta nfproto ipv4 meta l4proto udp tproxy ip to 127.0.0.1:1081 ",
            "meta nfproto ipv6 meta l4proto udp tproxy ip6 to [::1]:1081 ",
        ] {
            assert!(nft.contains(part), "{part}: {nft}");
        }
    }
}
