//! Events: changes of links and flows during the run.

use super::{Element, LinkIndex, Source, event_flow, event_queue, find_link, link, seconds};
use crate::check::{self, Context};
use crate::choices::{ADDRESSES, DIRECTIONS, STATES, pick};
use crate::document::{Node, Table};
use crate::error::{Fault, Origin, quoted};
use crate::model::{
    Change, Directions, Event, Flow, FlowChange, FlowEvent, IpVersion, IpVersions, Link, LinkDelay,
    LinkEvent, LinkRate, Scope, Subject,
};
use crate::suggest::remedy;
use crate::table::{EVENT, ORDER, SET, of_flow};
use crate::values::{Checked, Values};
use anabranch_base::time::{Duration, Time};
use anabranch_netem::network::{MAX_FURTHER_GENERATION, MAX_RENUMBERED_LINKS};
use std::collections::BTreeMap;

/// Orders read no files.
const NO_FILES: Source<'_> = Source { file: "", files: &|_| Err("an order reads no files".to_owned()) };

/// Limit of repetitions, above the needs of any run.
const MAX_REPETITIONS: u64 = 1_000_000;

/// A new value of one key.
#[derive(Clone, Debug)]
pub(super) enum New {
    Change(Change),
    /// Whether the addresses of a link are new.
    Addresses(bool),
    /// A new value of a flow.
    Flow(FlowChange),
    /// A partial table of a queue, as an index in the list of such tables. The queue at the time of the event
    /// completes it.
    Queue(usize),
}

/// One key of an event, with the place of its value.
#[derive(Clone, Debug)]
struct NewValue {
    key: &'static str,
    origin: Origin,
    new: New,
}

/// The changes of one or more events of equal values.
#[derive(Debug)]
struct Setting {
    subject: Changed,
    values: Vec<NewValue>,
}

/// A link or a flow that changes.
#[derive(Clone, Copy, Debug)]
enum Changed {
    Link(usize, Directions),
    Flow(usize),
}

/// The links and flows of the scenario.
#[derive(Clone, Copy)]
pub(super) struct Network<'a> {
    pub links: &'a [Link],
    pub flows: &'a [Flow],
    pub ip: IpVersions,
}

/// All events in order of time, with each repetition as a separate event.
pub(super) fn events(
    elements: &[Element<'_>],
    network: Network<'_>,
    duration: Duration,
    source: Source<'_>,
) -> Result<Vec<Event>, Fault> {
    let mut reader = Reader::of(network);
    let (mut settings, mut times) = (Vec::new(), Vec::new());
    for (number, element) in elements.iter().enumerate() {
        let owner = format!("[[event]] number {}", number + 1);
        let context = Context { owner: &owner, protocol: None, complete: true };
        let (table, queue) = without_queue(element.table);
        let values = check::section(&table, element.origin, &EVENT, context)?;
        let setting = reader.setting(&values, &owner, queue, (element.origin, source))?;
        times.extend(moments(&values, &owner, duration)?.into_iter().map(|at| (at, number)));
        settings.push(setting);
    }
    // Stable: events of equal time keep the order of the file.
    times.sort_by_key(|&(at, _)| at);
    let mut said = ChangesByTime::default();
    let mut events = Vec::new();
    for (at, number) in times {
        let setting = &settings[number];
        said.check(at, setting, network)?;
        reader.expand(at, setting, &mut events)?;
    }
    Ok(events)
}

/// The events of an order at `at`, after the events `before` it.
pub(super) fn order(
    table: &Table,
    network: Network<'_>,
    before: &[Event],
    at: Time,
) -> Result<Vec<Event>, Fault> {
    let owner = "the order";
    let mut reader = Reader::of(network);
    for event in before.iter().filter_map(Event::of_link) {
        reader.queues.apply(event);
        reader.renumberings[event.link] += u32::from(event.renumbers);
    }
    let context = Context { owner, protocol: None, complete: true };
    let (table, queue) = without_queue(table);
    let values = check::section(&table, Origin::Nowhere, &ORDER, context)?;
    let setting = reader.setting(&values, owner, queue, (Origin::Nowhere, NO_FILES))?;
    let mut events = Vec::new();
    reader.expand(at, &setting, &mut events)?;
    Ok(events)
}

/// Separates the table of a new queue, which is complete only at the time of the event.
fn without_queue(table: &Table) -> (Table, Option<Node>) {
    let mut table = table.clone();
    let set = table.entries.iter_mut().find(|entry| entry.key == "set");
    let queue = set.and_then(|set| match &mut set.node.data {
        crate::document::Data::Table(set) => set.take("queue"),
        _ => None,
    });
    (table, queue)
}

/// Reads events, and records the values that they set.
struct Reader<'a> {
    network: Network<'a>,
    index: LinkIndex,
    queues: event_queue::Queues,
    /// Number of new addresses of each link.
    renumberings: Vec<u32>,
}

