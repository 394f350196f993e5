//! Flows and the settings of their protocols.

use super::{Element, LinkIndex, Names, find_link, seconds, spread, streams, workload};
use crate::check::{self, Context, link_and_version};
use crate::choices::{self, CODECS, FLOW_DIRECTIONS, Protocols, STACKS, pick};
use crate::document::{Data, Node, Table};
use crate::error::{Fault, Origin, quoted};
use crate::merge::inherit;
use crate::model::{Directions, Flow, IpVersion, Link, Protocol, Scenario, Stack, Voice, Workload};
use crate::overrides::name_of;
use crate::suggest::remedy;
use crate::table;
use crate::trace::Source;
use crate::values::{Checked, Value, Values};
use anabranch_base::time::{Duration, Time};
use anabranch_multipath::congestion::{Entry, Signal};
use anabranch_multipath::path_manager;
use anabranch_settings::key::{AUTO_BUFFER, Key};
use anabranch_settings::setting;

/// True if a node is an end of a flow or a proxy.
pub(super) fn is_host(flows: &[Placed], node: &String) -> bool {
    flows.iter().any(|p| [&p.flow.from, &p.flow.to].contains(&node) || p.flow.meets() == node)
}

/// The flow of a connection; the connection may be one behind a proxy, or one of several at the same time.
pub(super) fn placed_of<'a>(scenario: &Scenario, flows: &'a [Placed], connection: usize) -> &'a Placed {
    &flows[scenario.flows_of_connections()[connection]]
}

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

/// Other objects of the scenario to which a flow refers.
struct Surroundings<'a> {
    links: &'a [Link],
    index: LinkIndex,
    duration: Duration,
    source: Source<'a>,
}

