//! Checks of addresses: shared and several ones, and the version of IP of each flow's first path.

use super::flow::{Placed, is_host, placed_of};
use super::{Element, LinkIndex, find_link};
use crate::error::{Fault, Origin, quoted};
use crate::model::{IpVersion, IpVersions, Link, Scenario, Scope, SharedAddress};
use anabranch_netem::network::{BuildError, MAX_RENUMBERED_LINKS};
use anabranch_netem::{InterfaceAddress, Network};

/// Sets the links whose ends use addresses of other links, and checks the addresses of all links.
pub(super) fn links(
    elements: &[Element<'_>],
    links: &mut [Link],
    (ip, flows): (IpVersions, &[Placed]),
) -> Result<(), Fault> {
    let index = LinkIndex::of(links);
    for (at, element) in elements.iter().enumerate() {
        if let Some(node) = element.table.get("address_of") {
            let name = element.table.text("address_of").expect("the table of keys requires a name");
            let fault = |problem: String| {
                let owner = quoted(&links[at].name);
                Fault::new(node.origin, format!("address_of of link {owner} {problem}"))
            };
            let other =
                find_link(links, &index, name).map_err(|problem| fault(format!("is wrong: {problem}")))?;
            let shares = |link: usize| elements[link].table.get("address_of").is_some();
            let shared = shared(links, [at, other], (ip, flows), shares(other)).map_err(fault)?;
            links[at].address_of = Some(shared);
        }
    }
    for (at, (link, element)) in links.iter().zip(elements).enumerate() {
        if link.addresses == [1, 1] {
            continue;
        }
        let owner = quoted(&link.name);
        let problem = if link.scope == Scope::Link {
            format!("does not apply to link {owner}, which has one link-local address at each end; remove it")
        } else if link.versions(ip).has(IpVersion::V4) && at >= MAX_RENUMBERED_LINKS {
            format!(
                "does not apply to link {owner}: over IPv4 only the first {MAX_RENUMBERED_LINKS} links of a scenario \
                 can have several addresses; move the link to the front, or set ip = \"v6\""
            )
        } else {
            continue;
        };
        let origin = element.table.get("addresses").map_or(element.origin, |node| node.origin);
        return Err(Fault::new(origin, format!("addresses {problem}")));
    }
    Ok(())
}

/// The end of the first link that uses the addresses of the second, or the problem.
fn shared(
    links: &[Link],
    [at, other]: [usize; 2],
    (ip, flows): (IpVersions, &[Placed]),
    other_shares: bool,
) -> Result<SharedAddress, String> {
    let [own, of] = [&links[at], &links[other]];
    let name = quoted(&of.name);
    if at == other {
        return Err(format!("is {name} itself; name another link"));
    }
    let common = |end: &usize| is_host(flows, &own.between[*end]) && of.between.contains(&own.between[*end]);
    let ends: Vec<usize> = (0..2).filter(common).collect();
    let [end] = ends[..] else {
        return Err(match ends[..] {
            [] => format!(
                "is {name}, which has no host in common with it; name another link of one of its hosts"
            ),
            _ => format!(
                "is {name}, which connects the same two hosts; put a router between them, so that one host is left"
            ),
        });
    };
    if other_shares {
        Err(format!("is {name}, which has the addresses of another link itself; name that one"))
    } else if own.versions(ip) != of.versions(ip) {
        Err(format!("is {name}, which carries other versions of IP; set the same ip for both"))
    } else if own.addresses[end] != 1 {
        Err(format!("is {name}, but addresses are given as well; remove one of the two keys"))
    } else if [own, of].iter().any(|link| link.scope == Scope::Link) {
        Err(format!("is {name}, but link-local addresses belong to one link; remove scope"))
    } else {
        Ok(SharedAddress { link: other, end })
    }
}

/// Checks that routes of one version of IP connect the hosts of each connection, and that each initial path has a
/// single version.
pub(super) fn check(scenario: &Scenario, flows: &[Placed]) -> Result<(), Fault> {
    let shares = scenario.links.iter().any(|link| link.address_of.is_some());
    let selects = |placed: &Placed| placed.flow.initial_version.is_some();
    if !shares && !flows.iter().any(selects) && scenario.used_versions() != IpVersions::Both {
        return Ok(());
    }
    let mut network = match scenario.network() {
        Ok(network) => network,
        Err(BuildError::Unreachable { flow, hosts }) => {
            let placed = placed_of(scenario, flows, flow);
            let [from, to] = hosts.map(|host| quoted(&host));
            let message = format!(
                "flow {}: no links of one version of IP connect {from} with {to}; set ip = \"both\" for the links of \
                 a path",
                quoted(&placed.flow.name)
            );
            return Err(Fault::new(placed.origin_of("to"), message));
        }
        Err(error) => return Err(Fault::new(Origin::Nowhere, error.to_string())),
    };
    for (index, placed) in flows.iter().enumerate() {
        initial_path(scenario, &mut network, (index, placed))?;
    }
    Ok(())
}

/// Checks that a flow's initial path has a single version of IP.
fn initial_path(
    scenario: &Scenario,
    network: &mut Network,
    (index, placed): (usize, &Placed),
) -> Result<(), Fault> {
    let flow = &placed.flow;
    if flow.initial_path.is_empty() {
        return Ok(());
    }
    let begins = |pair: &[InterfaceAddress; 2]| {
        let links = pair.map(InterfaceAddress::link);
        flow.begins_at(*pair) && flow.initial_path.iter().all(|link| links.contains(link))
    };
    let mut found: Vec<IpVersion> =
        network.connected_pairs(index).filter(begins).map(|[from, _]| from.version).collect();
    found.sort_unstable();
    found.dedup();
    let written = |version: Option<IpVersion>| {
        let suffix = version.map_or("", IpVersion::suffix);
        let name = |&link: &usize| quoted(&format!("{}{suffix}", scenario.links[link].name));
        let names: Vec<_> = flow.initial_path.iter().map(name).collect();
        if let [one] = &names[..] { one.clone() } else { format!("[{}]", names.join(", ")) }
    };
    let problem = match (&found[..], flow.initial_version) {
        (&[one, other], _) => format!(
            "is ambiguous, because both versions of IP have such a path; write {} or {}",
            written(Some(one)),
            written(Some(other))
        ),
        ([], Some(version)) => format!(
            "is {}, but no route of this version of IP leads over it; write {}",
            written(Some(version)),
            written(None)
        ),
        ([], None) => {
            format!("is {}, but no route of one version of IP leads over it; name other links", written(None))
        }
        _ => return Ok(()),
    };
    let message = format!("initial_path of flow {} {problem}", quoted(&flow.name));
    Err(Fault::new(placed.origin_of("initial_path"), message))
}
