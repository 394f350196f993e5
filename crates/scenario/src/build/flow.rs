//! Flows and the settings of their protocols.

use super::{Element, LinkIndex, Names, find_link, seconds, spread, workload};
use crate::check::{self, Context};
use crate::choices::{
    self, COUPLINGS, FLOW_DIRECTIONS, IMMEDIATE_SACKS, PENALISATIONS, Protocols, RECOVERIES, RETRANSMISSIONS,
    SACK_PATHS, SCTP_PATHS, SLOW_STARTS, SPLITTING_ON, SPLITTINGS, STREAM_SCHEDULERS, SYN_RETRANSMISSIONS,
    pick,
};
use crate::document::{Data, Node, Table};
use crate::error::{Fault, Origin, quoted};
use crate::merge::inherit;
use crate::model::{Buffer, Common, Directions, Flow, Link, Mptcp, Protocol, Sctp, Tcp, Workload};
use crate::overrides::name_of;
use crate::suggest::remedy;
use crate::table::{FLOW, FLOW_DEFAULTS};
use crate::values::{Checked, Value, Values};
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::buffer::Splitting;
use anabranch_multipath::congestion::{Couple, Entry, Rules, Signal, SlowStart};
use anabranch_multipath::{congestion, path_manager, scheduler};
use anabranch_settings::policy::Penalisation;

/// A flow, and the places of its parts in the file.
pub(super) struct Placed {
    pub flow: Flow,
    /// The place of the flow's header.
    header: Origin,
    origins: Vec<(&'static str, Origin)>,
}

impl Placed {
    /// The place of a key's value, or else of the flow's header.
    pub fn origin_of(&self, key: &str) -> Origin {
        self.origins.iter().find(|(name, _)| *name == key).map_or(self.header, |(_, origin)| *origin)
    }
}

/// Objects to which flows refer.
struct Surroundings<'a> {
    links: &'a [Link],
    index: LinkIndex,
    duration: Duration,
}

