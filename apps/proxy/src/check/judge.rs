//! Findings from the facts, with remedies.

use super::facts::{Facts, SharedAddress, Uplink};
use super::probe::{Attempt, Outcome};
use serde::Serialize;
use std::fmt;

/// One thing that two links need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// It is as it should be.
    pub good: bool,
    /// The finding.
    pub what: String,
    /// The remedy, if the finding is bad.
    pub remedy: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:3}  {}", if self.good { "yes" } else { "no" }, self.what)?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, "\n     -> {remedy}"))
    }
}

/// Appended to a command: how to keep its effect.
const HOW_TO_KEEP: &str = "   # or, kept so as links come and go: anabranch-proxy uplinks --config FILE";

/// Where uplink care does not do what is missing.
fn named(device: &str) -> String {
    format!(
        "name {device} in an [[uplink]] of its file, and see what anabranch-proxy uplinks says of it in the log"
    )
}

/// A good finding.
pub fn yes(what: impl Into<String>) -> Finding {
    Finding { good: true, what: what.into(), remedy: None }
}

/// A bad finding, with its remedy.
pub fn no(what: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { good: false, what: what.into(), remedy: Some(remedy.into()) }
}

/// The findings, those first on which others depend.
pub fn judge(facts: &Facts, attempt: Option<&Attempt>) -> Vec<Finding> {
    let mut findings = vec![kernel(facts)];
    if facts.enabled.is_none() {
        return findings;
    }
    findings.push(match facts.uplinks.as_slice() {
        [] => no("no interface that is up has an address", "connect the links"),
        // The address that it shares is the finding.
        [one] if !facts.shared.is_empty() => yes(format!("1 uplink: {} {}", one.device, one.address)),
        [one] => {
            no(format!("the only uplink is {} with {}", one.device, one.address), "connect a second link")
        }
        all => yes(format!("{} uplinks: {}", all.len(), names(all))),
    });
    findings.extend(facts.shared.iter().map(shared));
    if facts.cared {
        findings.push(yes("anabranch-proxy uplinks runs here"));
    }
    if facts.userspace {
        findings.push(no(
            "a program manages subflows (net.mptcp.pm_type = 1)",
            "sysctl -w net.mptcp.pm_type=0, unless mptcpd is meant to manage them",
        ));
    } else {
        findings.extend(limits(facts));
        findings.extend(facts.uplinks.iter().filter_map(|uplink| endpoint(facts, uplink)));
    }
    findings.extend(facts.uplinks.iter().enumerate().map(|(number, uplink)| route(facts, number, uplink)));
    findings.extend(attempt.iter().flat_map(|attempt| outcomes(facts, attempt)));
    findings
}

fn shared(SharedAddress { device, used, address }: &SharedAddress) -> Finding {
    no(
        format!("{device} has the same address as {used}, {address}: only one of them can be used"),
        format!(
            "give the modem at {device} another network, such as 192.168.9.0/24, on its settings page, and connect it again"
        ),
    )
}

fn names(uplinks: &[Uplink]) -> String {
    let names: Vec<_> =
        uplinks.iter().map(|uplink| format!("{} {}", uplink.device, uplink.address)).collect();
    names.join(", ")
}

fn kernel(facts: &Facts) -> Finding {
    match facts.enabled {
        Some(true) => yes("the kernel has Multipath TCP"),
        Some(false) => no("Multipath TCP is switched off", "sysctl -w net.mptcp.enabled=1"),
        None => no(
            "the kernel has no Multipath TCP",
            "a kernel from Linux 5.6 on with CONFIG_MPTCP, as most distributions have it",
        ),
    }
}

/// A connection may have a further subflow for each uplink beyond the first.
fn limits(facts: &Facts) -> Option<Finding> {
    let wanted = facts.uplinks.len().saturating_sub(1) as u32;
    let allowed = facts.subflows?;
    Some(if allowed < wanted {
        no(
            format!("connections may have {allowed} further subflows, but need {wanted}"),
            format!("ip mptcp limits set subflow {}", wanted.max(2)),
        )
    } else {
        yes(format!("connections may have {allowed} further subflows"))
    })
}

fn endpoint(facts: &Facts, uplink: &Uplink) -> Option<Finding> {
    let Uplink { address, device, leads_out, .. } = uplink;
    let known = facts.endpoints.as_ref()?.iter().find(|endpoint| endpoint.address == *address);
    let add = format!("ip mptcp endpoint add {address} dev {device} subflow");
    let missing = if facts.cared { named(device) } else { format!("{add}{HOW_TO_KEEP}") };
    Some(match known {
        None if !leads_out => no(
            format!("{device} {address} is no endpoint, and {device} has no default route"),
            format!(
                "if hosts are behind {device}, and it is no uplink: check --config with the file whose [router] names it; else \
                 give it a default route, then: {missing}"
            ),
        ),
        None => {
            no(format!("{device} {address} is no endpoint, so that no subflow is opened from it"), missing)
        }
        Some(endpoint) if !endpoint.opens => no(
            format!("{device} {address} is an endpoint that opens no subflows"),
            format!("ip mptcp endpoint del {address}; {add}"),
        ),
        Some(endpoint) if endpoint.backup => {
            yes(format!("{device} {address} is an endpoint, for when the others are dead (backup)"))
        }
        Some(_) => yes(format!("{device} {address} is an endpoint")),
    })
}

