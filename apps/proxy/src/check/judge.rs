//! Derives findings and remedies from the facts.

use super::facts::{Facts, SharedAddress, Uplink};
use super::probe::{Attempt, Outcome};
use serde::Serialize;
use std::fmt;

/// A finding about a requirement for the use of several links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// True if the requirement is met.
    pub good: bool,
    /// Description of the finding.
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

/// Shell comment appended to a remedy's command: how to make the effect of the command permanent.
const PERMANENT_HINT: &str = "   # or permanently: anabranch-proxy uplinks --config FILE";

/// Returns the remedy for an interface that `anabranch-proxy uplinks`, which runs on this machine, does not manage.
fn remedy_in_uplinks_file(device: &str) -> String {
    format!("add {device} as an [[uplink]] to the file of anabranch-proxy uplinks, and read its log")
}

/// Creates a finding of a met requirement.
pub fn good_finding(what: impl Into<String>) -> Finding {
    Finding { good: true, what: what.into(), remedy: None }
}

/// Creates a finding of an unmet requirement, with its remedy.
pub fn bad_finding(what: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { good: false, what: what.into(), remedy: Some(remedy.into()) }
}

/// Derives all findings. A finding comes before those that depend on it.
pub fn judge(facts: &Facts, attempt: Option<&Attempt>) -> Vec<Finding> {
    let mut findings = vec![kernel(facts)];
    if facts.enabled.is_none() {
        return findings;
    }
    findings.push(match facts.uplinks.as_slice() {
        [] => bad_finding("no active interface has an address", "connect the links"),
        // The shared address is reported below as the fault, so the single uplink is not.
        [one] if !facts.shared.is_empty() => {
            good_finding(format!("1 uplink: {} {}", one.device, one.address))
        }
        [one] => bad_finding(
            format!("the only uplink is {} with {}", one.device, one.address),
            "connect a second link",
        ),
        all => good_finding(format!("{} uplinks: {}", all.len(), names(all))),
    });
    findings.extend(facts.shared.iter().map(shared));
    if facts.uplinks_program_runs {
        findings.push(good_finding("anabranch-proxy uplinks runs here"));
    }
    if facts.userspace {
        findings.push(bad_finding(
            "a path manager in user space opens subflows (net.mptcp.pm_type = 1)",
            "sysctl -w net.mptcp.pm_type=0, unless mptcpd is to open them",
        ));
    } else {
        findings.extend(limits(facts));
        findings.extend(facts.uplinks.iter().filter_map(|uplink| endpoint(facts, uplink)));
    }
    findings.extend(facts.uplinks.iter().enumerate().map(|(number, uplink)| route(facts, number, uplink)));
    findings.extend(attempt.iter().flat_map(|attempt| outcomes(facts, attempt)));
    findings
}

/// Creates the finding about two interfaces with the same address.
fn shared(SharedAddress { device, used, address }: &SharedAddress) -> Finding {
    bad_finding(
        format!("{device} has the same address as {used}, {address}: only one of them can be used"),
        format!(
            "give the modem at {device} another network, such as 192.168.9.0/24, on its settings page, and connect it again"
        ),
    )
}

/// Lists interface and address of each uplink, for a message.
fn names(uplinks: &[Uplink]) -> String {
    let names: Vec<_> =
        uplinks.iter().map(|uplink| format!("{} {}", uplink.device, uplink.address)).collect();
    names.join(", ")
}

/// Creates the finding about Multipath TCP in the kernel.
fn kernel(facts: &Facts) -> Finding {
    match facts.enabled {
        Some(true) => good_finding("the kernel has Multipath TCP"),
        Some(false) => bad_finding("Multipath TCP is switched off", "sysctl -w net.mptcp.enabled=1"),
        None => bad_finding(
            "the kernel has no Multipath TCP",
            "install a kernel with CONFIG_MPTCP (Linux 5.6 or later), as in most distributions",
        ),
    }
}

/// Compares the kernel's limit of further subflows with the need of a connection: one for each uplink after the first.
fn limits(facts: &Facts) -> Option<Finding> {
    let needed = facts.uplinks.len().saturating_sub(1) as u32;
    let allowed = facts.subflows?;
    Some(if allowed < needed {
        bad_finding(
            format!("connections may have {allowed} further subflows, but need {needed}"),
            format!("ip mptcp limits set subflow {}", needed.max(2)),
        )
    } else {
        good_finding(format!("connections may have {allowed} further subflows"))
    })
}

