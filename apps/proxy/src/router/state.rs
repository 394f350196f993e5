//! What there is of a router on this machine, for `check`.

use super::commands::nft;
use super::install::{is_own, list, routes, runs};
use super::rules::{TABLE, families};
use crate::check::{Finding, no, yes};
use crate::config::Router;
use crate::error::Error;

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
        (true, true) => {
            yes(format!("nftables has the table {TABLE}, and table {} the routes", router.table.as_ref()))
        }
        (true, false) => no(
            "the router's rules or routes are gone, so that connections pass it by",
            "see what else sets up nftables or routes, then: systemctl restart anabranch-router",
        ),
        (false, true) => no("the rules of a router that was killed are still there; they do nothing", START),
        (false, false) => no("the router's rules and routes are not there", START),
    });
    for (path, name) in [
        ("ipv4/ip_forward", "net.ipv4.ip_forward"),
        ("ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding"),
    ] {
        let value = std::fs::read_to_string(format!("/proc/sys/net/{path}"));
        if value.is_ok_and(|value| value.trim() == "0") {
            findings.push(no(
                format!("{name} is 0, so that what is not sent by the proxy goes nowhere"),
                format!("sysctl -w {name}=1"),
            ));
        }
    }
    Ok(findings)
}

/// Whether rules and routes are there.
fn installed(router: &Router) -> Result<bool, Error> {
    let table = router.table.as_ref().to_string();
    for family in families() {
        let rules = list(family, "rule show")?;
        let ruled = rules.iter().any(|rule| is_own(rule) && rule["table"] == table.as_str());
        if !ruled || !routes(family, &table).iter().any(is_own) {
            return Ok(false);
        }
    }
    Ok(nft(&format!("list chain inet {TABLE} prerouting\n")).is_ok())
}
