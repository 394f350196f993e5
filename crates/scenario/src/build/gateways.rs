//! Gateways of hosts, and the flows that use them.

use super::flow::Placed;
use crate::characteristics;
use crate::error::{Fault, Origin, quoted};
use crate::model::{Link, Scenario};
use crate::source_routes::SourceRouteError;
use crate::suggest::remedy;
use crate::values::{Checked, Value};
use std::collections::BTreeSet;

/// The hops of each gateway of a host.
pub(super) fn of_host(
    host: &str,
    given: &Checked,
    (links, flows): (&[Link], &[Placed]),
) -> Result<Vec<Vec<String>>, Fault> {
    let hosts: BTreeSet<&str> = flows
        .iter()
        .flat_map(|Placed { flow, .. }| [flow.from.as_str(), flow.meets(), flow.to.as_str()])
        .collect();
    let nodes = links.iter().flat_map(|link| &link.between).map(String::as_str);
    let routers: BTreeSet<&str> = nodes.filter(|node| !hosts.contains(node)).collect();
    let hop = |value: &Value| {
        let name = value.text();
        if routers.contains(name) {
            return Ok(name.to_owned());
        }
        let (owner, shown) = (quoted(host), quoted(name));
        let message = if hosts.contains(name) {
            format!(
                "gateways of host {owner} name {shown}, a node at the end of a flow, which does not forward; name a router"
            )
        } else {
            let routers: Vec<_> = routers.iter().copied().collect();
            let remedy = remedy(name, &routers, "routers");
            format!("gateways of host {owner} name {shown}, which no link leads to; {remedy}")
        };
        Err(Fault::new(given.origin, message))
    };
    let gateway = |value: &Value| {
        let hops: Vec<String> = match value {
            Value::List(hops) => hops.iter().map(hop).collect::<Result<_, _>>()?,
            name => vec![hop(name)?],
        };
        match hops.windows(2).find(|pair| pair[0] == pair[1]) {
            // The packet would leave the router, and return to it by another interface.
            Some(pair) => Err(Fault::new(
                given.origin,
                format!(
                    "gateways of host {} name {} twice in succession; name it once",
                    quoted(host),
                    quoted(&pair[0])
                ),
            )),
            None => Ok(hops),
        }
    };
    given.value.list().iter().map(gateway).collect()
}

/// Checks the flows whose path manager uses gateways.
pub(super) fn check(scenario: &Scenario, flows: &[Placed]) -> Result<(), Fault> {
    let uses = |placed: &&Placed| placed.flow.uses_gateways();
    if !flows.iter().any(|placed| uses(&placed)) {
        return Ok(());
    }
    let mut network = scenario.network().map_err(|error| Fault::new(Origin::Nowhere, error.to_string()))?;
    for (index, placed) in flows.iter().enumerate().filter(|(_, placed)| uses(placed)) {
        let (name, host) = (quoted(&placed.flow.name), quoted(&placed.flow.from));
        let message = match scenario.source_routes(&mut network, (index, &placed.flow)) {
            Ok(_) if placed.flow.network_control().is_some() => format!(
                "network_control of flow {name} excludes paths = \"binder\": a packet has one option of IP; remove one \
                 of them"
            ),
            Ok(_) if characteristics::are_needed(&placed.flow) => format!(
                "scheduler of flow {name} is \"nca\", which does not know paths through gateways; choose another, or \
                 other paths than \"binder\""
            ),
            Ok(_) => continue,
            Err(SourceRouteError::NoGateways) => format!(
                "paths of flow {name} is \"binder\", but host {host} has no gateways; add gateways = [\"name of a \
                 router\"] to its [[host]]"
            ),
            Err(SourceRouteError::NotIpv4) => format!(
                "paths of flow {name} is \"binder\", which needs IPv4, and the flow begins over IPv6; set ip = \"v4\" \
                 or \"both\", or choose another path manager"
            ),
            Err(error @ SourceRouteError::NoRoute { .. }) => format!(
                "paths of flow {name} is \"binder\", but {error}; correct the gateways of host {host}, or the routes"
            ),
        };
        return Err(Fault::new(placed.origin_of("paths"), message));
    }
    Ok(())
}