/// All flows, in file order.
pub(super) fn flows(
    elements: &[Element<'_>],
    defaults: &Table,
    (links, duration): (&[Link], Duration),
    source: Source<'_>,
) -> Result<Vec<Placed>, Fault> {
    let context = Context { owner: "[flow_defaults]", protocol: None, complete: false };
    check::section(defaults, Origin::Nowhere, table::flow_defaults(), context)?;
    let around = Surroundings { links, index: LinkIndex::of(links), duration, source };
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
    let merged = inherit(element.table.clone(), defaults, table::flow(), Some(protocol));
    let values = check::section(&merged, element.origin, table::flow(), context)?;
    let (from, to) = (values.get("from"), values.get("to"));
    if from.value.text() == to.value.text() {
        let message = format!("{owner} goes from {} to itself; name two hosts", quoted(to.value.text()));
        return Err(Fault::new(to.origin, message));
    }
    let through = through(&values, &owner)?;
    let Lifetime { start, start_spread, stop } = lifetime(&values, &owner, around.duration)?;
    let settings = settings(&values, protocol, element.table, &owner)?;
    let origin = element.origin;
    let workload = workload::workload(values.get("workload"), &owner, protocol, (origin, around.source))?;
    let direction = direction(values.get("direction"), &owner, (protocol, &workload), element.origin)?;
    if let Some(entry) = values.find("through").filter(|_| workload.arrivals().is_some()) {
        let message =
            format!("{owner} has arrivals, which do not go through a proxy; remove through or arrivals");
        return Err(Fault::new(entry.origin, message));
    }
    let (initial_path, initial_version) = match settings {
        Protocol::Sctp(_) => first_destination(&values, &owner, around)?,
        _ => first_links(&values, &owner, around)?,
    };
    let name = values.find("name");
    let derived = || format!("{}-{}", from.value.text(), to.value.text());
    let flow = Flow {
        name: name.map_or_else(derived, |name| name.value.text().to_owned()),
        from: from.value.text().to_owned(),
        to: to.value.text().to_owned(),
        through,
        initial_path,
        initial_version,
        backup: backup(&values, &owner, around)?,
        stacks: stacks(&values),
        ordered: values.find("ordered").is_none_or(|entry| entry.value.flag()),
        mtu: values.find("mtu").map(|entry| entry.value.integer() as u32),
        protocol: settings,
        start,
        start_spread,
        stop,
        direction,
        workload,
        voice: voice(&values, &owner)?,
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

/// The playout delay of a call without `playout`.
const DEFAULT_PLAYOUT: Duration = Duration::from_millis(60);

/// The voice call as which the quality of a flow's datagrams is rated.
fn voice(values: &Values, owner: &str) -> Result<Option<Voice>, Fault> {
    let playout = values.find("playout");
    let Some(codec) = values.find("voice") else {
        return match playout {
            Some(entry) => {
                let message =
                    format!("{owner} has playout without voice; add voice = \"g711\", or remove playout");
                Err(Fault::new(entry.origin, message))
            }
            None => Ok(None),
        };
    };
    let playout = playout.map_or(DEFAULT_PLAYOUT, |entry| entry.value.time());
    Ok(Some(Voice { codec: pick(CODECS, codec.value.text()), playout }))
}

/// The stacks of both ends.
fn stacks(values: &Values) -> [Option<Stack>; 2] {
    match values.find("stack").map(|entry| &entry.value) {
        None => [None; 2],
        Some(Value::Table(ends)) => {
            ["from", "to"].map(|end| ends.find(end).map(|entry| pick(STACKS, entry.value.text())))
        }
        Some(both) => [Some(pick(STACKS, both.text())); 2],
    }
}

/// The host where the flow's own connection ends: the proxy or the receiving host.
fn met(values: &Values) -> &str {
    values.find("through").map_or_else(|| values.text("to"), |entry| entry.value.text())
}

/// Reads the protocol of a flow, which determines the keys that are checked next.
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

/// Start and stop times of a flow.
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
        Directions::Both if workload.arrivals().is_some() => {
            "the files of arrivals have one direction; write \"forward\" or \"reverse\" for it"
        }
        _ => return Ok(direction),
    };
    let origin = if entry.origin == Origin::Nowhere { header } else { entry.origin };
    Err(Fault::new(origin, format!("direction of {owner} is {}, but {problem}", quoted(entry.value.text()))))
}

/// A key that only some congestion controls support. A flow that inherits it from the defaults ignores it with other
/// controls.
struct Restriction {
    key: &'static str,
    supports: fn(&Entry) -> bool,
    /// The supporting controls, for messages.
    whom: &'static str,
    /// True if the flow may give the default value with any control.
    allows_default: bool,
}

static RESTRICTIONS: &[Restriction] = &[
    Restriction {
        key: "couple",
        supports: |control| control.coupled,
        whom: "controls that couple paths",
        allows_default: true,
    },
    // Coupled controls, and controls that do not react to losses, have their own minimum of the threshold.
    Restriction {
        key: "ssthresh_floor",
        supports: |control| !control.coupled && control.signal == Signal::Loss,
        whom: "\"reno\" and \"cubic\"",
        allows_default: false,
    },
    Restriction {
        key: "slow_start",
        supports: |control| control.name == "lia",
        whom: "\"lia\" only",
        allows_default: true,
    },
];

/// The protocol with its settings.
fn settings(values: &Values, kind: Protocols, own: &Table, owner: &str) -> Result<Protocol, Fault> {
    let defaults = Protocol::new(kind);
    let mut protocol = defaults.clone();
    for (key, _) in defaults.entries() {
        if let Some(entry) = values.find(key.name) {
            let value = setting(entry, key, (kind, owner))?;
            protocol.put(key.name, value).expect(CHECKED_BEFORE);
        }
    }
    let Some(control) = protocol.congestion().map(|choice| choice.entry) else { return Ok(protocol) };
    for Restriction { key, supports, whom, allows_default } in RESTRICTIONS {
        let (Some(default), false) = (defaults.get(key), supports(control)) else { continue };
        if own.get(key).is_some() && !(*allows_default && protocol.get(key).as_ref() == Some(&default)) {
            let message = format!(
                "{key} of {owner} applies to {whom}, but the congestion of the flow is {}; remove it, or move it to \
                 [flow_defaults]",
                quoted(control.name)
            );
            return Err(Fault::new(values.origin(key), message));
        }
        protocol.put(key, default).expect(CHECKED_BEFORE);
    }
    check_whole_packets(&protocol, values, owner)?;
    if let Protocol::Sctp(config) = &protocol {
        streams::check(config, values, own, owner)?;
    }
    Ok(protocol)
}

/// The value of a protocol's key.
fn setting(entry: &Checked, key: &Key, (kind, owner): (Protocols, &str)) -> Result<setting::Value, Fault> {
    Ok(match &entry.value {
        Value::Flag(flag) => setting::Value::Flag(*flag),
        Value::Integer(integer) => setting::Value::Integer(*integer),
        Value::Number(number) => setting::Value::Number(*number),
        Value::Time(time) => setting::Value::Time(*time),
        Value::Size(bytes) => setting::Value::Size(*bytes),
        // Only TCP connections adapt the size of their buffers.
        Value::Text(word) if word == AUTO_BUFFER && kind != Protocols::TCP => {
            let (name, protocol) = (entry.key, kind.names().concat());
            let message = format!(
                "{name} of {owner} is \"auto\", which only tcp supports; write a size for {protocol}"
            );
            return Err(Fault::new(entry.origin, message));
        }
        Value::Text(word) => match key.takes.word(word) {
            Some(word) => setting::Value::Word(word),
            None => setting::Value::PathManager(path_manager::parse(word).expect(CHECKED_BEFORE)),
        },
        Value::List(numbers) => setting::Value::Integers(numbers.iter().map(Value::integer).collect()),
        other => unreachable!("no setting of a protocol takes {other:?}"),
    })
}

/// Message of the panic if a checked value cannot be set.
const CHECKED_BEFORE: &str = "the value was checked against the same key";

/// Checks that a control that models its paths does not have windows of whole segments.
fn check_whole_packets(protocol: &Protocol, values: &Values, owner: &str) -> Result<(), Fault> {
    let asked = protocol.tcp().is_some_and(|config| config.whole_packets);
    match protocol.congestion() {
        Some(choice) if asked && choice.entry.signal == Signal::Model => {
            let control = quoted(choice.entry.name);
            let message = format!(
                "whole_packets of {owner} is not supported by {control}, whose window follows a model; set it to false"
            );
            Err(Fault::new(values.origin("whole_packets"), message))
        }
        _ => Ok(()),
    }
}

/// Indices of the links of a flow's first path, and its version of IP if the names select one.
type FirstPath = (Vec<usize>, Option<IpVersion>);

/// The links of the two hosts on which a connection begins.
fn first_links(values: &Values, owner: &str, around: &Surroundings<'_>) -> Result<FirstPath, Fault> {
    let Some(entry) = values.find("initial_path") else {
        return Ok(FirstPath::default());
    };
    let names = match &entry.value {
        Value::List(names) => names.iter().map(Value::text).collect(),
        name => vec![name.text()],
    };
    let (names, versions): (Vec<_>, Vec<_>) = names.into_iter().map(link_and_version).unzip();
    let mut versions = versions.into_iter().flatten();
    let version = versions.next();
    if versions.any(|other| Some(other) != version) {
        let message = format!("initial_path of {owner} names both versions of IP; a path has one of them");
        return Err(Fault::new(entry.origin, message));
    }
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
    Ok((links, version))
}

/// The links with these names, each listed once; each must be at an end of the flow.
fn at_the_ends(values: &Values, names: &[&str], around: &Surroundings<'_>) -> Result<Vec<usize>, String> {
    let ends = [values.text("from"), met(values)];
    links_of_ends(ends, names, (around.links, &around.index))
}

/// The links with these names, each listed once; each must be at one of these hosts of a flow.
pub(super) fn links_of_ends(
    ends: [&str; 2],
    names: &[&str],
    (all, index): (&[Link], &LinkIndex),
) -> Result<Vec<usize>, String> {
    let mut links: Vec<usize> = Vec::new();
    for name in names {
        let link = find_link(all, index, name)?;
        if !all[link].between.iter().any(|node| ends.contains(&node.as_str())) {
            return Err(format!(
                "the link {} is at neither end of the flow; its ends have {}",
                quoted(name),
                links_at(all, &ends).join(", ")
            ));
        }
        if !links.contains(&link) {
            links.push(link);
        }
    }
    Ok(links)
}

/// The links whose addresses are backups.
fn backup(values: &Values, owner: &str, around: &Surroundings<'_>) -> Result<Vec<usize>, Fault> {
    let Some(backup) = values.find("backup") else { return Ok(Vec::new()) };
    let names: Vec<&str> = backup.value.list().iter().map(Value::text).collect();
    at_the_ends(values, &names, around)
        .map_err(|message| Fault::new(backup.origin, format!("backup of {owner}: {message}")))
}

/// Names of the links of these nodes.
pub(super) fn links_at<'a>(links: &'a [Link], nodes: &[&str]) -> Vec<&'a str> {
    let touches = |link: &&Link| link.between.iter().any(|node| nodes.contains(&node.as_str()));
    links.iter().filter(touches).map(|link| link.name.as_str()).collect()
}

