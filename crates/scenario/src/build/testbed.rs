//! The machines of a testbed, and the tunnels of links between them.

use super::{Element, table_of};
use crate::check::{self, Context};
use crate::choices::{TUNNEL_KINDS, pick};
use crate::document::Node;
use crate::error::{Fault, Origin, quoted};
use crate::model::{Link, MACHINES, Machines, Tunnel, TunnelKind};
use crate::suggest::remedy;
use crate::table::TESTBED;
use crate::values::{Value, Values};
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

/// The tunnel of a link from its checked values.
pub(super) fn tunnel(values: &Values, owner: &str) -> Result<Tunnel, Fault> {
    let kind = pick(TUNNEL_KINDS, values.text("kind"));
    let (local, remote) = (address(values, "local", owner)?, address(values, "remote", owner)?);
    let origin = values.get("remote").origin;
    if local.is_ipv4() != remote.is_ipv4() {
        let message = format!(
            "the tunnel of {owner} has addresses of both versions of IP; give local and remote the same version"
        );
        return Err(Fault::new(origin, message));
    }
    if local == remote {
        let message = format!(
            "local and remote of the tunnel of {owner} are the same; each machine has its own address"
        );
        return Err(Fault::new(origin, message));
    }
    let key = values.find("key").map(|entry| entry.value.integer() as u32);
    if key.is_none() && kind == TunnelKind::Udp {
        let message = format!("the tunnel of {owner} has no key, which kind = \"udp\" needs; add key = 1");
        return Err(Fault::new(values.get("kind").origin, message));
    }
    Ok(Tunnel { kind, local, remote, key })
}

/// The address of a machine.
fn address(values: &Values, key: &str, owner: &str) -> Result<IpAddr, Fault> {
    let given = values.get(key);
    let address = given.value.text().parse::<IpAddr>().ok().map(|address| address.to_canonical());
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_broadcast(),
        // Such an address needs the name of an interface, which differs from machine to machine.
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    address.filter(|address| !address.is_unspecified() && !address.is_multicast() && usable(address)).ok_or_else(
        || {
            let message = format!(
                "{key} of the tunnel of {owner} is {}, which is no address of a machine; write one such as \"192.0.2.1\" \
                 or \"2001:db8::1\"",
                quoted(given.value.text())
            );
            Fault::new(given.origin, message)
        },
    )
}

/// The machines, if the scenario has a table of them; checks that tunnels connect them.
pub(super) fn machines(
    testbed: Option<&Node>,
    links: &[Link],
    elements: &[Element<'_>],
) -> Result<Option<Machines>, Fault> {
    let origin_of =
        |at: usize| elements[at].table.get("tunnel").map_or(elements[at].origin, |node| node.origin);
    let Some(node) = testbed else {
        let Some(at) = links.iter().position(|link| link.tunnel.is_some()) else { return Ok(None) };
        let message = format!(
            "link {} has a tunnel, but the scenario has no [testbed.machines]; add the table with the nodes of both \
             machines",
            quoted(&links[at].name)
        );
        return Err(Fault::new(origin_of(at), message));
    };
    let context = Context { owner: "[testbed]", protocol: None, complete: true };
    let values = check::section(&table_of(testbed, "testbed")?, node.origin, &TESTBED, context)?;
    let machines = assigned(values.table("machines"), links)?;
    let mut tunnels = BTreeMap::new();
    for (at, link) in links.iter().enumerate() {
        let fault = |message: String| Err(Fault::new(origin_of(at), message));
        let name = quoted(&link.name);
        let of = link.between.each_ref().map(|node| machines.of(node).expect("each node is on a machine"));
        match &link.tunnel {
            Some(_) if of[0] == of[1] => {
                return fault(format!(
                    "link {name} has a tunnel, but both its nodes are on machine {}; remove the tunnel",
                    MACHINES[of[0]]
                ));
            }
            None if of[0] != of[1] => {
                return fault(format!(
                    "link {name} connects the machines a and b, and has no tunnel; add tunnel = {{ kind = \"udp\", local \
                     = \"192.0.2.1\", remote = \"192.0.2.2\", key = 1 }}"
                ));
            }
            Some(tunnel) => {
                let mut ends = [tunnel.local, tunnel.remote];
                ends.rotate_left(of[0]);
                if let Some(first) = tunnels.insert((tunnel.kind, ends, tunnel.key), at) {
                    return fault(format!(
                        "the tunnels of links {} and {name} have the same addresses and the same key; give each its own \
                         key",
                        quoted(&links[first].name)
                    ));
                }
            }
            None => {}
        }
    }
    if tunnels.is_empty() {
        let message =
            "no link connects the machines a and b; put the two nodes of one link on different machines";
        return Err(Fault::new(node.origin, message));
    }
    Ok(Some(machines))
}

/// The nodes of both machines: each node of the network once.
fn assigned(values: &Values, links: &[Link]) -> Result<Machines, Fault> {
    let nodes: BTreeSet<&str> = links.iter().flat_map(|link| &link.between).map(String::as_str).collect();
    let mut of: BTreeMap<&str, &str> = BTreeMap::new();
    for machine in MACHINES {
        let given = values.get(machine);
        for node in given.value.list().iter().map(Value::text) {
            let fault = |message: String| Err(Fault::new(given.origin, message));
            if !nodes.contains(node) {
                let remedy = remedy(node, &nodes.iter().copied().collect::<Vec<_>>(), "nodes");
                return fault(format!(
                    "machine {machine} of [testbed.machines] has the node {}, which no link leads to; {remedy}",
                    quoted(node)
                ));
            }
            match of.insert(node, machine) {
                Some(other) if other == machine => {
                    return fault(format!("machine {machine} has the node {} twice; keep one", quoted(node)));
                }
                Some(_) => {
                    return fault(format!("node {} is on both machines; remove it from one", quoted(node)));
                }
                None => {}
            }
        }
    }
    if let Some(node) = nodes.iter().find(|&&node| !of.contains_key(node)) {
        let message =
            format!("node {} is on no machine of [testbed.machines]; add it to a or b", quoted(node));
        return Err(Fault::new(
            values.entries.first().map_or(Origin::Nowhere, |entry| entry.origin),
            message,
        ));
    }
    let texts =
        |machine| values.get(machine).value.list().iter().map(|node| node.text().to_owned()).collect();
    Ok(Machines(MACHINES.map(texts)))
}
