//! Finds firewall chains that drop the connections which the router intercepts. Their packets pass the hook `input`
//! with the router's mark, their original destination and the LAN interface. The input is the JSON of `nft -j list
//! ruleset`.
//!
//! A match may be true, false or unknown for such a packet. A chain is reported only if no rule before the drop may
//! accept the packet. This JSON does not contain the parameters of matches of iptables (`xt`). Those for states,
//! protocols and limits are assumed to be false, which makes the finding uncertain.

use super::rules::{Family, families};
use crate::config::Router;
use serde_json::Value;

/// A chain that drops intercepted packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppingChain {
    /// Family, table and name of the base chain, in the notation of `nft`.
    pub chain: String,
    /// Shell command that adds a rule to accept the packets.
    pub remedy: String,
    /// True if no result of a match was assumed.
    pub is_certain: bool,
}

/// Protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// True if a value of a rule is the name or the number of the protocol.
    fn is_value(self, value: &Value) -> bool {
        match self {
            Self::Tcp => value == "tcp" || value == 6,
            Self::Udp => value == "udp" || value == 17,
        }
    }
}

/// Lists the families and protocols of the packets that the router intercepts.
pub fn packets(router: &Router) -> Vec<(Family, Protocol)> {
    let has_udp = router.via.as_ref().udp.is_some();
    let protocols = if has_udp { &[Protocol::Tcp, Protocol::Udp][..] } else { &[Protocol::Tcp] };
    families()
        .into_iter()
        .flat_map(|family| protocols.iter().map(move |protocol| (family, *protocol)))
        .collect()
}

/// The first packet of a connection that a LAN host opens.
struct Packet<'a> {
    family: Family,
    protocol: Protocol,
    interface: &'a str,
    mark: u64,
}

/// Result of a chain or a rule for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketVerdict {
    /// The packet is accepted, or may be accepted.
    Accepted,
    /// The packet is dropped; the value is true if no result of a match was assumed.
    Dropped(bool),
    /// The next rule or chain decides; the value is true if no result of a match was assumed.
    Continues(bool),
}

/// Result of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchResult {
    Yes,
    No,
    /// Assumed to be false.
    Unlikely,
    Unknown,
}