/// The link of the receiving host whose address is the initial destination, followed by that of the
/// connecting host, if given.
fn first_destination(values: &Values, owner: &str, around: &Surroundings<'_>) -> Result<FirstPath, Fault> {
    let Some(entry) = values.find("initial_path") else {
        return Ok(FirstPath::default());
    };
    if matches!(entry.value, Value::List(_)) {
        let (mut pair, version) = first_links(values, owner, around)?;
        let receiving = values.text("to");
        // A link between the two hosts is at both ends.
        if let [link] = pair[..] {
            pair.push(link);
        }
        if !around.links[pair[0]].between.iter().any(|node| node == receiving) {
            pair.reverse();
        }
        return Ok((pair, version));
    }
    let host = values.text("to");
    let names = links_at(around.links, &[host]);
    let fault = |message: String| Fault::new(entry.origin, format!("initial_path of {owner} {message}"));
    let (name, version) = match &entry.value {
        Value::Integer(index) => (
            *names.get(*index as usize).ok_or_else(|| {
                fault(format!(
                    "is {index}, but {} has {} links; count them from 0: {}",
                    quoted(host),
                    names.len(),
                    names.join(", ")
                ))
            })?,
            None,
        ),
        name => link_and_version(name.text()),
    };
    if names.contains(&name) {
        return Ok((around.index.0.get(name).copied().into_iter().collect(), version));
    }
    let remedy = remedy(name, &names, &format!("links of {}", quoted(host)));
    Err(fault(format!("is {}, which is not a link of the receiving host; {remedy}", quoted(name))))
}
