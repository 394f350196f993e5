//! Firewalls that drop the packets which the kernel hands to the router: they pass the hook `input` with their mark, their
//! original destination and the LAN's interface. Works on the JSON of `nft -j list ruleset`.
//!
//! The evaluation has three values. A chain counts as dropping only if no rule before the drop can accept such a packet. Matches
//! of iptables (`xt`) have no parameters in this JSON: those for states, protocols and limits count as not met, with which a
//! finding is a suspicion.

use super::rules::Family;
use serde_json::Value;

/// A chain that drops packets for the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropping {
    /// Family, table and name of the base chain, as `nft` has them.
    pub chain: String,
    /// A rule, for a shell, that accepts the packets.
    pub remedy: String,
    /// No match was guessed.
    pub is_certain: bool,
}

/// A packet that opens a connection of a host.
struct Packet<'a> {
    family: Family,
    interface: &'a str,
    mark: u64,
}

/// Fate of a packet in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is accepted, or may be.
    Accepted,
    /// It is dropped; whether no match was guessed.
    Dropped(bool),
    /// It goes on behind the chain; whether no match was guessed.
    GoesOn(bool),
}

/// Whether a match is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Yes,
    No,
    /// Not met in all likelihood.
    Unlikely,
    Unknown,
}

/// The first base chain at the hook `input` that drops packets of the hosts, for one of these families and interfaces.
pub fn dropping(ruleset: &Value, families: &[Family], interfaces: &[String], mark: u32) -> Option<Dropping> {
    let entries = ruleset["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let base = entries
        .iter()
        .map(|entry| &entry["chain"])
        .filter(|chain| chain["hook"] == "input" && chain["type"] == "filter");
    base.flat_map(|chain| families.iter().map(move |family| (chain, *family)))
        .filter(|(chain, family)| is_of(chain, *family))
        .flat_map(|(chain, family)| interfaces.iter().map(move |interface| (chain, family, interface)))
        .find_map(|(chain, family, interface)| {
            let packet = Packet { family, interface, mark: mark.into() };
            let table = Table { entries, chain };
            let is_certain = match table.fate(text(&chain["name"]), &packet, 0) {
                Fate::Dropped(is_certain) => is_certain,
                Fate::GoesOn(is_certain) if chain["policy"] == "drop" => is_certain,
                _ => return None,
            };
            let chain =
                format!("{} {} {}", text(&chain["family"]), text(&chain["table"]), text(&chain["name"]));
            let remedy = format!("nft insert rule {chain} {}", accepting_rule(mark));
            Some(Dropping { chain, remedy, is_certain })
        })
}

/// The rule of nftables that accepts packets for the router, quoted for a shell.
pub fn accepting_rule(mark: u32) -> String {
    format!("meta mark '&' {mark:#x} == {mark:#x} accept")
}

fn is_of(chain: &Value, family: Family) -> bool {
    match text(&chain["family"]) {
        "inet" => true,
        "ip" => family == Family::V4,
        "ip6" => family == Family::V6,
        _ => false,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Chains deeper than this are not followed; the kernel has a limit of 16.
const MAX_DEPTH: u32 = 16;

/// The table of a chain.
struct Table<'a> {
    entries: &'a [Value],
    chain: &'a Value,
}

impl Table<'_> {
    fn fate(&self, chain: &str, packet: &Packet<'_>, depth: u32) -> Fate {
        let in_chain = |rule: &&Value| {
            rule["family"] == self.chain["family"]
                && rule["table"] == self.chain["table"]
                && rule["chain"] == chain
        };
        if depth > MAX_DEPTH {
            return Fate::Accepted;
        }
        let mut is_certain = true;
        for rule in self.entries.iter().map(|entry| &entry["rule"]).filter(in_chain) {
            match self.fate_of_rule(rule, packet, depth) {
                (Fate::GoesOn(certain), false) => is_certain &= certain,
                (Fate::GoesOn(certain), true) => return Fate::GoesOn(is_certain && certain),
                (Fate::Dropped(certain), _) => return Fate::Dropped(is_certain && certain),
                (Fate::Accepted, _) => return Fate::Accepted,
            }
        }
        Fate::GoesOn(is_certain)
    }

    /// The fate by a rule, and whether the rule ends the chain.
    fn fate_of_rule(&self, rule: &Value, packet: &Packet<'_>, depth: u32) -> (Fate, bool) {
        const ON: (Fate, bool) = (Fate::GoesOn(true), false);
        let mut is_met = Met::Yes;
        for statement in rule["expr"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let Some((kind, value)) = statement.as_object().and_then(|object| object.iter().next()) else {
                continue;
            };
            let met = match kind.as_str() {
                "match" => meets(value, packet),
                "xt" if value["type"] == "target" && value["name"] == "REJECT" => {
                    return on_verdict("reject", is_met);
                }
                "xt" => meets_xt(text(&value["name"])),
                "counter" | "log" | "comment" | "mangle" => Met::Yes,
                "vmap" => match verdict_in_map(value, packet) {
                    InMap::Verdict(verdict) => return self.follow(verdict, is_met, packet, depth),
                    InMap::NoEntry => return ON,
                    InMap::Unknown => return (Fate::Accepted, true),
                },
                "accept" | "drop" | "reject" | "return" | "jump" | "goto" | "continue" => {
                    return self.follow(statement, is_met, packet, depth);
                }
                _ => Met::Unknown,
            };
            is_met = match (is_met, met) {
                (_, Met::No) => return ON,
                (Met::Unlikely, _) | (_, Met::Unlikely) => Met::Unlikely,
                (Met::Unknown, _) | (_, Met::Unknown) => Met::Unknown,
                _ => Met::Yes,
            };
        }
        ON
    }

    /// Follows a verdict, with jumps.
    fn follow(&self, verdict: &Value, is_met: Met, packet: &Packet<'_>, depth: u32) -> (Fate, bool) {
        for kind in ["jump", "goto"] {
            let target = text(&verdict[kind]["target"]);
            if target.is_empty() {
                continue;
            }
            let fate = self.fate(target, packet, depth + 1);
            return match (is_met, fate) {
                // An unlikely or unknown jump is taken for none, unless it might accept.
                (Met::Unlikely | Met::No, _) => (Fate::GoesOn(is_met == Met::No), false),
                (Met::Unknown, Fate::Accepted) => (Fate::Accepted, true),
                (Met::Unknown, _) => (Fate::GoesOn(false), false),
                (Met::Yes, Fate::GoesOn(certain)) => (Fate::GoesOn(certain), kind == "goto"),
                (Met::Yes, fate) => (fate, true),
            };
        }
        let kind = verdict.as_object().and_then(|object| object.keys().next()).map_or("", String::as_str);
        on_verdict(kind, is_met)
    }
}

/// The fate by a verdict without a chain.
fn on_verdict(kind: &str, is_met: Met) -> (Fate, bool) {
    match (kind, is_met) {
        ("accept", Met::Yes | Met::Unknown) | ("return", Met::Unknown) => (Fate::Accepted, true),
        ("drop" | "reject", Met::Yes) => (Fate::Dropped(true), true),
        ("return", Met::Yes) => (Fate::GoesOn(true), true),
        (_, Met::Yes | Met::No) => (Fate::GoesOn(true), false),
        // A drop that may be met, or an accept that hardly is.
        _ => (Fate::GoesOn(is_met != Met::Unlikely), false),
    }
}

/// The verdict of a map for a packet.
enum InMap<'a> {
    Verdict(&'a Value),
    NoEntry,
    Unknown,
}

fn verdict_in_map<'a>(map: &'a Value, packet: &Packet<'_>) -> InMap<'a> {
    let Some(entries) = map["data"]["set"].as_array() else { return InMap::Unknown };
    for entry in entries {
        let matching = serde_json::json!({ "op": "==", "left": map["key"], "right": entry[0] });
        match meets(&matching, packet) {
            Met::Yes => return InMap::Verdict(&entry[1]),
            Met::No => {}
            Met::Unlikely | Met::Unknown => return InMap::Unknown,
        }
    }
    InMap::NoEntry
}

/// Matches of iptables, by name alone.
fn meets_xt(name: &str) -> Met {
    match name {
        "comment" => Met::Yes,
        "conntrack" | "state" | "icmp" | "icmp6" | "udp" | "tcp" | "multiport" | "limit" | "hashlimit"
        | "recent" | "addrtype" => Met::Unlikely,
        _ => Met::Unknown,
    }
}

fn meets(matching: &Value, packet: &Packet<'_>) -> Met {
    let (left, right) = (&matching["left"], &matching["right"]);
    let met = match left.as_object().and_then(|object| object.iter().next()) {
        Some((kind, value)) => match (kind.as_str(), text(&value["key"])) {
            ("meta", "iifname" | "iif") => {
                contains(right, &|name| is_interface(text(name), packet.interface))
            }
            ("meta", "mark") => contains(right, &|mark| mark.as_u64() == Some(packet.mark)),
            ("meta", "l4proto") => contains(right, &|protocol| protocol == "tcp" || protocol == 6),
            ("meta", "nfproto" | "protocol") => {
                let names = if packet.family == Family::V4 { ["ipv4", "ip"] } else { ["ipv6", "ip6"] };
                contains(right, &|name| names.contains(&text(name)))
            }
            ("ct", "state") => contains(right, &|state| state == "new"),
            ("socket", "transparent") => contains(right, &|value| value == 1),
            ("&", _) => masked(value, right, packet),
            ("fib", _) => contains(right, &|kind| kind == "unicast"),
            ("payload", _) => match (text(&value["protocol"]), text(&value["field"])) {
                ("ip", "protocol") | ("ip6", "nexthdr") => {
                    contains(right, &|protocol| protocol == "tcp" || protocol == 6)
                }
                // The destination is any server and any port: one of a few is no match for all.
                ("ip", "daddr") if packet.family == Family::V4 => Some(false),
                ("ip6", "daddr") if packet.family == Family::V6 => Some(false),
                ("ip" | "ip6", "daddr") => return Met::No,
                ("tcp" | "th", "dport") => Some(false),
                ("tcp" | "th" | "ip" | "ip6", _) => None,
                _ => return Met::No,
            },
            _ => None,
        },
        None => None,
    };
    match (text(&matching["op"]), met) {
        ("==" | "in", Some(met)) => {
            if met {
                Met::Yes
            } else {
                Met::No
            }
        }
        ("!=", Some(false)) if left["payload"].is_object() => Met::Unknown,
        ("!=", Some(met)) => {
            if met {
                Met::No
            } else {
                Met::Yes
            }
        }
        _ => Met::Unknown,
    }
}

/// Whether a value is the one, or a set or list with it; nothing if it is a set by name.
fn contains(right: &Value, is: &dyn Fn(&Value) -> bool) -> Option<bool> {
    if text(right).starts_with('@') {
        return None;
    }
    let list = right["set"].as_array().or_else(|| right.as_array());
    Some(list.map_or_else(|| is(right), |list| list.iter().any(is)))
}

/// `mark & mask`, compared to a number.
fn masked(operands: &Value, right: &Value, packet: &Packet<'_>) -> Option<bool> {
    let [left, mask] = operands.as_array()?.as_slice() else { return None };
    let masked = packet.mark & mask.as_u64().filter(|_| left["meta"]["key"] == "mark")?;
    contains(right, &|mark| mark.as_u64() == Some(masked))
}

/// `br-*` stands for all interfaces whose names begin so.
fn is_interface(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MARK: u32 = 1 << 27;

    /// A base chain `input` of `inet fw` with rules, and other chains.
    fn ruleset(policy: &str, chains: &[(&str, Value)]) -> Value {
        let mut entries = vec![
            json!({"chain": {"family": "inet", "table": "fw", "name": "input", "type": "filter", "hook": "input", "policy": policy}}),
        ];
        for (chain, rules) in chains {
            for expr in rules.as_array().expect("rules") {
                entries
                    .push(json!({"rule": {"family": "inet", "table": "fw", "chain": chain, "expr": expr}}));
            }
        }
        json!({ "nftables": entries })
    }

    fn judged(policy: &str, chains: &[(&str, Value)]) -> Option<Dropping> {
        dropping(&ruleset(policy, chains), &[Family::V4, Family::V6], &["lan0".to_owned()], MARK)
    }

    fn state(states: &[&str]) -> Value {
        json!({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": states}})
    }

    fn by(interface: &str) -> Value {
        json!({"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": interface}})
    }

    #[test]
    fn dropping_chain_is_found_with_its_remedy() {
        let rules =
            json!([[state(&["established", "related"]), {"accept": null}], [by("lo"), {"accept": null}]]);
        let found = judged("drop", &[("input", rules.clone())]).expect("it drops");
        assert_eq!(found.chain, "inet fw input");
        assert_eq!(found.remedy, "nft insert rule inet fw input meta mark '&' 0x8000000 == 0x8000000 accept");
        assert!(found.is_certain);
        assert_eq!(judged("accept", &[("input", rules)]), None);
        // The last rule rejects, as with firewalld.
        let rejecting = json!([[state(&["established"]), {"accept": null}], [{"counter": {}}, {"reject": {"type": "icmpx"}}]]);
        assert!(judged("accept", &[("input", rejecting)]).is_some());
    }

    #[test]
    fn chain_that_may_accept_is_no_complaint() {
        let mark =
            json!({"match": {"op": "==", "left": {"&": [{"meta": {"key": "mark"}}, MARK]}, "right": MARK}});
        let saddr = json!({"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "192.168.7.0"}});
        for rule in [
            json!([mark, {"accept": null}]),
            json!([by("lan*"), {"accept": null}]),
            json!([state(&["new"]), {"accept": null}]),
        ] {
            assert_eq!(judged("drop", &[("input", json!([rule]))]), None, "{rule}");
        }
        let v4_only = |rules| {
            dropping(&ruleset("drop", &[("input", rules)]), &[Family::V4], &["lan0".to_owned()], MARK)
        };
        assert_eq!(v4_only(json!([[saddr, {"accept": null}]])), None);
        let port = json!({"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}});
        assert!(v4_only(json!([[port, {"accept": null}]])).is_some());
    }

    #[test]
    fn jumps_and_maps_are_followed() {
        let jump = json!([[by("lan0"), {"jump": {"target": "lan"}}]]);
        assert_eq!(judged("drop", &[("input", jump.clone()), ("lan", json!([[{"accept": null}]]))]), None);
        assert!(judged("accept", &[("input", jump.clone()), ("lan", json!([[{"drop": null}]]))]).is_some());
        assert!(judged("drop", &[("input", jump), ("lan", json!([[{"return": null}]]))]).is_some());
        let map = |verdict: Value| json!([[{"vmap": {"key": {"meta": {"key": "iifname"}}, "data": {"set": [["lo", {"accept": null}], ["lan0", verdict]]}}}]]);
        assert_eq!(judged("drop", &[("input", map(json!({"accept": null})))]), None);
        assert!(judged("accept", &[("input", map(json!({"drop": null})))]).is_some());
    }

    /// As iptables-nft has a chain of ufw.
    #[test]
    fn iptables_matches_raise_a_suspicion() {
        let xt = |name: &str| json!({"xt": {"type": "match", "name": name}});
        let rules =
            json!([[xt("conntrack"), {"counter": {}}, {"accept": null}], [by("lo"), {"accept": null}]]);
        assert!(!judged("drop", &[("input", rules)]).expect("it drops").is_certain);
        let unknown = json!([[xt("set"), {"accept": null}]]);
        assert_eq!(judged("drop", &[("input", unknown)]), None);
    }
}