/// All flows, in file order.
pub(super) fn flows(
    elements: &[Element<'_>],
    defaults: &Table,
    links: &[Link],
    duration: Duration,
) -> Result<Vec<Placed>, Fault> {
    let context = Context { owner: "[flow_defaults]", protocol: None, complete: false };
    check::section(defaults, Origin::Nowhere, &FLOW_DEFAULTS, context)?;
    let around = Surroundings { links, index: LinkIndex::of(links), duration };
    let mut names = Names::of("flow");
    elements
        .iter()
        .enumerate()
        .map(|(index, element)| {
            let (placed, name) = flow(index, element, defaults, &around)?;
            names.add(&placed.flow.name, name, element.origin)?;
            Ok(placed)
        })
        .collect()
}

/// A flow, and the place of its name.
fn flow(
    index: usize,
    element: &Element<'_>,
    defaults: &Table,
    around: &Surroundings<'_>,
) -> Result<(Placed, Option<Origin>), Fault> {
    let owner = match name_of(element.table) {
        Some(name) => format!("flow {}", quoted(&name)),
        None => format!("[[flow]] number {}", index + 1),
    };
    let protocol = protocol(element, defaults, &owner)?;
    let context = Context { owner: &owner, protocol: Some(protocol), complete: true };
    let merged = inherit(element.table.clone(), defaults, &FLOW, Some(protocol));
    let values = check::section(&merged, element.origin, &FLOW, context)?;
    let (from, to) = (values.get("from"), values.get("to"));
    if from.value.text() == to.value.text() {
        let message = format!("{owner} goes from {} to itself; name two hosts", quoted(to.value.text()));
        return Err(Fault::new(to.origin, message));
    }
    let through = through(&values, &owner)?;
    let Lifetime { start, start_spread, stop } = lifetime(&values, &owner, around.duration)?;
    let common = common(&values, protocol, element.table, &owner)?;
    let workload = workload::workload(values.get("workload"), &owner, protocol, element.origin)?;
    let direction = direction(values.get("direction"), &owner, (protocol, &workload), element.origin)?;
    let name = values.find("name");
    let derived = || format!("{}-{}", from.value.text(), to.value.text());
    let flow = Flow {
        name: name.map_or_else(derived, |name| name.value.text().to_owned()),
        from: from.value.text().to_owned(),
        to: to.value.text().to_owned(),
        through,
        protocol: settings(&values, protocol, common.congestion.entry, &owner, around)?,
        common,
        start,
        start_spread,
        stop,
        direction,
        workload,
    };
    let given = values.entries.iter().filter(|entry| entry.origin != Origin::Nowhere);
    let origins = given.map(|entry| (entry.key, entry.origin)).collect();
    let placed = Placed { flow, header: element.origin, origins };
    Ok((placed, name.map(|name| name.origin)))
}

/// The proxy at which the connection ends.
fn through(values: &Values, owner: &str) -> Result<Option<String>, Fault> {
    let Some(entry) = values.find("through") else {
        return Ok(None);
    };
    let host = entry.value.text();
    match ["from", "to"].into_iter().find(|end| values.text(end) == host) {
        None => Ok(Some(host.to_owned())),
        Some(end) => {
            let message =
                format!("{owner} goes through {}, which is its {end}; name a third host", quoted(host));
            Err(Fault::new(entry.origin, message))
        }
    }
}

/// The host at the other end of a flow's connection.
fn met(values: &Values) -> &str {
    values.find("through").map_or_else(|| values.text("to"), |entry| entry.value.text())
}

/// The protocol determines the keys that a flow takes, so it is read before the others are checked.
fn protocol(element: &Element<'_>, defaults: &Table, owner: &str) -> Result<Protocols, Fault> {
    let list = choices::PROTOCOLS;
    let names: Vec<_> = list.iter().map(|entry| entry.name).collect();
    let Some(node) = element.table.get("protocol").or_else(|| defaults.get("protocol")) else {
        let message =
            format!("{owner} has no protocol; add protocol = \"tcp\" or another of {}", names.join(", "));
        return Err(Fault::new(element.origin, message));
    };
    let Node { origin, data: Data::Text(word) } = node else {
        let message =
            format!("protocol of {owner} is {}; write one of {}", node.described(), names.join(", "));
        return Err(Fault::new(node.origin, message));
    };
    list.iter().find(|entry| entry.name == word).map(|entry| entry.value).ok_or_else(|| {
        let remedy = remedy(word, &names, "valid values");
        Fault::new(*origin, format!("protocol of {owner} is {}; {remedy}", quoted(word)))
    })
}

/// When a flow starts and stops.
struct Lifetime {
    start: Time,
    start_spread: Duration,
    stop: Option<Time>,
}

fn lifetime(values: &Values, owner: &str, duration: Duration) -> Result<Lifetime, Fault> {
    let entry = values.get("start");
    let (begin, start_spread) = spread(entry, "start", owner)?;
    let latest = begin + start_spread;
    if latest >= duration {
        let message = format!(
            "{owner} starts at {}, when the run of {} is over; start it earlier or make duration longer",
            seconds(latest),
            seconds(duration)
        );
        return Err(Fault::new(entry.origin, message));
    }
    let start = Time::ZERO + begin;
    let Some(stop) = values.find("stop") else {
        return Ok(Lifetime { start, start_spread, stop: None });
    };
    if stop.value.time() <= latest {
        let message = format!(
            "{owner} stops at {}, but starts at {}; stop it later",
            seconds(stop.value.time()),
            seconds(latest)
        );
        return Err(Fault::new(stop.origin, message));
    }
    Ok(Lifetime { start, start_spread, stop: Some(Time::ZERO + stop.value.time()) })
}

/// The direction of the data, checked against protocol and workload.
fn direction(
    entry: &Checked,
    owner: &str,
    (protocol, workload): (Protocols, &Workload),
    header: Origin,
) -> Result<Directions, Fault> {
    let direction = pick(FLOW_DIRECTIONS, entry.value.text());
    let problem = match direction {
        Directions::Reverse if protocol == Protocols::UDP => {
            "a udp host learns its destination from the first datagram that it receives; exchange from and to"
        }
        Directions::Both if matches!(workload, Workload::RequestResponse { .. }) => {
            "requests have one direction; write \"forward\" or \"reverse\" for it"
        }
        _ => return Ok(direction),
    };
    let origin = if entry.origin == Origin::Nowhere { header } else { entry.origin };
    Err(Fault::new(origin, format!("direction of {owner} is {}, but {problem}", quoted(entry.value.text()))))
}

/// A protocol without connections has none of these settings; their values are never used.
fn common(values: &Values, protocol: Protocols, own: &Table, owner: &str) -> Result<Common, Fault> {
    let mtu = values.find("mtu").map(|entry| entry.value.integer() as u32);
    if !Protocols::CONNECTED.contains(protocol) {
        return Ok(Common { mtu, ..Common::default() });
    }
    Ok(Common {
        congestion: congestion(values, own, owner)?,
        send_buffer: buffer(values, "send_buffer"),
        receive_buffer: buffer(values, "receive_buffer"),
        mtu,
        rto_initial: values.time("rto_initial"),
        rto_min: values.time("rto_min"),
        rto_max: values.time("rto_max"),
        ecn: values.find("ecn").is_some_and(|entry| entry.value.flag()),
    })
}

/// The control with its options. An inherited slow start applies to flows whose control supports it.
fn congestion(values: &Values, own: &Table, owner: &str) -> Result<congestion::Choice, Fault> {
    let mut choice = congestion::Choice::find(values.text("congestion")).expect(CHECKED);
    choice.options.couple = couple(values, own, choice.entry, owner)?;
    check_floor(values, own, choice.entry, owner)?;
    let Some(asked) = values.find("slow_start") else { return Ok(choice) };
    let slow_start = pick(SLOW_STARTS, asked.value.text());
    if choice.entry.name == "lia" {
        choice.options.slow_start = slow_start;
    } else if own.get("slow_start").is_some() && slow_start != SlowStart::Rfc {
        return Err(misplaced(asked, owner, "\"lia\" only", choice.entry));
    }
    Ok(choice)
}

/// Whether a control uses the configured floor of the threshold. Coupled controls, and those with other
/// signals than losses, have their own.
fn has_floor(control: &Entry) -> bool {
    !control.coupled && control.signal == Signal::Loss
}

/// The floor of the threshold. An inherited floor applies to flows whose control uses it.
fn ssthresh_floor(values: &Values, control: &Entry, rules: Rules) -> u32 {
    if has_floor(control) { values.integer("ssthresh_floor") as u32 } else { rules.floor() }
}

/// Checks that the control uses a floor that the flow itself sets.
fn check_floor(values: &Values, own: &Table, control: &Entry, owner: &str) -> Result<(), Fault> {
    if has_floor(control) || own.get("ssthresh_floor").is_none() {
        return Ok(());
    }
    Err(misplaced(values.get("ssthresh_floor"), owner, "\"reno\" and \"cubic\"", control))
}

/// The error for a key of the flow itself that its control does not support.
fn misplaced(asked: &Checked, owner: &str, whom: &str, control: &Entry) -> Fault {
    let message = format!(
        "{} of {owner} applies to {whom}, but the congestion of the flow is {}; remove it, or move it to [flow_defaults]",
        asked.key,
        quoted(control.name)
    );
    Fault::new(asked.origin, message)
}

/// The paths that the control couples. An inherited value applies to flows whose control couples paths.
fn couple(values: &Values, own: &Table, control: &Entry, owner: &str) -> Result<Couple, Fault> {
    let Some(asked) = values.find("couple") else { return Ok(Couple::All) };
    let couple = pick(COUPLINGS, asked.value.text());
    if control.coupled {
        return Ok(couple);
    }
    if own.get("couple").is_some() && couple != Couple::All {
        return Err(misplaced(asked, owner, "controls that couple paths", control));
    }
    Ok(Couple::All)
}

/// Reason why a checked name is in the table.
const CHECKED: &str = "the name was checked against the same table";

fn settings(
    values: &Values,
    protocol: Protocols,
    control: &Entry,
    owner: &str,
    around: &Surroundings<'_>,
) -> Result<Protocol, Fault> {
    Ok(match protocol {
        Protocols::UDP => Protocol::Udp,
        Protocols::TCP => Protocol::Tcp(tcp(values, control, owner, around)?),
        Protocols::MPTCP => Protocol::Mptcp {
            tcp: tcp(values, control, owner, around)?,
            mptcp: mptcp(values, owner, around)?,
        },
        _ => Protocol::Sctp(sctp(values, control, (protocol == Protocols::CMT_SCTP, owner), around)?),
    })
}

fn buffer(values: &Values, key: &str) -> Buffer {
    match values.get(key).value {
        Value::Size(bytes) => Buffer::Bytes(bytes),
        _ => Buffer::Auto,
    }
}

fn tcp(values: &Values, control: &Entry, owner: &str, around: &Surroundings<'_>) -> Result<Tcp, Fault> {
    Ok(Tcp {
        delayed_ack: match values.get("delayed_ack").value {
            Value::Flag(false) => None,
            Value::Flag(true) => Tcp::default().delayed_ack,
            ref time => Some(time.time()),
        },
        initial_window: values.integer("initial_window") as u32,
        abc_limit: match values.get("abc_limit").value {
            Value::Flag(false) => None,
            Value::Flag(true) => Tcp::default().abc_limit,
            ref segments => Some(segments.integer() as u32),
        },
        ssthresh_floor: ssthresh_floor(values, control, Rules::Tcp),
        whole_packets: whole_packets(values, control, owner)?,
        recovery: pick(RECOVERIES, values.text("recovery")),
        timestamps: values.flag("timestamps"),
        nagle: values.flag("nagle"),
        keepalive: match values.get("keepalive").value {
            Value::Flag(false) => None,
            Value::Flag(true) => Some(KEEPALIVE_TIME),
            ref time => Some(time.time()),
        },
        user_timeout: values.find("user_timeout").map(|entry| entry.value.time()),
        initial_path: first_links(values, owner, around)?,
    })
}

/// Whether windows count whole segments, which a control that models its paths does not support.
fn whole_packets(values: &Values, control: &Entry, owner: &str) -> Result<bool, Fault> {
    let Some(asked) = values.find("whole_packets").filter(|entry| entry.value.flag()) else {
        return Ok(false);
    };
    if control.signal == Signal::Model {
        let control = quoted(control.name);
        let message = format!(
            "whole_packets of {owner} is not supported by {control}, whose window follows a model; set it to false"
        );
        return Err(Fault::new(asked.origin, message));
    }
    Ok(true)
}

/// The links of the two hosts on which a connection begins.
fn first_links(values: &Values, owner: &str, around: &Surroundings<'_>) -> Result<Vec<usize>, Fault> {
    let Some(entry) = values.find("initial_path") else {
        return Ok(Vec::new());
    };
    let names: Vec<&str> = match &entry.value {
        Value::List(names) => names.iter().map(Value::text).collect(),
        name => vec![name.text()],
    };
    let links = at_the_ends(values, &names, around)
        .map_err(|message| Fault::new(entry.origin, format!("initial_path of {owner}: {message}")))?;
    let [from, to] = [values.text("from"), met(values)];
    let is_of = |link: usize, host: &str| around.links[link].between.iter().any(|node| node == host);
    if let [one, other] = links[..]
        && !(is_of(one, from) && is_of(other, to) || is_of(one, to) && is_of(other, from))
    {
        let message = format!(
            "initial_path of {owner} names two links of the same host; name one of {} and one of {}",
            quoted(from),
            quoted(to)
        );
        return Err(Fault::new(entry.origin, message));
    }
    Ok(links)
}

/// The links with these names, each listed once; each must be at an end of the flow.
fn at_the_ends(values: &Values, names: &[&str], around: &Surroundings<'_>) -> Result<Vec<usize>, String> {
    let ends = [values.text("from"), met(values)];
    let mut links: Vec<usize> = Vec::new();
    for name in names {
        let link = find_link(around.links, &around.index, name)?;
        if !around.links[link].between.iter().any(|node| ends.contains(&node.as_str())) {
            return Err(format!(
                "the link {} is at neither end of the flow; its ends have {}",
                quoted(name),
                links_at(around.links, &ends).join(", ")
            ));
        }
        if !links.contains(&link) {
            links.push(link);
        }
    }
    Ok(links)
}

fn mptcp(values: &Values, owner: &str, around: &Surroundings<'_>) -> Result<Mptcp, Fault> {
    let backup = values.get("backup");
    let names: Vec<&str> = backup.value.list().iter().map(Value::text).collect();
    let links = at_the_ends(values, &names, around)
        .map_err(|message| Fault::new(backup.origin, format!("backup of {owner}: {message}")))?;
    Ok(Mptcp {
        scheduler: scheduler::find(values.text("scheduler")).expect(CHECKED),
        paths: path_manager::parse(values.text("paths")).expect(CHECKED),
        opportunistic_retransmission: values.flag("opportunistic_retransmission"),
        penalisation: match values.get("penalisation").value {
            Value::Flag(false) => Penalisation::Never,
            Value::Flag(true) => Penalisation::default(),
            ref word => pick(PENALISATIONS, word.text()),
        },
        mechanisms_in_start_up: values.flag("mechanisms_in_start_up"),
        dss_checksum: values.flag("dss_checksum"),
        backup: links,
        syn_retransmission: pick(SYN_RETRANSMISSIONS, values.text("syn_retransmission")),
        syn_pairs: values.integer("syn_pairs") as u32,
    })
}

/// Names of the links of these nodes.
fn links_at<'a>(links: &'a [Link], nodes: &[&str]) -> Vec<&'a str> {
    let touches = |link: &&Link| link.between.iter().any(|node| nodes.contains(&node.as_str()));
    links.iter().filter(touches).map(|link| link.name.as_str()).collect()
}