/// Finds the first base chain at the hook `input` that drops intercepted packets of one of these families, protocols and
/// interfaces.
pub fn find_dropping_chain(
    ruleset: &Value,
    packets: &[(Family, Protocol)],
    interfaces: &[String],
    mark: u32,
) -> Option<DroppingChain> {
    let entries = ruleset["nftables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let base = entries
        .iter()
        .map(|entry| &entry["chain"])
        .filter(|chain| chain["hook"] == "input" && chain["type"] == "filter");
    base.flat_map(|chain| packets.iter().map(move |packet| (chain, *packet)))
        .filter(|(chain, (family, _))| applies_to_family(chain, *family))
        .flat_map(|(chain, packet)| interfaces.iter().map(move |interface| (chain, packet, interface)))
        .find_map(|(chain, (family, protocol), interface)| {
            let packet = Packet { family, protocol, interface, mark: mark.into() };
            let table = Table { entries, chain };
            let is_certain = match table.evaluate_chain(text(&chain["name"]), &packet, 0) {
                PacketVerdict::Dropped(is_certain) => is_certain,
                PacketVerdict::Continues(is_certain) if chain["policy"] == "drop" => is_certain,
                _ => return None,
            };
            let chain =
                format!("{} {} {}", text(&chain["family"]), text(&chain["table"]), text(&chain["name"]));
            let remedy = format!("nft insert rule {chain} {}", accepting_rule(mark));
            Some(DroppingChain { chain, remedy, is_certain })
        })
}

/// Returns the nftables rule that accepts intercepted packets, quoted for a shell.
pub fn accepting_rule(mark: u32) -> String {
    format!("meta mark '&' {mark:#x} == {mark:#x} accept")
}

fn applies_to_family(chain: &Value, family: Family) -> bool {
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

/// Maximum depth of jumps that the evaluation follows; the kernel's limit is 16.
const MAX_DEPTH: u32 = 16;

/// The nftables table that contains a base chain.
struct Table<'a> {
    entries: &'a [Value],
    chain: &'a Value,
}

impl Table<'_> {
    fn evaluate_chain(&self, chain: &str, packet: &Packet<'_>, depth: u32) -> PacketVerdict {
        let in_chain = |rule: &&Value| {
            rule["family"] == self.chain["family"]
                && rule["table"] == self.chain["table"]
                && rule["chain"] == chain
        };
        if depth > MAX_DEPTH {
            return PacketVerdict::Accepted;
        }
        let mut is_certain = true;
        for rule in self.entries.iter().map(|entry| &entry["rule"]).filter(in_chain) {
            match self.evaluate_rule(rule, packet, depth) {
                (PacketVerdict::Continues(certain), false) => is_certain &= certain,
                (PacketVerdict::Continues(certain), true) => {
                    return PacketVerdict::Continues(is_certain && certain);
                }
                (PacketVerdict::Dropped(certain), _) => return PacketVerdict::Dropped(is_certain && certain),
                (PacketVerdict::Accepted, _) => return PacketVerdict::Accepted,
            }
        }
        PacketVerdict::Continues(is_certain)
    }

    /// Evaluates one rule for a packet; the second value is true if no later rule of the chain is evaluated.
    fn evaluate_rule(&self, rule: &Value, packet: &Packet<'_>, depth: u32) -> (PacketVerdict, bool) {
        const CONTINUE: (PacketVerdict, bool) = (PacketVerdict::Continues(true), false);
        let mut is_met = MatchResult::Yes;
        for statement in rule["expr"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let Some((kind, value)) = statement.as_object().and_then(|object| object.iter().next()) else {
                continue;
            };
            let met = match kind.as_str() {
                "match" => evaluate_match(value, packet),
                "xt" if value["type"] == "target" && value["name"] == "REJECT" => {
                    return apply_verdict("reject", is_met);
                }
                "xt" => evaluate_xt_match(text(&value["name"])),
                "counter" | "log" | "comment" | "mangle" => MatchResult::Yes,
                "vmap" => match verdict_in_map(value, packet) {
                    MapLookup::Verdict(verdict) => {
                        return self.follow_verdict(verdict, is_met, packet, depth);
                    }
                    MapLookup::NoEntry => return CONTINUE,
                    MapLookup::Unknown => return (PacketVerdict::Accepted, true),
                },
                "accept" | "drop" | "reject" | "return" | "jump" | "goto" | "continue" => {
                    return self.follow_verdict(statement, is_met, packet, depth);
                }
                _ => MatchResult::Unknown,
            };
            is_met = match (is_met, met) {
                (_, MatchResult::No) => return CONTINUE,
                (MatchResult::Unlikely, _) | (_, MatchResult::Unlikely) => MatchResult::Unlikely,
                (MatchResult::Unknown, _) | (_, MatchResult::Unknown) => MatchResult::Unknown,
                _ => MatchResult::Yes,
            };
        }
        CONTINUE
    }

    /// Applies a verdict, including jumps to other chains.
    fn follow_verdict(
        &self,
        verdict: &Value,
        is_met: MatchResult,
        packet: &Packet<'_>,
        depth: u32,
    ) -> (PacketVerdict, bool) {
        for kind in ["jump", "goto"] {
            let target = text(&verdict[kind]["target"]);
            if target.is_empty() {
                continue;
            }
            let evaluate_chain = self.evaluate_chain(target, packet, depth + 1);
            return match (is_met, evaluate_chain) {
                // The jump is certainly or probably not taken. A jump that may be taken is ignored as well, unless its
                // chain may accept the packet.
                (MatchResult::Unlikely | MatchResult::No, _) => {
                    (PacketVerdict::Continues(is_met == MatchResult::No), false)
                }
                (MatchResult::Unknown, PacketVerdict::Accepted) => (PacketVerdict::Accepted, true),
                (MatchResult::Unknown, _) => (PacketVerdict::Continues(false), false),
                (MatchResult::Yes, PacketVerdict::Continues(certain)) => {
                    (PacketVerdict::Continues(certain), kind == "goto")
                }
                (MatchResult::Yes, evaluate_chain) => (evaluate_chain, true),
            };
        }
        let kind = verdict.as_object().and_then(|object| object.keys().next()).map_or("", String::as_str);
        apply_verdict(kind, is_met)
    }
}

/// Applies a verdict without a jump.
fn apply_verdict(kind: &str, is_met: MatchResult) -> (PacketVerdict, bool) {
    match (kind, is_met) {
        ("accept", MatchResult::Yes | MatchResult::Unknown) | ("return", MatchResult::Unknown) => {
            (PacketVerdict::Accepted, true)
        }
        ("drop" | "reject", MatchResult::Yes) => (PacketVerdict::Dropped(true), true),
        ("return", MatchResult::Yes) => (PacketVerdict::Continues(true), true),
        (_, MatchResult::Yes | MatchResult::No) => (PacketVerdict::Continues(true), false),
        // Finding about a drop whose match is uncertain, or about an accept whose match is assumed to be
        // false.
        _ => (PacketVerdict::Continues(is_met != MatchResult::Unlikely), false),
    }
}

/// Result of looking up a packet in a verdict map.
enum MapLookup<'a> {
    Verdict(&'a Value),
    NoEntry,
    Unknown,
}

