//! Events: changes of links during the run.

use super::{Element, LinkIndex, Source, event_queue, find_link, link, seconds};
use crate::check::{self, Context};
use crate::choices::{DIRECTIONS, STATES, pick};
use crate::document::{Node, Table};
use crate::error::{Fault, Origin, quoted};
use crate::model::{Change, Directions, Event, Link, LinkDelay, LinkRate};
use crate::table::{EVENT, ORDER, SET};
use crate::values::Values;
use anabranch_base::time::{Duration, Time};
use std::collections::BTreeMap;

/// Orders read no files.
const NO_FILES: Source<'_> = Source { file: "", files: &|_| Err("an order reads no files".to_owned()) };

/// More repetitions than any run needs.
const MAX_REPETITIONS: u64 = 1_000_000;

/// A new value of one key.
#[derive(Clone, Debug)]
pub(super) enum New {
    Change(Change),
    /// A table that the present queue completes; index in the list of such tables.
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
    link: usize,
    directions: Directions,
    values: Vec<NewValue>,
}

/// All events in order of time, with each repetition as a separate event.
pub(super) fn events(
    elements: &[Element<'_>],
    links: &[Link],
    duration: Duration,
    source: Source<'_>,
) -> Result<Vec<Event>, Fault> {
    let index = LinkIndex::of(links);
    let mut queues = event_queue::Queues::of(links);
    let (mut settings, mut times) = (Vec::new(), Vec::new());
    for (number, element) in elements.iter().enumerate() {
        let owner = format!("[[event]] number {}", number + 1);
        let context = Context { owner: &owner, protocol: None, complete: true };
        let (table, queue) = without_queue(element.table);
        let values = check::section(&table, element.origin, &EVENT, context)?;
        let setting = setting(&values, &owner, queue, (links, &index), (&mut queues, source))?;
        times.extend(moments(&values, &owner, duration)?.into_iter().map(|at| (at, number)));
        settings.push(setting);
    }
    // Stable: events of equal time keep the order of the file.
    times.sort_by_key(|&(at, _)| at);
    let mut said = ChangesByTime::default();
    let mut events = Vec::new();
    for (at, number) in times {
        let setting = &settings[number];
        said.check(at, setting, links)?;
        expand(at, setting, &mut queues, &mut events)?;
    }
    Ok(events)
}

/// The events of an order at `at`, after the events `before` it.
pub(super) fn order(table: &Table, links: &[Link], before: &[Event], at: Time) -> Result<Vec<Event>, Fault> {
    let owner = "the order";
    let index = LinkIndex::of(links);
    let mut queues = event_queue::Queues::of(links);
    for event in before {
        queues.apply(event);
    }
    let context = Context { owner, protocol: None, complete: true };
    let (table, queue) = without_queue(table);
    let values = check::section(&table, Origin::Nowhere, &ORDER, context)?;
    let setting = setting(&values, owner, queue, (links, &index), (&mut queues, NO_FILES))?;
    let mut events = Vec::new();
    expand(at, &setting, &mut queues, &mut events)?;
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

fn setting(
    values: &Values,
    owner: &str,
    queue: Option<Node>,
    (links, index): (&[Link], &LinkIndex),
    (queues, source): (&mut event_queue::Queues, Source<'_>),
) -> Result<Setting, Fault> {
    let mut new = changes(values, queue.is_none(), owner, source)?;
    let name = values.get("link");
    let link = find_link(links, index, name.value.text())
        .map_err(|problem| Fault::new(name.origin, format!("{owner}: {problem}")))?;
    let directions = pick(DIRECTIONS, values.text("direction"));
    no_change_of_a_trace(owner, &links[link], directions, &new)?;
    if let Some(node) = queue {
        let origin = node.origin;
        new.push(NewValue { key: "queue", origin, new: New::Queue(queues.add(node, owner)?) });
    }
    Ok(Setting { link, directions, values: new })
}

/// Adds the events of one time: one, or further ones where a new queue differs between the directions.
fn expand(
    at: Time,
    setting: &Setting,
    queues: &mut event_queue::Queues,
    events: &mut Vec<Event>,
) -> Result<(), Fault> {
    let Setting { link, directions, ref values } = *setting;
    let event = |directions, changes| Event { at, link, directions, changes };
    let mut changes = Vec::new();
    let mut apart = Vec::new();
    for value in values {
        match &value.new {
            New::Change(change) => changes.push(change.clone()),
            New::Queue(table) => {
                let new = queues.complete(*table, link, directions)?;
                match &new[..] {
                    [(_, first), (_, second)] if first != second => apart = new,
                    [(_, queue), ..] => changes.push(Change::Queue(queue.clone())),
                    [] => unreachable!("an event has a direction"),
                }
            }
        }
    }
    if !changes.is_empty() {
        events.push(event(directions, changes));
    }
    events.extend(apart.into_iter().map(|(direction, queue)| event(direction, vec![Change::Queue(queue)])));
    Ok(())
}

/// A link that follows a trace has no rate, or no delay, to change.
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

/// The changes, each with its key and the place of that, in the order of the table of keys.
fn changes(
    values: &Values,
    must_change: bool,
    owner: &str,
    source: Source<'_>,
) -> Result<Vec<NewValue>, Fault> {
    let entry = values.get("set");
    let set = entry.value.table();
    let mut changes = Vec::new();
    for key in SET.names(None) {
        let Some(entry) = set.find(key) else { continue };
        let change = match key {
            "state" => Change::State { up: pick(STATES, entry.value.text()) },
            "rate" => Change::Rate(entry.value.rate()),
            "delay" => Change::Delay(entry.value.time()),
            "jitter" => Change::Jitter(entry.value.time()),
            "loss" => Change::Loss(link::loss(entry.value.table(), owner, source)?),
            other => panic!("the table of keys has an unknown change {other}"),
        };
        changes.push(NewValue { key, origin: entry.origin, new: New::Change(change) });
    }
    if changes.is_empty() && must_change {
        let keys = SET.names(None).join(", ");
        return Err(Fault::new(
            entry.origin,
            format!("set of {owner} changes nothing; give at least one of {keys}"),
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

/// Whether two changes concern the same direction.
pub(super) fn overlap(first: Directions, second: Directions) -> bool {
    first == second || first == Directions::Both || second == Directions::Both
}

/// Earlier changes of a link's key at the same time.
type EarlierChanges = Vec<(Directions, New, Origin)>;

/// All changes read until now.
#[derive(Default)]
struct ChangesByTime(BTreeMap<(Time, usize, &'static str), EarlierChanges>);

impl ChangesByTime {
    /// Two events that set the same key at the same time contradict or repeat each other; their order in the
    /// file must not decide between them.
    fn check(&mut self, at: Time, setting: &Setting, links: &[Link]) -> Result<(), Fault> {
        for value in &setting.values {
            let before = self.0.entry((at, setting.link, value.key)).or_default();
            let same = before.iter().find(|(directions, ..)| overlap(setting.directions, *directions));
            if let Some((_, other, origin)) = same {
                let verb = match (other, &value.new) {
                    (New::Change(first), New::Change(second)) if first == second => "repeat",
                    _ => "contradict",
                };
                let message = format!(
                    "two events {verb} each other: both set {} of link {} at {} (the other on {origin}); keep one of them",
                    value.key,
                    quoted(&links[setting.link].name),
                    seconds(at.since(Time::ZERO)),
                );
                return Err(Fault::new(value.origin, message));
            }
            before.push((setting.directions, value.new.clone(), value.origin));
        }
        Ok(())
    }
}
