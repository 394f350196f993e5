//! Events of flows: backups of Multipath TCP, and primary destinations of SCTP.

use super::LinkIndex;
use super::flow::{links_at, links_of_ends};
use crate::check::link_and_version;
use crate::error::{Fault, quoted};
use crate::model::{Directions, Flow, FlowChange, IpVersion, IpVersions, Link, Protocol};
use crate::suggest::remedy;
use crate::values::{Checked, Value};

/// The change of a flow that an entry of `set` declares.
pub(super) fn change(
    entry: &Checked,
    flow: &Flow,
    owner: &str,
    (links, ip): ((&[Link], &LinkIndex), IpVersions),
) -> Result<FlowChange, Fault> {
    let key = entry.key;
    let fault = |message: String| Fault::new(entry.origin, format!("{key} of {owner} {message}"));
    let (name, protocol) = (quoted(&flow.name), flow.protocol.name());
    match (key, &flow.protocol) {
        ("backup", Protocol::Mptcp(_)) => {
            let names: Vec<&str> = entry.value.list().iter().map(Value::text).collect();
            let found = links_of_ends([&flow.from, flow.meets()], &names, links);
            found.map(FlowChange::Backup).map_err(|problem| fault(format!("is wrong: {problem}")))
        }
        ("primary", Protocol::Sctp(_)) => {
            let receiver = if flow.direction == Directions::Reverse { &flow.from } else { &flow.to };
            let names = links_at(links.0, &[receiver]);
            let (wanted, version) = link_and_version(entry.value.text());
            let Some(&link) = links.1.0.get(wanted).filter(|_| names.contains(&wanted)) else {
                let remedy = remedy(wanted, &names, &format!("links of {}", quoted(receiver)));
                let shown = quoted(wanted);
                return Err(fault(format!(
                    "is {shown}, which is not a link of the receiving host; {remedy}"
                )));
            };
            match (links.0[link].versions(ip), version) {
                (IpVersions::Both, None) => {
                    let [one, other] = [IpVersion::V4, IpVersion::V6]
                        .map(|version| quoted(&format!("{wanted}{}", version.suffix())));
                    Err(fault(format!(
                        "is ambiguous, because {} has addresses of both versions of IP; write {one} or {other}",
                        quoted(wanted)
                    )))
                }
                (versions, Some(version)) if !versions.has(version) => Err(fault(format!(
                    "is {}, but the link has no address of this version of IP; write {}",
                    quoted(entry.value.text()),
                    quoted(wanted)
                ))),
                _ => Ok(FlowChange::Primary(link, version)),
            }
        }
        ("backup", _) => Err(fault(format!(
            "needs Multipath TCP, but flow {name} is {protocol}; remove the event, or set protocol = \"mptcp\""
        ))),
        ("primary", _) => Err(fault(format!(
            "needs SCTP, but flow {name} is {protocol}; remove the event, or set protocol = \"sctp\" or \"cmt-sctp\""
        ))),
        _ => panic!("the table of keys has an unknown change {key} of a flow"),
    }
}
