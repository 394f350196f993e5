//! Events: changes of links during the run.

use super::{Element, LinkIndex, Source, find_link, link, seconds};
use crate::check::{self, Context};
use crate::choices::{DIRECTIONS, STATES, pick};
use crate::error::{Fault, Origin, quoted};
use crate::model::{Change, Directions, Event, Link, LinkDelay, LinkRate};
use crate::table::{EVENT, SET};
use crate::values::Values;
use anabranch_base::time::{Duration, Time};
use std::collections::BTreeMap;

/// More repetitions than any run needs.
const MAX_REPETITIONS: u64 = 1_000_000;

/// All events in order of time, with each repetition as a separate event.
pub(super) fn events(
    elements: &[Element<'_>],
    links: &[Link],
    duration: Duration,
    source: Source<'_>,
) -> Result<Vec<Event>, Fault> {
    let index = LinkIndex::of(links);
    let mut events = Vec::new();
    let mut said = ChangesByTime::default();
    for (number, element) in elements.iter().enumerate() {
        let owner = format!("[[event]] number {}", number + 1);
        let context = Context { owner: &owner, protocol: None, complete: true };
        let values = check::section(element.table, element.origin, &EVENT, context)?;
        let changes = changes(&values, &owner, source)?;
        let name = values.get("link");
        let link = find_link(links, &index, name.value.text())
            .map_err(|problem| Fault::new(name.origin, format!("{owner}: {problem}")))?;
        let directions = pick(DIRECTIONS, values.text("direction"));
        no_change_of_a_trace(&owner, &links[link], directions, &changes)?;
        for at in moments(&values, &owner, duration)? {
            for (key, change, origin) in &changes {
                said.check(&EventChange { at, link, directions, key, change, origin: *origin }, links)?;
            }
            let changes = changes.iter().map(|(_, change, _)| change.clone()).collect();
            events.push(Event { at, link, directions, changes });
        }
    }
    // Stable: events of equal time keep the order of the file.
    events.sort_by_key(|event| event.at);
    Ok(events)
}

/// A link that follows a trace has no rate, or no delay, to change.
fn no_change_of_a_trace(
    owner: &str,
    link: &Link,
    directions: Directions,
    changes: &[(&'static str, Change, Origin)],
) -> Result<(), Fault> {
    let concerned = match directions {
        Directions::Both => &[&link.forward, &link.reverse][..],
        Directions::Forward => &[&link.forward],
        Directions::Reverse => &[&link.reverse],
    };
    let follows = |change: &Change| match change {
        Change::Rate(_) => concerned.iter().any(|model| matches!(model.rate, LinkRate::Trace { .. })),
        Change::Delay(_) => concerned.iter().any(|model| matches!(model.delay, LinkDelay::Trace { .. })),
        _ => false,
    };
    let changed = changes.iter().find(|(_, change, _)| follows(change));
    changed.map_or(Ok(()), |(key, _, origin)| {
        let message = format!(
            "{owner} sets the {key} of link {}, which follows a trace; remove the event, or give the link a constant {key}",
            quoted(&link.name)
        );
        Err(Fault::new(*origin, message))
    })
}

/// The changes, each with its key and the place of that, in the order of the table of keys.
fn changes(
    values: &Values,
    owner: &str,
    source: Source<'_>,
) -> Result<Vec<(&'static str, Change, Origin)>, Fault> {
    let entry = values.get("set");
    let set = entry.value.table();
    let mut changes = Vec::new();
    for key in SET.names(None) {
        let Some(entry) = set.find(key) else { continue };
        let change = match key {
            "state" => Change::State { up: pick(STATES, entry.value.text()) },
            "rate" => Change::Rate(entry.value.rate()),
            "delay" => Change::Delay(entry.value.time()),
            "loss" => Change::Loss(link::loss(entry.value.table(), owner, source)?),
            other => panic!("the table of keys has an unknown change {other}"),
        };
        changes.push((key, change, entry.origin));
    }
    if changes.is_empty() {
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

/// One change of an event.
struct EventChange<'a> {
    at: Time,
    link: usize,
    directions: Directions,
    key: &'a &'static str,
    change: &'a Change,
    origin: Origin,
}

/// Earlier changes of a link's key at the same time.
type EarlierChanges = Vec<(Directions, Change, Origin)>;

/// All changes read until now.
#[derive(Default)]
struct ChangesByTime(BTreeMap<(Time, usize, &'static str), EarlierChanges>);

impl ChangesByTime {
    /// Two events that set the same key at the same time contradict or repeat each other; their order in the
    /// file must not decide between them.
    fn check(&mut self, new: &EventChange<'_>, links: &[Link]) -> Result<(), Fault> {
        let before = self.0.entry((new.at, new.link, new.key)).or_default();
        let overlaps = |other: Directions| {
            new.directions == other || new.directions == Directions::Both || other == Directions::Both
        };
        if let Some((_, change, origin)) = before.iter().find(|(directions, ..)| overlaps(*directions)) {
            let verb = if change == new.change { "repeat" } else { "contradict" };
            let message = format!(
                "two events {verb} each other: both set {} of link {} at {} (the other on {origin}); keep one of them",
                new.key,
                quoted(&links[new.link].name),
                seconds(new.at.since(Time::ZERO)),
            );
            return Err(Fault::new(new.origin, message));
        }
        before.push((new.directions, new.change.clone(), new.origin));
        Ok(())
    }
}
