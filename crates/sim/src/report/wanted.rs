//! The paths that the hosts of a flow want to use, and why some never opened.

use super::route::hashed_route;
use crate::engine::Datapath;
use crate::host::{Flow, FlowEnvironment, RECEIVER, SENDER};
use crate::scenario::Scenario;
use crate::scenario::model::Protocol;
use crate::scenario::result::{PathNames, WantedPathResult};
use anabranch_endpoint::{Endpoint, Obstacle, Reason, WantedPath};
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeSet;

/// The wanted paths of a flow, from the sender of its data to the receiver.
pub(super) fn paths(
    scenario: &Scenario,
    (flow, protocol): (&Flow, &Protocol),
    world: &mut FlowEnvironment,
) -> Vec<WantedPathResult> {
    let found = match protocol {
        Protocol::Udp => Vec::new(),
        Protocol::Tcp(_) => of_single_path(flow, world).into_iter().collect(),
        Protocol::Mptcp(_) | Protocol::Sctp(_) => of_several_paths((flow, protocol), world),
    };
    let mut names = PathNames::default();
    let result = |(at, path): (usize, &Found)| {
        let mut ends = [path.client, path.server];
        if flow.source() != SENDER {
            ends.reverse();
        }
        let name = names.of(at, scenario, ends).to_owned();
        let [local, remote] = ends.map(|end| end.to_string());
        let reason = path.obstacle.map(|obstacle| obstacle.name().to_owned());
        WantedPathResult { name, local, remote, reason }
    };
    found.iter().enumerate().map(result).collect()
}

/// A wanted path with the addresses of the connecting and of the listening end.
struct Found {
    client: IpAddr,
    server: IpAddr,
    obstacle: Option<Obstacle>,
}

/// The path of plain TCP.
fn of_single_path(flow: &Flow, world: &FlowEnvironment) -> Option<Found> {
    let path = *flow.endpoint(SENDER, &world.hosts)?.report().paths.first()?;
    let is_unanswered = path.counters.timeouts > 0;
    let obstacle = match flow.applications.ended[SENDER].map(|(_, reason)| reason) {
        _ if flow.applications.connected[SENDER].is_some() => None,
        Some(Reason::Refused | Reason::Reset) => Some(Obstacle::Refused),
        Some(Reason::Unreachable) => Some(Obstacle::NoRoute),
        Some(Reason::TimedOut) => Some(Obstacle::NoAnswer),
        _ => Some(if is_unanswered { Obstacle::NoAnswer } else { Obstacle::Pending }),
    };
    let [client, server] = [path.local, path.remote].map(|end| real(end, &world.datapath));
    Some(Found { client, server, obstacle })
}

/// Paths that the connecting end wants, and paths to addresses of the server that the client has never received.
fn of_several_paths((flow, protocol): (&Flow, &Protocol), world: &mut FlowEnvironment) -> Vec<Found> {
    let wanted = |side: usize| {
        let endpoint = flow.endpoint(side, &world.hosts);
        endpoint.map(Endpoint::wanted_paths).unwrap_or_default()
    };
    let place = |ip: IpAddr| real(SocketAddr::new(ip, 0), &world.datapath);
    let of_client = |path: &WantedPath| Found {
        client: place(path.local),
        server: real(path.remote, &world.datapath),
        obstacle: path.obstacle,
    };
    let mut found: Vec<Found> = wanted(SENDER).iter().map(of_client).collect();
    let servers: Vec<_> = wanted(RECEIVER).iter().map(|path| (place(path.local), path.obstacle)).collect();
    let clients: BTreeSet<IpAddr> = found.iter().map(|path| path.client).collect();
    let network = world.datapath.network();
    for (server, obstacle) in servers {
        if found.iter().any(|known| known.server == server) {
            continue;
        }
        // The client would join from each address with a route, but it has not received the server's address.
        let routed = |client: &&IpAddr| {
            let ends = [**client, server].map(|ip| SocketAddr::new(ip, 0));
            !hashed_route((ends, protocol), network).is_empty()
        };
        let routed: Vec<IpAddr> = clients.iter().filter(routed).copied().collect();
        found.extend(routed.into_iter().map(|client| Found { client, server, obstacle }));
    }
    found
}

/// The address in the scenario's network behind a translated one.
fn real(end: SocketAddr, datapath: &Datapath) -> IpAddr {
    datapath.real_address(end).ip()
}