/// Packets with an uplink's address have to leave by it.
fn route(facts: &Facts, number: usize, uplink: &Uplink) -> Finding {
    let Uplink { device, address, gateway, leaves_by, .. } = uplink;
    if leaves_by.as_ref() == Some(device) {
        return yes(format!("packets from {address} leave by {device}"));
    }
    let table = 101 + number;
    let via = gateway.as_ref().map_or_else(|| "via GATEWAY".to_owned(), |gateway| format!("via {gateway}"));
    let remedy = format!(
        "ip rule add from {address} table {table}; ip route add default {via} dev {device} table {table}{HOW_TO_KEEP}"
    );
    let remedy = if facts.cared { named(device) } else { remedy };
    no(
        leaves_by.as_ref().map_or_else(
            || format!("packets from {address} leave by no interface, so that {device} is not used"),
            |other| format!("packets from {address} leave by {other} and not by {device}"),
        ),
        remedy,
    )
}

fn outcomes(facts: &Facts, attempt: &Attempt) -> Vec<Finding> {
    let to = attempt.to;
    let wanted = facts.uplinks.len() as u32;
    let device_of = |from: &core::net::IpAddr| {
        let uplink = facts.uplinks.iter().find(|uplink| uplink.address == *from);
        uplink.map_or_else(|| from.to_string(), |uplink| uplink.device.clone())
    };
    let one = |(from, outcome): &(core::net::IpAddr, Outcome)| match outcome {
        Outcome::Foreign => no(
            format!("{to} accepts connections from {from}, but another program than a proxy of ours answers"),
            format!(
                "a portal, transparent proxy or accelerator on {device} may answer in its place: log in with a browser over \
                 {device}, or have it switched off; if it is so over each link, see what listens at {to}",
                device = device_of(from)
            ),
        ),
        Outcome::Silent => no(
            format!("{to} accepts connections from {from}, but does not answer what is sent"),
            format!(
                "a portal, firewall or accelerator on {device} may accept connections in its place and drop the data: log in with \
                 a browser over {device}, or have it switched off; if it is so over each link, see what listens at {to}",
                device = device_of(from)
            ),
        ),
        Outcome::None(reason) => no(
            format!("{to} is not reached from {from}: {reason}"),
            format!("see that this works first: ping -I {from} {}", to.ip()),
        ),
        Outcome::Plain => no(
            format!("{to} answers {from} by TCP alone"),
            format!(
                "at {}: see that a proxy of ours listens there, and sysctl net.mptcp.enabled; if it answers others by \
                 Multipath TCP, something on this link takes the options out",
                to.ip()
            ),
        ),
        Outcome::Multipath(subflows) if *subflows < wanted => no(
            format!("{to} answers {from} by Multipath TCP, with {subflows} of {wanted} subflows"),
            format!(
                "apply the remedies above; if there are none, at {}: ip mptcp limits set subflow {wanted}",
                to.ip()
            ),
        ),
        Outcome::Multipath(subflows) => {
            yes(format!("{to} answers {from} by Multipath TCP, with {subflows} subflows"))
        }
    };
    attempt.from.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::Endpoint;
    use super::*;
    use core::net::IpAddr;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn uplink(device: &str, ip: &str) -> Uplink {
        let gateway = Some("192.0.2.254".to_owned());
        Uplink {
            device: device.to_owned(),
            address: address(ip),
            leads_out: true,
            gateway,
            leaves_by: Some(device.to_owned()),
        }
    }

    fn healthy() -> Facts {
        let uplinks = vec![uplink("wlan0", "192.0.2.1"), uplink("wwan0", "198.51.100.1")];
        let endpoints = uplinks.iter().map(|u| Endpoint { address: u.address, opens: true, backup: false });
        Facts {
            enabled: Some(true),
            userspace: false,
            cared: false,
            subflows: Some(2),
            endpoints: Some(endpoints.collect()),
            uplinks,
            shared: Vec::new(),
        }
    }

    fn attempt(outcomes: [Outcome; 2]) -> Attempt {
        let from = ["192.0.2.1", "198.51.100.1"].map(address).into_iter().zip(outcomes).collect();
        Attempt { to: "203.0.113.5:1080".parse().expect("an address"), from }
    }

    /// Bad findings, with their remedies.
    fn complaints(facts: &Facts, attempt: Option<&Attempt>) -> Vec<String> {
        let bad = judge(facts, attempt).into_iter().filter(|finding| !finding.good);
        bad.map(|finding| format!("{}; {}", finding.what, finding.remedy.expect("a remedy"))).collect()
    }

    #[test]
    fn healthy_machine_has_no_complaints() {
        let good = attempt([Outcome::Multipath(2), Outcome::Multipath(2)]);
        assert!(complaints(&healthy(), Some(&good)).is_empty());
        assert_eq!(judge(&healthy(), Some(&good)).len(), 9);
        // Without root the endpoints are unknown, and there is no finding about them.
        assert!(complaints(&Facts { endpoints: None, subflows: None, ..healthy() }, None).is_empty());
    }

    #[test]
    fn each_fault_has_its_remedy() {
        let mut no_endpoint = healthy();
        no_endpoint.endpoints = Some(vec![no_endpoint.endpoints.unwrap()[0]]);
        let mut announces = healthy();
        announces.endpoints.as_mut().unwrap()[1].opens = false;
        let mut wrong_way = healthy();
        wrong_way.uplinks[1].leaves_by = Some("wlan0".to_owned());
        let mut no_way = healthy();
        no_way.uplinks[1].leaves_by = None;
        no_way.uplinks[1].gateway = None;
        let mut behind = healthy();
        behind.endpoints.as_mut().unwrap().pop();
        behind.uplinks[1].leads_out = false;
        let alone = Facts { uplinks: vec![uplink("wlan0", "192.0.2.1")], ..healthy() };
        for (facts, said) in [
            (
                Facts {
                    shared: vec![SharedAddress {
                        device: "usb1".to_owned(),
                        used: "wlan0".to_owned(),
                        address: address("192.0.2.1"),
                    }],
                    ..healthy()
                },
                "usb1 has the same address as wlan0, 192.0.2.1: only one of them can be used; give the modem at usb1",
            ),
            (Facts { enabled: None, ..healthy() }, "CONFIG_MPTCP"),
            (Facts { enabled: Some(false), ..healthy() }, "sysctl -w net.mptcp.enabled=1"),
            (Facts { userspace: true, ..healthy() }, "net.mptcp.pm_type=0"),
            (
                Facts { subflows: Some(0), ..healthy() },
                "may have 0 further subflows, but need 1; ip mptcp limits set subflow 2",
            ),
            (alone, "the only uplink is wlan0"),
            (no_endpoint, "ip mptcp endpoint add 198.51.100.1 dev wwan0 subflow"),
            (behind, "has no default route; if hosts are behind wwan0, and it is no uplink: check --config"),
            (
                announces,
                "ip mptcp endpoint del 198.51.100.1; ip mptcp endpoint add 198.51.100.1 dev wwan0 subflow",
            ),
            (
                wrong_way,
                "packets from 198.51.100.1 leave by wlan0 and not by wwan0; ip rule add from 198.51.100.1 table 102; \
                 ip route add default via 192.0.2.254 dev wwan0 table 102",
            ),
            (
                no_way,
                "so that wwan0 is not used; ip rule add from 198.51.100.1 table 102; ip route add default via GATEWAY",
            ),
        ] {
            let complaints = complaints(&facts, None);
            assert!(complaints.len() == 1 && complaints[0].contains(said), "{said}: {complaints:?}");
        }
    }

    #[test]
    fn remedy_names_uplinks_file_if_it_runs() {
        let mut cared = Facts { cared: true, ..healthy() };
        cared.endpoints = Some(Vec::new());
        cared.uplinks[1].leaves_by = None;
        let complaints = complaints(&cared, None);
        assert_eq!(complaints.len(), 3);
        assert!(complaints.iter().all(|said| said.contains("[[uplink]]") && !said.contains("ip mptcp")));
    }

    #[test]
    fn outcomes_of_connecting_become_findings() {
        for (outcome, said) in [
            (
                Outcome::None("timed out".to_owned()),
                "is not reached from 198.51.100.1: timed out; see that this works first: ping -I",
            ),
            (Outcome::Plain, "answers 198.51.100.1 by TCP alone; at 203.0.113.5: "),
            (
                Outcome::Foreign,
                "another program than a proxy of ours answers; a portal, transparent proxy or accelerator on wwan0",
            ),
            (
                Outcome::Silent,
                "from 198.51.100.1, but does not answer what is sent; a portal, firewall or accelerator on wwan0",
            ),
            (
                Outcome::Multipath(1),
                "with 1 of 2 subflows; apply the remedies above; if there are none, at 203.0.113.5: ip mptcp limits",
            ),
        ] {
            let complaints = complaints(&healthy(), Some(&attempt([Outcome::Multipath(2), outcome])));
            assert!(complaints.len() == 1 && complaints[0].contains(said), "{said}: {complaints:?}");
        }
    }
}