fn verdict_in_map<'a>(map: &'a Value, packet: &Packet<'_>) -> MapLookup<'a> {
    let Some(entries) = map["data"]["set"].as_array() else { return MapLookup::Unknown };
    for entry in entries {
        let matching = serde_json::json!({ "op": "==", "left": map["key"], "right": entry[0] });
        match evaluate_match(&matching, packet) {
            MatchResult::Yes => return MapLookup::Verdict(&entry[1]),
            MatchResult::No => {}
            MatchResult::Unlikely | MatchResult::Unknown => return MapLookup::Unknown,
        }
    }
    MapLookup::NoEntry
}

/// Evaluates a match of iptables by its name.
fn evaluate_xt_match(name: &str) -> MatchResult {
    match name {
        "comment" => MatchResult::Yes,
        "conntrack" | "state" | "icmp" | "icmp6" | "udp" | "tcp" | "multiport" | "limit" | "hashlimit"
        | "recent" | "addrtype" => MatchResult::Unlikely,
        _ => MatchResult::Unknown,
    }
}

fn evaluate_match(matching: &Value, packet: &Packet<'_>) -> MatchResult {
    let (left, right) = (&matching["left"], &matching["right"]);
    let met = match left.as_object().and_then(|object| object.iter().next()) {
        Some((kind, value)) => match (kind.as_str(), text(&value["key"])) {
            ("meta", "iifname" | "iif") => {
                contains(right, &|name| interface_matches(text(name), packet.interface))
            }
            ("meta", "mark") => contains(right, &|mark| mark.as_u64() == Some(packet.mark)),
            ("meta", "l4proto") => contains(right, &|value| packet.protocol.is_value(value)),
            ("meta", "nfproto" | "protocol") => {
                let names = if packet.family == Family::V4 { ["ipv4", "ip"] } else { ["ipv6", "ip6"] };
                contains(right, &|name| names.contains(&text(name)))
            }
            ("ct", "state") => contains(right, &|state| state == "new"),
            ("socket", "transparent") => contains(right, &|value| value == 1),
            ("&", _) => evaluate_masked_mark(value, right, packet),
            ("fib", _) => contains(right, &|kind| kind == "unicast"),
            ("payload", _) => match (text(&value["protocol"]), text(&value["field"])) {
                ("ip", "protocol") | ("ip6", "nexthdr") => {
                    contains(right, &|value| packet.protocol.is_value(value))
                }
                // The destination may be any server and port. A match for some of them is false for the others, so it
                // counts as false.
                ("ip", "daddr") if packet.family == Family::V4 => Some(false),
                ("ip6", "daddr") if packet.family == Family::V6 => Some(false),
                ("ip" | "ip6", "daddr") => return MatchResult::No,
                ("tcp", _) if packet.protocol == Protocol::Udp => return MatchResult::No,
                ("udp", _) if packet.protocol == Protocol::Tcp => return MatchResult::No,
                ("tcp" | "udp" | "th", "dport") => Some(false),
                ("tcp" | "udp" | "th" | "ip" | "ip6", _) => None,
                _ => return MatchResult::No,
            },
            _ => None,
        },
        None => None,
    };
    match (text(&matching["op"]), met) {
        ("==" | "in", Some(met)) => {
            if met {
                MatchResult::Yes
            } else {
                MatchResult::No
            }
        }
        ("!=", Some(false)) if left["payload"].is_object() => MatchResult::Unknown,
        ("!=", Some(met)) => {
            if met {
                MatchResult::No
            } else {
                MatchResult::Yes
            }
        }
        _ => MatchResult::Unknown,
    }
}

/// True if the value itself, or an element of the set or list, satisfies `is`; `None` for a named set, whose elements
/// are unknown.
fn contains(right: &Value, is: &dyn Fn(&Value) -> bool) -> Option<bool> {
    if text(right).starts_with('@') {
        return None;
    }
    let list = right["set"].as_array().or_else(|| right.as_array());
    Some(list.map_or_else(|| is(right), |list| list.iter().any(is)))
}

/// Evaluates `mark & mask` compared with a number.
fn evaluate_masked_mark(operands: &Value, right: &Value, packet: &Packet<'_>) -> Option<bool> {
    let [left, mask] = operands.as_array()?.as_slice() else { return None };
    let evaluate_masked_mark = packet.mark & mask.as_u64().filter(|_| left["meta"]["key"] == "mark")?;
    contains(right, &|mark| mark.as_u64() == Some(evaluate_masked_mark))
}

