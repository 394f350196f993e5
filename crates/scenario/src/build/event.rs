//! What happens on the way.

use super::{Element, LinkIndex, find_link, link, seconds};
use crate::check::{self, Context};
use crate::choices::{DIRECTIONS, STATES, pick};
use crate::error::{Fault, Origin, quoted};
use crate::model::{Change, Directions, Event, Link, LinkRate};
use crate::table::{EVENT, SET};
use crate::values::Values;
use anabranch_base::time::{Duration, Time};
use std::collections::BTreeMap;

/// More than a run can have any use for.
const MOST_REPETITIONS: u64 = 1_000_000;

/// All events in order of time, repetitions spelt out.
pub(super) fn events(
    elements: &[Element<'_>],
    links: &[Link],
    duration: Duration,
) -> Result<Vec<Event>, Fault> {
    let index = LinkIndex::of(links);
    let mut events = Vec::new();
    let mut said = Said::default();
    for (number, element) in elements.iter().enumerate() {
        let owner = format!("[[event]] number {}", number + 1);
        let context = Context { owner: &owner, protocol: None, complete: true };
        let values = check::section(element.table, element.origin, &EVENT, context)?;
        let changes = changes(&values, &owner)?;
        let name = values.get("link");
        let link = find_link(links, &index, name.value.text())
            .map_err(|problem| Fault::new(name.origin, format!("{owner}: {problem}")))?;
        let directions = pick(DIRECTIONS, values.text("direction"));
        no_rate_of_a_trace(&owner, &links[link], directions, &changes)?;
        for at in moments(&values, &owner, duration)? {
            for (key, change, origin) in &changes {
                said.check(&Saying { at, link, directions, key, change: *change, origin: *origin }, links)?;
            }
            let changes = changes.iter().map(|(_, change, _)| *change).collect();
            events.push(Event { at, link, directions, changes });
        }
    }
    // Stable: file order where the moments are equal.
    events.sort_by_key(|event| event.at);
    Ok(events)
}

/// A link that follows a trace has no rate that could change.
fn no_rate_of_a_trace(
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
    let follows = concerned.iter().any(|model| matches!(model.rate, LinkRate::Trace { .. }));
    let changed = changes.iter().find(|(_, change, _)| follows && matches!(change, Change::Rate(_)));
    changed.map_or(Ok(()), |(_, _, origin)| {
        let message = format!(
            "{owner} sets the rate of link {}, which follows a trace; take the event away, or give the link a constant rate",
            quoted(&link.name)
        );
        Err(Fault::new(*origin, message))
    })
}

/// What changes, under which key and where that was written, in the order of the table of keys.
fn changes(values: &Values, owner: &str) -> Result<Vec<(&'static str, Change, Origin)>, Fault> {
    let entry = values.get("set");
    let set = entry.value.table();
    let mut changes = Vec::new();
    for key in SET.names(None) {
        let Some(entry) = set.find(key) else { continue };
        let change = match key {
            "state" => Change::State { up: pick(STATES, entry.value.text()) },
            "rate" => Change::Rate(entry.value.rate()),
            "delay" => Change::Delay(entry.value.time()),
            "loss" => Change::Loss(link::loss(entry.value.table())),
            other => panic!("the table of keys has a change {other} that nothing is made of"),
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

/// When an event happens: once, or again and again until the end.
fn moments(values: &Values, owner: &str, duration: Duration) -> Result<Vec<Time>, Fault> {
    let at = values.get("at");
    let first = at.value.time();
    if first >= duration {
        let message = format!(
            "{owner} happens at {}, when the run of {} is over; move it forward or make duration longer",
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
    if times > MOST_REPETITIONS {
        let message = format!(
            "{owner} would happen {times} times; make every longer (at most {MOST_REPETITIONS} times)"
        );
        return Err(Fault::new(every.origin, message));
    }
    Ok((0..times).map(|number| Time::ZERO + first + period.saturating_mul(number)).collect())
}

/// One thing that an event says.
struct Saying<'a> {
    at: Time,
    link: usize,
    directions: Directions,
    key: &'a &'static str,
    change: Change,
    origin: Origin,
}

/// What was said about a key of a link at a moment.
type Already = Vec<(Directions, Change, Origin)>;

/// Everything said so far.
#[derive(Default)]
struct Said(BTreeMap<(Time, usize, &'static str), Already>);

impl Said {
    /// Two events that say something about the same key at the same moment contradict or repeat each other; their
    /// order in the file must not decide which one holds.
    fn check(&mut self, new: &Saying<'_>, links: &[Link]) -> Result<(), Fault> {
        let before = self.0.entry((new.at, new.link, new.key)).or_default();
        let overlaps = |other: Directions| {
            new.directions == other || new.directions == Directions::Both || other == Directions::Both
        };
        if let Some((_, change, origin)) = before.iter().find(|(directions, ..)| overlaps(*directions)) {
            let verb = if *change == new.change { "repeat" } else { "contradict" };
            let message = format!(
                "two events {verb} each other: both set {} of link {} at {} (the other on {origin}); keep one of them",
                new.key,
                quoted(&links[new.link].name),
                seconds(new.at.since(Time::ZERO)),
            );
            return Err(Fault::new(new.origin, message));
        }
        before.push((new.directions, new.change, new.origin));
        Ok(())
    }
}