/// Creates the finding about the path manager's endpoint of an uplink.
fn endpoint(facts: &Facts, uplink: &Uplink) -> Option<Finding> {
    let Uplink { address, device, has_default_route, .. } = uplink;
    let known = facts.endpoints.as_ref()?.iter().find(|endpoint| endpoint.address == *address);
    let add = format!("ip mptcp endpoint add {address} dev {device} subflow");
    let missing = if facts.uplinks_program_runs {
        remedy_in_uplinks_file(device)
    } else {
        format!("{add}{PERMANENT_HINT}")
    };
    Some(match known {
        None if !has_default_route => bad_finding(
            format!("{device} {address} is not an endpoint, and {device} has no default route"),
            format!(
                "if {device} is a LAN interface: run check --config with the file whose [router] contains it; otherwise give it \
                a default route, then: {missing}"
            ),
        ),
        None => bad_finding(
            format!("{device} {address} is not an endpoint, so no subflow is opened from it"),
            missing,
        ),
        Some(endpoint) if !endpoint.opens => bad_finding(
            format!("{device} {address} is an endpoint that opens no subflows"),
            format!("ip mptcp endpoint del {address}; {add}"),
        ),
        Some(endpoint) if endpoint.backup => good_finding(format!("{device} {address} is a backup endpoint")),
        Some(_) => good_finding(format!("{device} {address} is an endpoint")),
    })
}

/// Checks that the kernel routes packets from an uplink's address over this uplink.
fn route(facts: &Facts, number: usize, uplink: &Uplink) -> Finding {
    let Uplink { device, address, gateway, egress_interface, .. } = uplink;
    if egress_interface.as_ref() == Some(device) {
        return good_finding(format!("packets from {address} are routed over {device}"));
    }
    let table = 101 + number;
    let via = gateway.as_ref().map_or_else(|| "via GATEWAY".to_owned(), |gateway| format!("via {gateway}"));
    let remedy = format!(
        "ip rule add from {address} table {table}; ip route add default {via} dev {device} table {table}{PERMANENT_HINT}"
    );
    let remedy = if facts.uplinks_program_runs { remedy_in_uplinks_file(device) } else { remedy };
    bad_finding(
        egress_interface.as_ref().map_or_else(
            || format!("packets from {address} have no route, so {device} is not used"),
            |other| format!("packets from {address} are routed over {other} instead of {device}"),
        ),
        remedy,
    )
}

