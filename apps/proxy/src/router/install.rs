//! Installs and removes rules and routes. The removal includes those of an earlier router process that was killed.

use super::commands::{ip, nft, nft_check, nft_list};
use super::rules::{Family, PROTOCOL, Plan, TABLE, families, removal};
use crate::config::Router;
use crate::error::Error;
use serde_json::Value;

/// True if a router runs in this network namespace.
pub fn runs() -> bool {
    crate::instance_lock::runs(TABLE)
}

/// Installs a plan, after removing what a router left installed when it was killed.
///
/// # Errors
///
/// If another program uses the mark or the routing table, a program is missing, or the kernel refuses. Then nothing remains
/// installed.
pub fn install(router: &Router, plan: &Plan) -> Result<(), Error> {
    check_unused(router)?;
    remove()?;
    let installed = plan.ip.iter().try_for_each(|[add, _]| ip(add).map(drop));
    let installed = installed.and_then(|()| nft(&plan.nft).map_err(explain_refusal));
    if installed.is_err() {
        // Ignore errors of the removal: the first error shows the cause.
        drop(remove());
    }
    installed
}

/// Removes everything that a router installs.
///
/// # Errors
/// If a program is missing, or the kernel refuses.
pub fn remove() -> Result<(), Error> {
    nft(&removal())?;
    for family in families() {
        let option = family.option();
        for rule in list(family, "rule show")?.iter().filter(|rule| is_of_router(rule)) {
            ip(&format!("{option} rule del priority {} protocol {PROTOCOL}", rule["priority"]))?;
        }
        ip(&format!("{option} route flush table all proto {PROTOCOL}"))?;
    }
    Ok(())
}

/// Checks that no other program uses the mark or the routing table.
fn check_unused(router: &Router) -> Result<(), Error> {
    let (mark, table) = (*router.mark.as_ref(), router.table.as_ref().to_string());
    for family in families() {
        let option = family.option();
        let in_use = |resource: &str, command: &str, other: &str| {
            Err(Error::Refused(format!(
                "{resource} is in use by another program (see: ip {option} {command}); set another in [router], such as {other}"
            )))
        };
        for rule in list(family, "rule show")?.iter().filter(|rule| !is_of_router(rule)) {
            if rule["table"] == table.as_str() {
                return in_use(&format!("table {table}"), "rule show", "table = 1082");
            }
            if number(&rule["fwmark"]) & mark != 0 {
                return in_use(&format!("mark {mark:#x}"), "rule show", "mark = 0x4000000");
            }
        }
        if routes(family, &table).iter().any(|route| !is_of_router(route)) {
            return in_use(&format!("table {table}"), &format!("route show table {table}"), "table = 1082");
        }
    }
    Ok(())
}

/// Number of `RTN_LOCAL` in the output of `ip -N`.
const LOCAL: &str = "2";

/// Returns the commands of the plan that add missing rules and routes, each with the command that reverts it.
pub fn missing(router: &Router, plan: &Plan) -> Vec<[String; 2]> {
    let (mark, table) = (*router.mark.as_ref(), router.table.as_ref().to_string());
    let has_rule = |family| {
        // If `ip` fails, the rule is assumed to exist, so that no rule is added twice.
        list(family, "rule show").map_or(true, |rules| {
            rules.iter().any(|rule| {
                let has_mask = rule["fwmask"].is_null() || number(&rule["fwmask"]) == mark;
                rule["table"] == table.as_str() && number(&rule["fwmark"]) == mark && has_mask
            })
        })
    };
    let has_route = |family| {
        let is_local = |route: &Value| route["type"] == LOCAL && route["dst"] == "default";
        routes(family, &table).iter().any(is_local)
    };
    let mut missing = Vec::new();
    for (family, commands) in families().into_iter().zip(plan.ip.chunks(2)) {
        for (command, is_there) in commands.iter().zip([has_route(family), has_rule(family)]) {
            if !is_there {
                missing.push(command.clone());
            }
        }
    }
    missing
}

/// Returns the nftables table as `nft` lists it.
///
/// # Errors
/// If the table does not exist.
pub fn list_table() -> Result<String, Error> {
    nft_list(&format!("-s list table inet {TABLE}"))
}

/// True if the nftables table exists and intercepts connections.
pub fn has_table() -> bool {
    list_table().is_ok_and(|listed| listed.contains("tproxy"))
}

/// Returns all nftables rules without the elements of sets; `None` if `nft` fails.
pub fn ruleset() -> Option<Value> {
    serde_json::from_str(&nft_list("-j -t list ruleset").ok()?).ok()
}

/// Returns the routes of a table.
pub fn routes(family: Family, table: &str) -> Vec<Value> {
    // For a table without routes `ip` fails, as if the table did not exist.
    list(family, &format!("route show table {table}")).unwrap_or_default()
}

/// Lists objects with `ip -j`.
///
/// # Errors
///
/// The message of `ip` if the program fails.
pub fn list(family: Family, command: &str) -> Result<Vec<Value>, Error> {
    let printed = ip(&format!("{} -N -j {command}", family.option()))?;
    serde_json::from_str(&printed)
        .map_err(|error| Error::Refused(format!("cannot parse the output of ip {command}: {error}")))
}

/// True if a router installed this rule or route: only routers use the protocol number.
pub fn is_of_router(entry: &Value) -> bool {
    entry["protocol"] == PROTOCOL.to_string().as_str()
}

/// Parses a number such as `"0x8000000"`.
fn number(text: &Value) -> u32 {
    let digits = text.as_str().and_then(|text| text.strip_prefix("0x"));
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// Kernel options that the router needs, each with a rule that the kernel accepts only with this option.
const NEEDED: [(&str, &str); 4] = [
    ("CONFIG_NF_TABLES_INET", "accept"),
    ("CONFIG_NFT_SOCKET", "socket transparent 1 accept"),
    ("CONFIG_NFT_FIB_INET", "fib daddr type local accept"),
    ("CONFIG_NFT_TPROXY", "meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:1 accept"),
];

/// Adds the missing kernel option to an error, if a missing option is the cause.
fn explain_refusal(refusal: Error) -> Error {
    let refused = |(_, rule): &&(&str, &str)| {
        let chain = format!("chain prerouting {{ type filter hook prerouting priority mangle; {rule}; }}");
        nft_check(&format!("table inet {TABLE}-needs {{ {chain} }}\n")).is_err()
    };
    match NEEDED.iter().find(refused) {
        Some((option, _)) => Error::Refused(format!(
            "the kernel refuses the rules, probably because it was built without {option} ({refusal})"
        )),
        None => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules are output of iproute2 6.1.
    #[test]
    fn rules_of_a_router_are_recognized() {
        let json = r#"[{"priority":0,"src":"all","table":"255"},
            {"priority":500,"src":"all","fwmark":"0x8000000","fwmask":"0x8000000","table":"1081","protocol":"197"}]"#;
        let rules: Vec<Value> = serde_json::from_str(json).expect("JSON");
        assert_eq!(rules.iter().map(is_of_router).collect::<Vec<_>>(), [false, true]);
        assert_eq!(rules.iter().map(|rule| number(&rule["fwmark"])).collect::<Vec<_>>(), [0, 1 << 27]);
    }
}
