//! Installing the rules and routes, and removing them, also those that a router left which was killed.

use super::commands::{ip, nft, nft_list, nft_would_take};
use super::rules::{Family, PROTOCOL, Plan, TABLE, families, removal};
use crate::config::Router;
use crate::error::Error;
use serde_json::Value;

/// Whether a router runs here.
pub fn runs() -> bool {
    crate::instance_lock::runs(TABLE)
}

/// Installs a plan, after it has removed the remains of a router that was killed.
///
/// # Errors
///
/// If another program uses the mark or the table, a program is missing, or the kernel refuses. Nothing stays installed then.
pub fn install(router: &Router, plan: &Plan) -> Result<(), Error> {
    free(router)?;
    remove()?;
    let installed = plan.ip.iter().try_for_each(|[add, _]| ip(add).map(drop));
    let installed = installed.and_then(|()| nft(&plan.nft).map_err(explain));
    if installed.is_err() {
        // The first failure is the one that says why.
        drop(remove());
    }
    installed
}

/// Removes all that a router installs.
///
/// # Errors
/// If a program is missing, or the kernel refuses.
pub fn remove() -> Result<(), Error> {
    nft(&removal())?;
    for family in families() {
        let option = family.option();
        for rule in list(family, "rule show")?.iter().filter(|rule| is_own(rule)) {
            ip(&format!("{option} rule del priority {} protocol {PROTOCOL}", rule["priority"]))?;
        }
        ip(&format!("{option} route flush table all proto {PROTOCOL}"))?;
    }
    Ok(())
}

/// Checks that no other program uses mark and table.
fn free(router: &Router) -> Result<(), Error> {
    let (mark, table) = (*router.mark.as_ref(), router.table.as_ref().to_string());
    for family in families() {
        let option = family.option();
        let taken = |what: &str, where_from: &str, other: &str| {
            Err(Error::Refused(format!(
                "{what} is in use by another program (see: ip {option} {where_from}); give [router] another, such as {other}"
            )))
        };
        for rule in list(family, "rule show")?.iter().filter(|rule| !is_own(rule)) {
            if rule["table"] == table.as_str() {
                return taken(&format!("table {table}"), "rule show", "table = 1082");
            }
            if number(&rule["fwmark"]) & mark != 0 {
                return taken(&format!("mark {mark:#x}"), "rule show", "mark = 0x4000000");
            }
        }
        if routes(family, &table).iter().any(|route| !is_own(route)) {
            return taken(&format!("table {table}"), &format!("route show table {table}"), "table = 1082");
        }
    }
    Ok(())
}

/// `RTN_LOCAL`, as `ip -N` prints it.
const LOCAL: &str = "2";

/// The commands of a plan whose rule or route is missing.
pub fn missing(router: &Router, plan: &Plan) -> Vec<[String; 2]> {
    let (mark, table) = (*router.mark.as_ref(), router.table.as_ref().to_string());
    let has_rule = |family| {
        // Where `ip` cannot be asked, nothing is put back.
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

/// The table of nftables as `nft` lists it.
///
/// # Errors
/// If there is none.
pub fn list_table() -> Result<String, Error> {
    nft_list(&format!("-s list table inet {TABLE}"))
}

/// Whether nftables has a table that hands over connections.
pub fn has_table() -> bool {
    list_table().is_ok_and(|listed| listed.contains("tproxy"))
}

/// All rules of nftables, without the elements of sets; nothing if they cannot be read.
pub fn ruleset() -> Option<Value> {
    serde_json::from_str(&nft_list("-j -t list ruleset").ok()?).ok()
}

/// The routes of a table.
pub fn routes(family: Family, table: &str) -> Vec<Value> {
    // A table without routes there is not, and `ip` takes that for a failure.
    list(family, &format!("route show table {table}")).unwrap_or_default()
}

/// A list of `ip`.
///
/// # Errors
///
/// The message of `ip` if it fails.
pub fn list(family: Family, what: &str) -> Result<Vec<Value>, Error> {
    let printed = ip(&format!("{} -N -j {what}", family.option()))?;
    serde_json::from_str(&printed)
        .map_err(|error| Error::Refused(format!("cannot read the output of ip for {what}: {error}")))
}

/// Whether a router has put a rule or a route there.
pub fn is_own(entry: &Value) -> bool {
    entry["protocol"] == PROTOCOL.to_string().as_str()
}

/// `"0x8000000"`
fn number(text: &Value) -> u32 {
    let digits = text.as_str().and_then(|text| text.strip_prefix("0x"));
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// Options that the kernel needs, each with a rule that depends on it.
const NEEDED: [(&str, &str); 4] = [
    ("CONFIG_NF_TABLES_INET", "accept"),
    ("CONFIG_NFT_SOCKET", "socket transparent 1 accept"),
    ("CONFIG_NFT_FIB_INET", "fib daddr type local accept"),
    ("CONFIG_NFT_TPROXY", "meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:1 accept"),
];

/// Which part of the kernel is missing, if that is why it has refused.
fn explain(refusal: Error) -> Error {
    let refused = |(_, rule): &&(&str, &str)| {
        let chain = format!("chain prerouting {{ type filter hook prerouting priority mangle; {rule}; }}");
        nft_would_take(&format!("table inet {TABLE}-needs {{ {chain} }}\n")).is_err()
    };
    match NEEDED.iter().find(refused) {
        Some((option, _)) => Error::Refused(format!(
            "the kernel does not take the rules, as if it had been built without {option} ({refusal})"
        )),
        None => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As iproute2 6.1 prints them.
    #[test]
    fn our_own_rules_are_known() {
        let json = r#"[{"priority":0,"src":"all","table":"255"},
            {"priority":500,"src":"all","fwmark":"0x8000000","fwmask":"0x8000000","table":"1081","protocol":"197"}]"#;
        let rules: Vec<Value> = serde_json::from_str(json).expect("JSON");
        assert_eq!(rules.iter().map(is_own).collect::<Vec<_>>(), [false, true]);
        assert_eq!(rules.iter().map(|rule| number(&rule["fwmark"])).collect::<Vec<_>>(), [0, 1 << 27]);
    }
}