/// Creates the findings from test connections.
fn outcomes(facts: &Facts, attempt: &Attempt) -> Vec<Finding> {
    let to = attempt.to;
    let needed = facts.uplinks.len() as u32;
    let device_of = |from: &core::net::IpAddr| {
        let uplink = facts.uplinks.iter().find(|uplink| uplink.address == *from);
        uplink.map_or_else(|| from.to_string(), |uplink| uplink.device.clone())
    };
    let one = |(from, outcome): &(core::net::IpAddr, Outcome)| match outcome {
        Outcome::Foreign => bad_finding(
            format!(
                "{to} accepts connections from {from}, but another program than an Anabranch proxy answers"
            ),
            format!(
                "a captive portal, transparent proxy or accelerator on {device} may answer in its place: log in with a browser over \
                {device}, or switch it off; if this happens on every link, check which program listens on {to}",
                device = device_of(from)
            ),
        ),
        Outcome::Silent => bad_finding(
            format!("{to} accepts connections from {from}, but does not answer the probe"),
            format!(
                "a captive portal, firewall or accelerator on {device} may accept connections in its place and drop the data: log in with \
                a browser over {device}, or switch it off; if this happens on every link, check which program listens on {to}",
                device = device_of(from)
            ),
        ),
        Outcome::None(reason) => bad_finding(
            format!("{to} is not reached from {from}: {reason}"),
            format!("first make this work: ping -I {from} {}", to.ip()),
        ),
        Outcome::Plain => bad_finding(
            format!("{to} answers {from} with TCP only"),
            format!(
                "on {}: check that an Anabranch proxy listens, and that net.mptcp.enabled is 1; if others reach it with \
                Multipath TCP, a device on this link removes the TCP options",
                to.ip()
            ),
        ),
        Outcome::Multipath(subflows) if *subflows < needed => bad_finding(
            format!("{to} answers {from} with Multipath TCP and {subflows} of {needed} subflows"),
            format!(
                "apply the remedies above; if there are none, run on {}: ip mptcp limits set subflow {needed}",
                to.ip()
            ),
        ),
        Outcome::Multipath(subflows) => {
            good_finding(format!("{to} answers {from} with Multipath TCP and {subflows} subflows"))
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
            has_default_route: true,
            gateway,
            egress_interface: Some(device.to_owned()),
        }
    }

    /// Facts without a fault.
    fn healthy() -> Facts {
        let uplinks = vec![uplink("wlan0", "192.0.2.1"), uplink("wwan0", "198.51.100.1")];
        let endpoints = uplinks.iter().map(|u| Endpoint { address: u.address, opens: true, backup: false });
        Facts {
            enabled: Some(true),
            userspace: false,
            uplinks_program_runs: false,
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

    /// Returns the bad findings with their remedies.
    fn complaints(facts: &Facts, attempt: Option<&Attempt>) -> Vec<String> {
        let bad = judge(facts, attempt).into_iter().filter(|finding| !finding.good);
        bad.map(|finding| format!("{}; {}", finding.what, finding.remedy.expect("a remedy"))).collect()
    }

    #[test]
    fn healthy_machine_has_no_complaints() {
        let good = attempt([Outcome::Multipath(2), Outcome::Multipath(2)]);
        assert!(complaints(&healthy(), Some(&good)).is_empty());
        assert_eq!(judge(&healthy(), Some(&good)).len(), 9);
        // A process without root cannot read endpoints and limits, so there is no finding about them.
        assert!(complaints(&Facts { endpoints: None, subflows: None, ..healthy() }, None).is_empty());
    }

    #[test]
    fn each_fault_has_its_remedy() {
        let mut no_endpoint = healthy();
        no_endpoint.endpoints = Some(vec![no_endpoint.endpoints.unwrap()[0]]);
        let mut announces = healthy();
        announces.endpoints.as_mut().unwrap()[1].opens = false;
        let mut wrong_way = healthy();
        wrong_way.uplinks[1].egress_interface = Some("wlan0".to_owned());
        let mut no_way = healthy();
        no_way.uplinks[1].egress_interface = None;
        no_way.uplinks[1].gateway = None;
        let mut behind = healthy();
        behind.endpoints.as_mut().unwrap().pop();
        behind.uplinks[1].has_default_route = false;
        let alone = Facts { uplinks: vec![uplink("wlan0", "192.0.2.1")], ..healthy() };
        for (facts, expected) in [
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
            (behind, "has no default route; if wwan0 is a LAN interface: run check --config"),
            (
                announces,
                "ip mptcp endpoint del 198.51.100.1; ip mptcp endpoint add 198.51.100.1 dev wwan0 subflow",
            ),
            (
                wrong_way,
                "packets from 198.51.100.1 are routed over wlan0 instead of wwan0; ip rule add from 198.51.100.1 table 102; \
                 ip route add default via 192.0.2.254 dev wwan0 table 102",
            ),
            (
                no_way,
                "so wwan0 is not used; ip rule add from 198.51.100.1 table 102; ip route add default via GATEWAY",
            ),
        ] {
            let complaints = complaints(&facts, None);
            assert!(complaints.len() == 1 && complaints[0].contains(expected), "{expected}: {complaints:?}");
        }
    }

    #[test]
    fn remedy_names_uplinks_file_if_it_runs() {
        let mut uplinks_program_runs = Facts { uplinks_program_runs: true, ..healthy() };
        uplinks_program_runs.endpoints = Some(Vec::new());
        uplinks_program_runs.uplinks[1].egress_interface = None;
        let complaints = complaints(&uplinks_program_runs, None);
        assert_eq!(complaints.len(), 3);
        assert!(
            complaints
                .iter()
                .all(|expected| expected.contains("[[uplink]]") && !expected.contains("ip mptcp"))
        );
    }

    #[test]
    fn outcomes_of_connecting_become_findings() {
        for (outcome, expected) in [
            (
                Outcome::None("timed out".to_owned()),
                "is not reached from 198.51.100.1: timed out; first make this work: ping -I",
            ),
            (Outcome::Plain, "answers 198.51.100.1 with TCP only; on 203.0.113.5: "),
            (
                Outcome::Foreign,
                "another program than an Anabranch proxy answers; a captive portal, transparent proxy or accelerator on wwan0",
            ),
            (
                Outcome::Silent,
                "from 198.51.100.1, but does not answer the probe; a captive portal, firewall or accelerator on wwan0",
            ),
            (
                Outcome::Multipath(1),
                "and 1 of 2 subflows; apply the remedies above; if there are none, run on 203.0.113.5: ip mptcp limits",
            ),
        ] {
            let complaints = complaints(&healthy(), Some(&attempt([Outcome::Multipath(2), outcome])));
            assert!(complaints.len() == 1 && complaints[0].contains(expected), "{expected}: {complaints:?}");
        }
    }
}