/// True if an interface matches a pattern; `br-*` matches all names that start with `br-`.
fn interface_matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Firewall mark of intercepted packets.
    const MARK: u32 = 1 << 27;

    const TCP: [(Family, Protocol); 2] = [(Family::V4, Protocol::Tcp), (Family::V6, Protocol::Tcp)];

    /// Creates a ruleset with the base chain `input` of the table `inet fw`, and further chains.
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

    fn check_ruleset(policy: &str, chains: &[(&str, Value)]) -> Option<DroppingChain> {
        find_dropping_chain(&ruleset(policy, chains), &TCP, &["lan0".to_owned()], MARK)
    }

    /// Creates a statement that matches these connection states.
    fn state(states: &[&str]) -> Value {
        json!({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": states}})
    }

    /// Creates a statement that matches packets that arrive by an interface.
    fn by(interface: &str) -> Value {
        json!({"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": interface}})
    }

    #[test]
    fn dropping_chain_is_found_with_its_remedy() {
        let rules =
            json!([[state(&["established", "related"]), {"accept": null}], [by("lo"), {"accept": null}]]);
        let found = check_ruleset("drop", &[("input", rules.clone())]).expect("the chain drops");
        assert_eq!(found.chain, "inet fw input");
        assert_eq!(found.remedy, "nft insert rule inet fw input meta mark '&' 0x8000000 == 0x8000000 accept");
        assert!(found.is_certain);
        assert_eq!(check_ruleset("accept", &[("input", rules)]), None);
        // The last rule rejects, as in firewalld.
        let rejecting = json!([[state(&["established"]), {"accept": null}], [{"counter": {}}, {"reject": {"type": "icmpx"}}]]);
        assert!(check_ruleset("accept", &[("input", rejecting)]).is_some());
    }

    #[test]
    fn chain_that_may_accept_is_not_reported() {
        let mark =
            json!({"match": {"op": "==", "left": {"&": [{"meta": {"key": "mark"}}, MARK]}, "right": MARK}});
        let saddr = json!({"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "192.168.7.0"}});
        for rule in [
            json!([mark, {"accept": null}]),
            json!([by("lan*"), {"accept": null}]),
            json!([state(&["new"]), {"accept": null}]),
        ] {
            assert_eq!(check_ruleset("drop", &[("input", json!([rule]))]), None, "{rule}");
        }
        let v4_only = |rules| {
            find_dropping_chain(&ruleset("drop", &[("input", rules)]), &TCP[..1], &["lan0".to_owned()], MARK)
        };
        assert_eq!(v4_only(json!([[saddr, {"accept": null}]])), None);
        let port = json!({"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}});
        assert!(v4_only(json!([[port, {"accept": null}]])).is_some());
    }

    #[test]
    fn chain_that_drops_only_udp_is_found() {
        let protocol =
            |name: &str| json!({"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": name}});
        let port = json!({"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 53}});
        let find = |policy: &str, rules: Value, protocol| {
            let packet = (Family::V4, protocol);
            find_dropping_chain(&ruleset(policy, &[("input", rules)]), &[packet], &["lan0".to_owned()], MARK)
        };
        for (policy, rules) in [
            ("drop", json!([[protocol("tcp"), {"accept": null}]])),
            ("accept", json!([[protocol("udp"), {"drop": null}]])),
            ("drop", json!([[port, {"accept": null}], [protocol("tcp"), {"accept": null}]])),
        ] {
            assert_eq!(find(policy, rules.clone(), Protocol::Tcp), None, "{rules}");
            assert!(find(policy, rules.clone(), Protocol::Udp).is_some(), "{rules}");
        }
    }

    #[test]
    fn jumps_and_maps_are_followed() {
        let jump = json!([[by("lan0"), {"jump": {"target": "lan"}}]]);
        assert_eq!(
            check_ruleset("drop", &[("input", jump.clone()), ("lan", json!([[{"accept": null}]]))]),
            None
        );
        assert!(
            check_ruleset("accept", &[("input", jump.clone()), ("lan", json!([[{"drop": null}]]))]).is_some()
        );
        assert!(check_ruleset("drop", &[("input", jump), ("lan", json!([[{"return": null}]]))]).is_some());
        let map = |verdict: Value| json!([[{"vmap": {"key": {"meta": {"key": "iifname"}}, "data": {"set": [["lo", {"accept": null}], ["lan0", verdict]]}}}]]);
        assert_eq!(check_ruleset("drop", &[("input", map(json!({"accept": null})))]), None);
        assert!(check_ruleset("accept", &[("input", map(json!({"drop": null})))]).is_some());
    }

    /// The rules are a chain of ufw, as iptables-nft writes it.
    #[test]
    fn iptables_matches_make_finding_uncertain() {
        let xt = |name: &str| json!({"xt": {"type": "match", "name": name}});
        let rules =
            json!([[xt("conntrack"), {"counter": {}}, {"accept": null}], [by("lo"), {"accept": null}]]);
        assert!(!check_ruleset("drop", &[("input", rules)]).expect("the chain drops").is_certain);
        let unknown = json!([[xt("set"), {"accept": null}]]);
        assert_eq!(check_ruleset("drop", &[("input", unknown)]), None);
    }
}