fn sctp(
    values: &Values,
    control: &Entry,
    (cmt, owner): (bool, &str),
    around: &Surroundings<'_>,
) -> Result<Sctp, Fault> {
    Ok(Sctp {
        cmt,
        scheduler: scheduler::find(values.text("scheduler")).expect(CHECKED),
        paths: pick(SCTP_PATHS, values.text("paths")),
        initial_path: initial_path(values, owner, around)?,
        nr_sack: values.flag("nr_sack"),
        splitting: Splitting {
            sides: pick(SPLITTINGS, values.text("buffer_splitting")),
            on: pick(SPLITTING_ON, values.text("splitting_on")),
        },
        chunk_rescheduling: match values.get("chunk_rescheduling").value {
            Value::Flag(false) => None,
            Value::Flag(true) => Some(RESCHEDULING_THRESHOLD),
            ref share => Some(share.number()),
        },
        penalisation: cmt && values.flag("penalisation"),
        mechanisms_in_start_up: !cmt || values.flag("mechanisms_in_start_up"),
        ordered: values.flag("ordered"),
        streams: values.integer("streams") as u16,
        sack_delay: values.time("sack_delay"),
        immediate_sack: pick(IMMEDIATE_SACKS, values.text("immediate_sack")),
        sack_path: pick(SACK_PATHS, values.text("sack_path")),
        retransmission: pick(RETRANSMISSIONS, values.text("retransmission")),
        stream_scheduler: pick(STREAM_SCHEDULERS, values.text("stream_scheduler")),
        i_data: values.flag("i_data"),
        asconf: values.flag("asconf"),
        pmtu_discovery: values.flag("pmtu_discovery"),
        udp_encapsulation: values.flag("udp_encapsulation"),
        heartbeat_interval: match values.get("heartbeat_interval").value {
            Value::Flag(false) => None,
            Value::Flag(true) => Some(HEARTBEAT_INTERVAL),
            ref time => Some(time.time()),
        },
        path_max_retrans: values.integer("path_max_retrans") as u32,
        potentially_failed_threshold: match values.get("potentially_failed_threshold").value {
            Value::Flag(false) => None,
            Value::Flag(true) => Some(POTENTIALLY_FAILED_THRESHOLD),
            ref errors => Some(errors.integer() as u32),
        },
        association_max_retrans: values.integer("association_max_retrans") as u32,
        init_max_retrans: values.integer("init_max_retrans") as u32,
        max_burst: match values.get("max_burst").value {
            Value::Flag(false) => None,
            Value::Flag(true) => Some(MAX_BURST),
            ref packets => Some(packets.integer() as u32),
        },
        overshoot: values.flag("overshoot"),
        nagle: values.flag("nagle"),
        tail_loss_probe: values.flag("tail_loss_probe"),
        abc_limit: match values.get("abc_limit").value {
            Value::Flag(limited) => limited.then_some(1),
            ref packets => Some(packets.integer() as u32),
        },
        ssthresh_floor: ssthresh_floor(values, control, Rules::Sctp),
    })
}

