//! Rules that bring the hosts' connections to the router: a table of nftables, and for each family a rule and a route. Only
//! text; `install` executes it.

use crate::config::Router;
use crate::network::Network;
use core::fmt::Display;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The table of nftables.
pub const TABLE: &str = "anabranch-router";

/// Origin of our rules and routes (`FRA_PROTOCOL`, `RTA_PROTOCOL`): a number that no other program is known to use.
pub const PROTOCOL: u32 = 197;

/// The rule comes before those that choose an uplink by a packet's source, and after that for local addresses.
const PRIORITY: u32 = 500;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// As the programs `ip` and `nft` have it.
    pub const fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    /// Its loopback address.
    pub const fn loopback(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        }
    }
}

/// The families that this machine has.
pub fn families() -> Vec<Family> {
    let off = std::fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6");
    let has_v6 = off.is_ok_and(|off| off.trim() == "0");
    if has_v6 { vec![Family::V4, Family::V6] } else { vec![Family::V4] }
}

/// All that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For `nft -f`: creates the table, or replaces it.
    pub nft: String,
    /// Arguments of `ip`, each with those that undo it.
    pub ip: Vec<[String; 2]>,
}

/// Removes the table, for `nft -f`; valid without a table, too.
pub fn removal() -> String {
    format!("add table inet {TABLE}\ndelete table inet {TABLE}\n")
}

/// The plan for a machine with these families, and with these addresses of the names in `bypass`.
pub fn plan(router: &Router, families: &[Family], names: &BTreeSet<IpAddr>) -> Plan {
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

fn nft(router: &Router, families: &[Family], names: &BTreeSet<IpAddr>) -> String {
    let bypass = &router.bypass;
    let of = |v4: bool| bypass.networks.iter().copied().filter(move |network| network.is_ipv4() == v4);
    let (networks4, networks6): (Vec<Network>, Vec<Network>) = (of(true).collect(), of(false).collect());
    let (names4, names6) = split(names);
    let mut text = removal();
    let mut line = |line: &str| writeln!(text, "{line}").expect("a String takes all");
    line(&format!("table inet {TABLE} {{"));
    line(&set("networks4", "ipv4_addr", "flags interval\n\t\tauto-merge", &networks4));
    line(&set("networks6", "ipv6_addr", "flags interval\n\t\tauto-merge", &networks6));
    line(&set("names4", "ipv4_addr", "", &names4));
    line(&set("names6", "ipv6_addr", "", &names6));
    line("\tchain prerouting {");
    line("\t\ttype filter hook prerouting priority mangle; policy accept;");
    let interfaces: Vec<_> = router.interfaces.as_ref().iter().map(|name| format!("\"{name}\"")).collect();
    line(&format!("\t\tiifname != {{ {} }} return", interfaces.join(", ")));
    line("\t\tmeta l4proto != tcp return");
    let divert = format!("meta mark set meta mark | {:#x} accept", router.mark.as_ref());
    let opens = "tcp flags & (fin | syn | rst | ack)";
    // A SYN is for tproxy, which knows what to do if the router still has that connection in TIME-WAIT.
    line("\t\t# connections that the router has");
    line(&format!("\t\t{opens} != syn socket transparent 1 {divert}"));
    line("\t\t# those that were there before it go on as they are");
    line(&format!("\t\t{opens} != syn return"));
    line("\t\tfib daddr type local return");
    for rule in ["ip daddr @networks4", "ip6 daddr @networks6", "ip daddr @names4", "ip6 daddr @names6"] {
        line(&format!("\t\t{rule} return"));
    }
    if !bypass.ports.is_empty() {
        line(&format!("\t\ttcp dport {{ {} }} return", list(&bypass.ports)));
    }
    line("\t\t# without a listener there, packets go on to be forwarded");
    for family in families {
        let (name, kind) = match family {
            Family::V4 => ("ipv4", "ip to 127.0.0.1"),
            Family::V6 => ("ipv6", "ip6 to [::1]"),
        };
        line(&format!("\t\tmeta nfproto {name} meta l4proto tcp tproxy {kind}:{} {divert}", router.port));
    }
    line("\t}");
    line("}");
    text
}

/// Replaces the addresses of names, for `nft -f`.
pub fn renewal(names: &BTreeSet<IpAddr>) -> String {
    let (v4, v6) = split(names);
    let mut text = String::new();
    for (set, elements) in [("names4", v4), ("names6", v6)] {
        writeln!(text, "flush set inet {TABLE} {set}").expect("a String takes all");
        if !elements.is_empty() {
            writeln!(text, "add element inet {TABLE} {set} {{ {} }}", list(&elements))
                .expect("a String takes all");
        }
    }
    text
}

fn split(names: &BTreeSet<IpAddr>) -> (Vec<IpAddr>, Vec<IpAddr>) {
    names.iter().partition(|address| address.is_ipv4())
}

fn set(name: &str, kind: &str, flags: &str, elements: &[impl Display]) -> String {
    let mut text = format!("\tset {name} {{\n\t\ttype {kind}\n");
    if !flags.is_empty() {
        writeln!(text, "\t\t{flags}").expect("a String takes all");
    }
    if !elements.is_empty() {
        writeln!(text, "\t\telements = {{ {} }}", list(elements)).expect("a String takes all");
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
        Config::parse(&text, "proxy.toml").expect("no mistake").router.expect("it is there")
    }

    #[test]
    fn settings_appear_in_the_rules() {
        let router = router(
            "port = 99\nmark = 0x10\ntable = 7\n[router.bypass]\nnetworks = [\"10.0.0.0/8\", \"fc00::/7\"]\nports = [25, 465]\n",
        );
        let names = ["192.0.2.7", "2001:db8::7"].map(|address| address.parse().unwrap()).into();
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
            renewal(&names),
            "flush set inet anabranch-router names4\nadd element inet anabranch-router names4 { 192.0.2.7 }\n\
             flush set inet anabranch-router names6\nadd element inet anabranch-router names6 { 2001:db8::7 }\n"
        );
    }

    #[test]
    fn private_networks_bypass_the_proxy_by_default() {
        let Plan { nft, .. } = plan(&router(""), &[Family::V4], &BTreeSet::new());
        assert!(nft.contains("192.168.0.0/16") && nft.contains("fc00::/7") && !nft.contains("dport"));
        let Plan { nft, .. } = plan(&router("bypass = { networks = [] }"), &[Family::V4], &BTreeSet::new());
        assert!(!nft.contains("elements"));
    }
}