impl<'a> Reader<'a> {
    fn of(network: Network<'a>) -> Self {
        let Network { links, .. } = network;
        Self {
            network,
            index: LinkIndex::of(links),
            queues: event_queue::Queues::of(links),
            renumberings: vec![0; links.len()],
        }
    }

    fn setting(
        &mut self,
        values: &Values,
        owner: &str,
        queue: Option<Node>,
        (origin, source): (Origin, Source<'_>),
    ) -> Result<Setting, Fault> {
        match (values.find("link"), values.find("flow")) {
            (Some(name), None) => self.of_link(name, values, (owner, queue), source),
            (None, Some(name)) => self.of_flow(name, values, (owner, queue)),
            (Some(_), Some(flow)) => {
                let message = format!("{owner} names a link and a flow; write an event for each");
                Err(Fault::new(flow.origin, message))
            }
            (None, None) => {
                let message = format!(
                    "{owner} names neither a link nor a flow; add link = \"name of a link\" or flow = \"name of a flow\""
                );
                Err(Fault::new(origin, message))
            }
        }
    }

    fn of_link(
        &mut self,
        name: &Checked,
        values: &Values,
        (owner, queue): (&str, Option<Node>),
        source: Source<'_>,
    ) -> Result<Setting, Fault> {
        let links = self.network.links;
        let link = find_link(links, &self.index, name.value.text())
            .map_err(|problem| Fault::new(name.origin, format!("{owner}: {problem}")))?;
        if let Some(entry) = set_of(values).entries.iter().find(|entry| of_flow().any(|key| key == entry.key))
        {
            let message = format!(
                "{} of {owner} is a value of a flow; replace link by flow = \"name of a flow\"",
                entry.key
            );
            return Err(Fault::new(entry.origin, message));
        }
        let mut new = changes(values, queue.is_none(), owner, source)?;
        let directions = pick(DIRECTIONS, values.text("direction"));
        no_change_of_a_trace(owner, &links[link], directions, &new)?;
        self.new_addresses(owner, (link, directions), &new)?;
        if let Some(node) = queue {
            let origin = node.origin;
            new.push(NewValue { key: "queue", origin, new: New::Queue(self.queues.add(node, owner)?) });
        }
        Ok(Setting { subject: Changed::Link(link, directions), values: new })
    }

    fn of_flow(
        &self,
        name: &Checked,
        values: &Values,
        (owner, queue): (&str, Option<Node>),
    ) -> Result<Setting, Fault> {
        let Network { links, flows, ip } = self.network;
        let wanted = name.value.text();
        let Some(flow) = flows.iter().position(|flow| flow.name == wanted) else {
            let names: Vec<_> = flows.iter().map(|flow| flow.name.as_str()).collect();
            let remedy = remedy(wanted, &names, "flows");
            let message = format!("{owner}: there is no flow {}; {remedy}", quoted(wanted));
            return Err(Fault::new(name.origin, message));
        };
        let direction = values.get("direction");
        if direction.origin != Origin::Nowhere {
            let message =
                format!("direction of {owner} is a value of a link, and the event names a flow; remove it");
            return Err(Fault::new(direction.origin, message));
        }
        let mut new = Vec::new();
        let set = set_of(values);
        for entry in &set.entries {
            if !of_flow().any(|key| key == entry.key) {
                return Err(not_of_a_flow(entry.origin, entry.key, owner));
            }
            let change = event_flow::change(entry, &flows[flow], owner, ((links, &self.index), ip))?;
            new.push(NewValue { key: entry.key, origin: entry.origin, new: New::Flow(change) });
        }
        if let Some(node) = queue {
            return Err(not_of_a_flow(node.origin, "queue", owner));
        }
        if new.is_empty() {
            let keys = of_flow().collect::<Vec<_>>().join(", ");
            let message = format!("set of {owner} changes nothing; give one of {keys}");
            return Err(Fault::new(values.get("set").origin, message));
        }
        Ok(Setting { subject: Changed::Flow(flow), values: new })
    }

    /// New addresses need a link that comes up in both directions, and addresses that can change.
    fn new_addresses(
        &self,
        owner: &str,
        (link, directions): (usize, Directions),
        new: &[NewValue],
    ) -> Result<(), Fault> {
        let Some(value) = new.iter().find(|value| value.key == "address") else { return Ok(()) };
        let Network { links, ip, .. } = self.network;
        let name = quoted(&links[link].name);
        let is_up = |value: &NewValue| matches!(value.new, New::Change(Change::State { up: true }));
        let problem = if !new.iter().any(is_up) {
            "needs state = \"up\" in the same event; add it".to_owned()
        } else if links[link].scope == Scope::Link {
            format!(
                "does not apply to link {name}, whose addresses are link-local and do not change; remove it"
            )
        } else if directions != Directions::Both {
            "concerns both ends of the link; remove direction".to_owned()
        } else if links[link].versions(ip).has(IpVersion::V4) && link >= MAX_RENUMBERED_LINKS {
            format!(
                "does not apply to link {name}: over IPv4 only the first {MAX_RENUMBERED_LINKS} links of a scenario can \
                 get new addresses; move the link to the front, or set ip = \"v6\""
            )
        } else {
            return Ok(());
        };
        Err(Fault::new(value.origin, format!("address of {owner} {problem}")))
    }

    /// Adds the events of one time: a single event, or several if a new queue differs between the directions.
    fn expand(&mut self, at: Time, setting: &Setting, events: &mut Vec<Event>) -> Result<(), Fault> {
        let (link, directions) = match setting.subject {
            Changed::Link(link, directions) => (link, directions),
            Changed::Flow(flow) => {
                let changes = setting.values.iter().filter_map(|value| match &value.new {
                    New::Flow(change) => Some(change.clone()),
                    _ => None,
                });
                let event = |change| Event { at, subject: Subject::Flow(FlowEvent { flow, change }) };
                events.extend(changes.map(event));
                return Ok(());
            }
        };
        let event = |directions, renumbers, changes| {
            let event = LinkEvent { link, directions, renumbers, changes };
            Event { at, subject: Subject::Link(event) }
        };
        let (mut changes, mut renumbers) = (Vec::new(), false);
        let mut apart = Vec::new();
        for value in &setting.values {
            match &value.new {
                New::Change(change) => changes.push(change.clone()),
                New::Addresses(new) => {
                    renumbers = *new;
                    self.count_addresses(link, value)?;
                }
                New::Queue(table) => {
                    let new = self.queues.complete(*table, link, directions)?;
                    match &new[..] {
                        [(_, first), (_, second)] if first != second => apart = new,
                        [(_, queue), ..] => changes.push(Change::Queue(queue.clone())),
                        [] => unreachable!("an event has a direction"),
                    }
                }
                New::Flow(_) => unreachable!("the event changes a link"),
            }
        }
        if !changes.is_empty() {
            events.push(event(directions, renumbers, changes));
        }
        let queue = |(direction, queue)| event(direction, false, vec![Change::Queue(queue)]);
        events.extend(apart.into_iter().map(queue));
        Ok(())
    }

    /// Counts the new addresses that events give to a link. Their number is limited.
    fn count_addresses(&mut self, link: usize, value: &NewValue) -> Result<(), Fault> {
        let count = &mut self.renumberings[link];
        *count += u32::from(matches!(value.new, New::Addresses(true)));
        let declared = &self.network.links[link];
        let several = declared.addresses != [1, 1] && declared.versions(self.network.ip).has(IpVersion::V4);
        let limit = if several { MAX_FURTHER_GENERATION } else { u8::MAX };
        if *count <= u32::from(limit) {
            return Ok(());
        }
        let of = if several { ", the limit of several IPv4 addresses" } else { "" };
        let message = format!(
            "link {} gets new addresses more than {limit} times{of}; increase every, or reduce the number of events",
            quoted(&declared.name),
        );
        Err(Fault::new(value.origin, message))
    }
}

/// The table of an event's changes.
fn set_of(values: &Values) -> &Values {
    values.get("set").value.table()
}

fn not_of_a_flow(origin: Origin, key: &str, owner: &str) -> Fault {
    let message = format!("{key} of {owner} is a value of a link; replace flow by link = \"name of a link\"");
    Fault::new(origin, message)
}

/// Checks that an event sets no rate, or no delay, of a link whose rate or delay follows a trace.
fn no_change_of_a_trace(
    owner: &str,
    link: &Link,
    directions: Directions,
    changes: &[NewValue],
) -> Result<(), Fault> {
    let concerned = match directions {
        Directions::Both => &[&link.forward, &link.reverse][..],
        Directions::Forward => &[&link.forward],
        Directions::Reverse => &[&link.reverse],
    };
    let follows = |value: &&NewValue| match value.new {
        New::Change(Change::Rate(_)) => {
            concerned.iter().any(|model| matches!(model.rate, LinkRate::Trace { .. }))
        }
        New::Change(Change::Delay(_)) => {
            concerned.iter().any(|model| matches!(model.delay, LinkDelay::Trace { .. }))
        }
        _ => false,
    };
    changes.iter().find(follows).map_or(Ok(()), |value| {
        let key = value.key;
        let message = format!(
            "{owner} sets the {key} of link {}, which follows a trace; remove the event, or give the link a constant {key}",
            quoted(&link.name)
        );
        Err(Fault::new(value.origin, message))
    })
}

/// The changes, each with its key and the place of the key in the file, in the order of the table of keys.
fn changes(
    values: &Values,
    must_change: bool,
    owner: &str,
    source: Source<'_>,
) -> Result<Vec<NewValue>, Fault> {
    let set = set_of(values);
    let mut changes = Vec::new();
    for key in SET.names(None) {
        let Some(entry) = set.find(key) else { continue };
        let change = match key {
            "state" => Change::State { up: pick(STATES, entry.value.text()) },
            "address" => {
                let new = New::Addresses(pick(ADDRESSES, entry.value.text()));
                changes.push(NewValue { key, origin: entry.origin, new });
                continue;
            }
            "rate" => Change::Rate(entry.value.rate()),
            "delay" => Change::Delay(entry.value.time()),
            "jitter" => Change::Jitter(entry.value.time()),
            "loss" => Change::Loss(link::loss(entry.value.table(), owner, source)?),
            "reorder" => Change::Reorder(link::reorder(entry.value.table())),
            other => panic!("the table of keys has an unknown change {other}"),
        };
        changes.push(NewValue { key, origin: entry.origin, new: New::Change(change) });
    }
    if changes.is_empty() && must_change {
        let keys: Vec<_> =
            SET.names(None).into_iter().filter(|name| of_flow().all(|key| key != *name)).collect();
        return Err(Fault::new(
            values.get("set").origin,
            format!("set of {owner} changes nothing; give at least one of {}", keys.join(", ")),
        ));
    }
    Ok(changes)
}

/// The times of an event: once, or repeatedly until the end.
fn moments(values: &Values, owner: &str, duration: Duration) -> Result<Vec<Time>, Fault> {
    let at = values.get("at");
    let first = at.value.time();
    if first >= duration {
        let message = format!(
            "{owner} happens at {}, when the run of {} is over; move it to an earlier time or increase duration",
            seconds(first),
            seconds(duration)
        );
        return Err(Fault::new(at.origin, message));
    }
    let Some(every) = values.find("every") else {
        return Ok(vec![Time::ZERO + first]);
    };
    let period = every.value.time();
    let times = duration.saturating_sub(first).as_nanos().div_ceil(period.as_nanos());
    if times > MAX_REPETITIONS {
        let message = format!(
            "{owner} would happen {times} times; increase every (at most {MAX_REPETITIONS} times are allowed)"
        );
        return Err(Fault::new(every.origin, message));
    }
    Ok((0..times).map(|number| Time::ZERO + first + period.saturating_mul(number)).collect())
}

/// True if two changes concern the same direction.
pub(super) fn overlap(first: Directions, second: Directions) -> bool {
    first == second || first == Directions::Both || second == Directions::Both
}

/// Earlier changes of a key at the same time.
type EarlierChanges = Vec<(Directions, New, Origin)>;

/// All changes read until now, by time, kind and index of the subject, and key.
#[derive(Default)]
struct ChangesByTime(BTreeMap<(Time, (&'static str, usize), &'static str), EarlierChanges>);

impl ChangesByTime {
    /// Checks that no two events set the same key at the same time: such events contradict or repeat each other, and
    /// their order in the file must not decide.
    fn check(&mut self, at: Time, setting: &Setting, network: Network<'_>) -> Result<(), Fault> {
        let (subject, name, changed) = match setting.subject {
            Changed::Link(link, directions) => (("link", link), &network.links[link].name, directions),
            Changed::Flow(flow) => (("flow", flow), &network.flows[flow].name, Directions::Both),
        };
        for value in &setting.values {
            let before = self.0.entry((at, subject, value.key)).or_default();
            let same = before.iter().find(|(directions, ..)| overlap(changed, *directions));
            if let Some((_, other, origin)) = same {
                let message = format!(
                    "two events {} each other: both set {} of {} {} at {} (the other on {origin}); keep one of them",
                    if value.new.repeats(other) { "repeat" } else { "contradict" },
                    value.key,
                    subject.0,
                    quoted(name),
                    seconds(at.since(Time::ZERO)),
                );
                return Err(Fault::new(value.origin, message));
            }
            before.push((changed, value.new.clone(), value.origin));
        }
        Ok(())
    }
}

impl New {
    /// True if another event sets the same value.
    fn repeats(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Change(new), Self::Change(other)) => new == other,
            (Self::Addresses(new), Self::Addresses(other)) => new == other,
            (Self::Flow(new), Self::Flow(other)) => new == other,
            _ => false,
        }
    }
}
