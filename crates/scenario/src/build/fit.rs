//! Checks that packets and messages fit into links and buffers. Data that does not fit would never be sent, and the
//! path would seem dead.

use super::flow::{Placed, is_host};
use super::seconds;
use crate::error::{Fault, Origin, quoted};
use crate::model::{Flow, IpVersion, IpVersions, Link, LinkModel, MessageSize, Protocol, Scope, Workload};
use anabranch_multipath::rtt::RtoBounds;
use anabranch_settings::policy::Information;
use anabranch_settings::sctp;

/// Checks all flows.
pub(super) fn check(links: &[Link], flows: &[Placed]) -> Result<(), Fault> {
    for placed in flows {
        packets(links, placed)?;
        timeouts(placed)?;
        information(placed)?;
        if let Protocol::Sctp(config) = &placed.flow.protocol {
            association(placed, config)?;
        }
    }
    Ok(())
}

/// RFC 8200 §5: every link carries packets of this size, bytes.
const MIN_IPV6_MTU: u32 = 1280;

/// Checks the MTUs of links that carry IPv6.
pub(super) fn links(ip: IpVersions, links: &[Link]) -> Result<(), Fault> {
    let least = |link: &Link| link.forward.mtu.min(link.reverse.mtu);
    let is_narrow = |link: &&Link| link.versions(ip).has(IpVersion::V6) && least(link) < MIN_IPV6_MTU;
    match links.iter().find(is_narrow) {
        None => Ok(()),
        Some(link) => {
            let (name, mtu) = (quoted(&link.name), least(link));
            let message = format!(
                "mtu of link {name} is {mtu} bytes; IPv6 needs at least {MIN_IPV6_MTU} (RFC 8200), so increase it \
                 or set ip = \"v4\""
            );
            Err(Fault::new(Origin::Nowhere, message))
        }
    }
}

/// Link-local addresses belong to IPv6, and only hosts use them: routers do not forward packets from or to
/// such addresses (RFC 4291 §2.5.6).
pub(super) fn scopes(ip: IpVersions, links: &[Link], flows: &[Placed]) -> Result<(), Fault> {
    let is_host = |node: &String| is_host(flows, node);
    let has_v6 = |link: &Link| link.versions(ip).has(IpVersion::V6);
    let Some(link) = links
        .iter()
        .find(|link| link.scope == Scope::Link && (!has_v6(link) || !link.between.iter().all(is_host)))
    else {
        return Ok(());
    };
    let name = quoted(&link.name);
    let message = match link.between.iter().find(|node| !is_host(node)) {
        _ if !has_v6(link) => {
            format!(
                "scope of link {name} is \"link-local\", which needs IPv6; set ip = \"v6\", or remove scope"
            )
        }
        Some(node) => format!(
            "scope of link {name} is \"link-local\", but {} is a router, and routers do not forward such addresses; remove scope, \
             or connect two hosts by that link",
            quoted(node)
        ),
        None => unreachable!("one of the two nodes forwards"),
    };
    Err(Fault::new(Origin::Nowhere, message))
}

/// Checks that a flow's own packet size fits the links at its ends.
fn packets(links: &[Link], placed: &Placed) -> Result<(), Fault> {
    let flow = &placed.flow;
    let Some(mtu) = flow.mtu else {
        return Ok(());
    };
    let at_ends = |link: &&Link| link.between.iter().any(|node| *node == flow.from || *node == flow.meets());
    let least =
        |link: &Link| [&link.forward, &link.reverse].map(|model: &LinkModel| model.mtu).into_iter().min();
    let narrow = links.iter().filter(at_ends).find(|link| least(link).is_some_and(|least| least < mtu));
    if let Some(link) = narrow {
        let message = format!(
            "mtu of flow {} is {mtu} bytes, but its link {} carries at most {}; reduce it, or remove it to let it \
             follow the links",
            quoted(&flow.name),
            quoted(&link.name),
            least(link).unwrap_or_default()
        );
        return Err(Fault::new(placed.origin_of("mtu"), message));
    }
    Ok(())
}

/// Checks that the initial and the minimum retransmission timeout do not exceed the maximum.
fn timeouts(placed: &Placed) -> Result<(), Fault> {
    let Flow { name, protocol, .. } = &placed.flow;
    let Some(RtoBounds { initial, min, max }) = protocol.rto() else { return Ok(()) };
    let others = [("rto_min", min), ("rto_initial", initial)];
    let Some((key, other)) = others.into_iter().find(|&(_, other)| other > max) else {
        return Ok(());
    };
    let message = format!(
        "{key} of flow {} is {}, above its rto_max of {}; reduce the first or increase the second",
        quoted(name),
        seconds(other),
        seconds(max)
    );
    Err(Fault::new(placed.origin_of(key), message))
}

/// Checks that a scheduler that uses records of routers has network control.
fn information(placed: &Placed) -> Result<(), Fault> {
    let Protocol::Sctp(config) = &placed.flow.protocol else { return Ok(()) };
    if config.information == Information::Scenario || config.network_control.is_some() {
        return Ok(());
    }
    let message = format!(
        "information of flow {} is \"chunk\", which needs network_control; set network_control = \"1 s\", or write \
         \"scenario\"",
        quoted(&placed.flow.name)
    );
    Err(Fault::new(placed.origin_of("information"), message))
}

/// RFC 9260 §6: the smallest initial window of an association.
const MIN_RECEIVE_WINDOW: u64 = 1500;

/// Checks the buffers of an association: SCTP accepts only whole messages, so the send buffer must hold the largest.
fn association(placed: &Placed, config: &sctp::Config) -> Result<(), Fault> {
    let name = &placed.flow.name;
    if config.receive_buffer < MIN_RECEIVE_WINDOW {
        let message = format!(
            "receive_buffer of flow {} is {} bytes; SCTP needs at least {MIN_RECEIVE_WINDOW} bytes",
            quoted(name),
            config.receive_buffer
        );
        return Err(Fault::new(placed.origin_of("receive_buffer"), message));
    }
    let Some(largest) = largest_message(&placed.flow.workload) else {
        return Ok(());
    };
    if largest > config.send_buffer {
        let message = format!(
            "flow {} writes messages of up to {largest} bytes, and its send_buffer of {} bytes cannot hold \
             one; increase send_buffer or use smaller messages",
            quoted(name),
            config.send_buffer
        );
        return Err(Fault::new(placed.origin_of("workload"), message));
    }
    Ok(())
}

/// The largest message of a workload, if the workload determines it.
fn largest_message(workload: &Workload) -> Option<u64> {
    /// The probability that an exponential distribution exceeds this multiple of its mean is 10^-17.
    const MAX_MEANS: f64 = 40.0;
    let of_distribution = |message: &MessageSize| match message {
        MessageSize::Exponential { mean } => (mean * MAX_MEANS) as u64,
        other => other.range().1.unwrap_or(u64::MAX),
    };
    let message = match workload {
        Workload::Recorded(recording) => return recording.messages.iter().map(|&(_, bytes)| bytes).max(),
        Workload::Saturated { message } | Workload::File { message, .. } => message.as_ref()?,
        Workload::Rate { message, .. }
        | Workload::OnOff { message, .. }
        | Workload::Messages { message, .. } => message,
        Workload::RequestResponse { request, response, .. } => {
            return Some(of_distribution(request).max(of_distribution(response)));
        }
    };
    Some(of_distribution(message))
}
