//! State of a router on this machine, for `check`.

use super::firewall::{Dropping, dropping};
use super::install::{has_table, list, missing, ruleset, runs};
use super::rules::{Family, TABLE, families, plan};
use crate::check::{Finding, no, yes};
use crate::config::Router;
use crate::error::Error;
use std::collections::BTreeSet;

const START: &str = "systemctl start anabranch-router, or: anabranch-proxy router --config FILE";

/// The findings, those first on which others depend.
///
/// # Errors
/// If the program `ip` is missing.
pub fn findings(router: &Router) -> Result<Vec<Finding>, Error> {
    let missing = |name: &&String| !std::path::Path::new("/sys/class/net").join(name).exists();
    let mut findings: Vec<_> = router
        .interfaces
        .as_ref()
        .iter()
        .filter(missing)
        .map(|name| {
            no(
                format!("there is no interface {name}"),
                "name the interfaces of the hosts in [router] interfaces",
            )
        })
        .collect();
    let running = runs();
    let installed = installed(router)?;
    findings.push(if running { yes("a router runs here") } else { no("no router runs here", START) });
    findings.push(match (running, installed) {
        (true, Installed { routing: true, table: true }) => {
            yes(format!("nftables has the table {TABLE}, and table {} the routes", router.table.as_ref()))
        }
        (true, Installed { routing: false, table: true }) => no(
            "a rule or route of the router is gone, so that connections of hosts hang",
            format!("see what else changes rules and routes, and the router's log; {}", put_back(router)),
        ),
        (true, Installed { table: false, .. }) => no(
            format!("nftables has no table {TABLE}, so that connections pass the router by"),
            format!(
                "see what else changes nftables, rules or routes, and the router's log; {}",
                put_back(router)
            ),
        ),
        (false, Installed { routing: true, table: true }) => {
            no("the rules of a router that was killed are still there; they do nothing", START)
        }
        (false, _) => no("the router's rules and routes are not there", START),
    });
    let rules = ruleset();
    let (interfaces, mark) = (router.interfaces.as_ref(), *router.mark.as_ref());
    let found = rules.and_then(|rules| dropping(&rules, &families(), interfaces, mark));
    findings.extend(found.map(|Dropping { chain, remedy, is_certain }| {
        let drops = if is_certain { "drops" } else { "may drop" };
        no(
            format!("the chain {chain} {drops} the packets of hosts that the kernel hands to the router"),
            remedy,
        )
    }));
    for (path, name) in [
        ("ipv4/ip_forward", "net.ipv4.ip_forward"),
        ("ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding"),
    ] {
        let value = std::fs::read_to_string(format!("/proc/sys/net/{path}"));
        if value.is_ok_and(|value| value.trim() == "0") {
            findings.push(no(
                format!("{name} is 0: packets that do not go through the proxy are not forwarded"),
                format!("sysctl -w {name}=1"),
            ));
        }
    }
    Ok(findings)
}

fn put_back(router: &Router) -> String {
    if router.install {
        "it puts them back within a second if it can".to_owned()
    } else {
        "put them back: anabranch-proxy router --config FILE --print".to_owned()
    }
}

/// Parts of a router that are installed.
struct Installed {
    /// Rules and routes.
    routing: bool,
    /// The table of nftables.
    table: bool,
}

fn installed(router: &Router) -> Result<Installed, Error> {
    // Without the program ip there is no answer.
    list(Family::V4, "rule show")?;
    let plan = plan(router, &families(), &BTreeSet::new());
    Ok(Installed { routing: missing(router, &plan).is_empty(), table: has_table() })
}
