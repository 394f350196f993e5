//! Findings about the router on this machine, for the command `check`.

use super::firewall::{DroppingChain, find_dropping_chain, packets};
use super::install::{has_table, list, missing, ruleset, runs};
use super::names::NamedAddresses;
use super::rules::{Family, TABLE, families, plan};
use crate::check::{Finding, bad_finding, good_finding};
use crate::config::Router;
use crate::error::Error;

/// Remedy if no router runs: the commands that start it.
const START: &str = "systemctl start anabranch-router, or: anabranch-proxy router --config FILE";

/// Derives all findings. A finding comes before those that depend on it.
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
            bad_finding(
                format!("the interface {name} does not exist"),
                "write the LAN interfaces in [router] interfaces",
            )
        })
        .collect();
    let running = runs();
    let installed = installed(router)?;
    findings.push(if running {
        good_finding("a router runs on this machine")
    } else {
        bad_finding("no router runs on this machine", START)
    });
    findings.push(match (running, installed) {
        (true, Installed { routing: true, table: true }) => good_finding(format!(
            "the nftables table {TABLE} and the routes of table {} are installed",
            router.table.as_ref()
        )),
        (true, Installed { routing: false, table: true }) => bad_finding(
            "a rule or route of the router is missing, so connections of hosts hang",
            format!(
                "find the program that changes rules and routes, and read the router's log; {}",
                how_to_restore(router)
            ),
        ),
        (true, Installed { table: false, .. }) => bad_finding(
            format!("the nftables table {TABLE} is missing, so connections bypass the proxy"),
            format!(
                "find the program that changes nftables, rules or routes, and read the router's log; {}",
                how_to_restore(router)
            ),
        ),
        (false, Installed { routing: true, table: true }) => {
            bad_finding("rules of a router that was killed are still installed; they have no effect", START)
        }
        (false, _) => bad_finding("the router's rules and routes are not installed", START),
    });
    let rules = ruleset();
    let (interfaces, mark) = (router.interfaces.as_ref(), *router.mark.as_ref());
    let found = rules.and_then(|rules| find_dropping_chain(&rules, &packets(router), interfaces, mark));
    findings.extend(found.map(|DroppingChain { chain, remedy, is_certain }| {
        let drops = if is_certain { "drops" } else { "may drop" };
        bad_finding(format!("the chain {chain} {drops} intercepted packets"), remedy)
    }));
    for (path, name) in [
        ("ipv4/ip_forward", "net.ipv4.ip_forward"),
        ("ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding"),
    ] {
        let value = std::fs::read_to_string(format!("/proc/sys/net/{path}"));
        if value.is_ok_and(|value| value.trim() == "0") {
            findings.push(bad_finding(
                format!("{name} is 0: packets that bypass the proxy are not forwarded"),
                format!("sysctl -w {name}=1"),
            ));
        }
    }
    Ok(findings)
}

fn how_to_restore(router: &Router) -> String {
    if router.install {
        "the router restores them within a second if it can".to_owned()
    } else {
        "restore them with the commands of: anabranch-proxy router --config FILE --print".to_owned()
    }
}

/// Parts of a router that are installed in the kernel.
struct Installed {
    /// True if rules and routes are installed.
    routing: bool,
    /// True if the nftables table is installed.
    table: bool,
}

fn installed(router: &Router) -> Result<Installed, Error> {
    // This call fails if the program `ip` is missing; the calls below would report rules as missing then.
    list(Family::V4, "rule show")?;
    let plan = plan(router, &families(), &NamedAddresses::default());
    Ok(Installed { routing: missing(router, &plan).is_empty(), table: has_table() })
}