/// Default idle time before a keepalive probe (RFC 1122 §4.2.3.6: at least two hours).
const KEEPALIVE_TIME: Duration = Duration::from_secs(7200);

/// HB.interval of RFC 9260 §16.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);

/// PotentiallyFailed.Max.Retrans as RFC 7829 §3.2 recommends it.
const POTENTIALLY_FAILED_THRESHOLD: u32 = 0;

/// Max.Burst of RFC 9260 §16.
const MAX_BURST: u32 = 4;

/// Default share of a buffer from which on chunks are rescheduled.
const RESCHEDULING_THRESHOLD: f64 = 0.5;

/// The link of the receiving host whose address is the initial destination, followed by that of the
/// connecting host, if given.
fn initial_path(values: &Values, owner: &str, around: &Surroundings<'_>) -> Result<Vec<usize>, Fault> {
    let Some(entry) = values.find("initial_path") else {
        return Ok(Vec::new());
    };
    if matches!(entry.value, Value::List(_)) {
        let mut pair = first_links(values, owner, around)?;
        let receiving = values.text("to");
        // A link between the two hosts is at both ends.
        if let [link] = pair[..] {
            pair.push(link);
        }
        if !around.links[pair[0]].between.iter().any(|node| node == receiving) {
            pair.reverse();
        }
        return Ok(pair);
    }
    let host = values.text("to");
    let names = links_at(around.links, &[host]);
    let fault = |message: String| Fault::new(entry.origin, format!("initial_path of {owner} {message}"));
    let name = match &entry.value {
        Value::Integer(index) => *names.get(*index as usize).ok_or_else(|| {
            fault(format!(
                "is {index}, but {} has {} links; count them from 0: {}",
                quoted(host),
                names.len(),
                names.join(", ")
            ))
        })?,
        name => name.text(),
    };
    if names.contains(&name) {
        return Ok(around.index.0.get(name).copied().into_iter().collect());
    }
    let remedy = remedy(name, &names, &format!("links of {}", quoted(host)));
    Err(fault(format!("is {}, which is not a link of the receiving host; {remedy}", quoted(name))))
}
