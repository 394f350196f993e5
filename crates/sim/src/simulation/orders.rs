//! Orders: changes of links and flows that a program makes in a paused run.

use super::Simulation;
use crate::scenario::model::{Change, Directions, Event, Link, LinkEvent, LinkRate, Subject};
use crate::scenario::{self, InputError};
use core::mem::discriminant;

impl Simulation {
    /// Changes a link at the present time, as an event of the scenario at this time does. It takes effect when the run
    /// goes on. A further order at the same time replaces an earlier one for the same value.
    ///
    /// The order becomes an event of [`scenario`](Self::scenario): running that scenario gives the same digest. Values
    /// about an outage (`recovery_s`, `recovered_share`) need the outage in the scenario from the start.
    ///
    /// # Errors
    ///
    /// If the run is over, there is no such link, its rate follows a trace, or an event of the scenario sets the same
    /// value at this time.
    pub fn order(&mut self, link: usize, directions: Directions, change: Change) -> Result<(), InputError> {
        let event = LinkEvent { link, directions, renumbers: false, changes: vec![change] };
        self.place(vec![Event { at: self.now(), subject: Subject::Link(event) }])
    }

    /// Like [`order`](Self::order), with an order in JSON ([`scenario::order()`]). A new queue is completed from the
    /// present one.
    ///
    /// # Errors
    ///
    /// The errors of [`order`](Self::order), and an error if the text is not the JSON of an order.
    pub fn order_json(&mut self, json: &str) -> Result<(), InputError> {
        let events = scenario::order(&self.scenario, self.now(), json)?;
        self.place(events)
    }

    /// Checks the events of an order, then places each change as a separate event.
    fn place(&mut self, events: Vec<Event>) -> Result<(), InputError> {
        if self.now() >= self.end || self.stopped.is_some() {
            return Err(InputError::without_place("the run is over; give orders before its end".to_owned()));
        }
        events.iter().try_for_each(|event| self.check(event))?;
        for event in events.into_iter().flat_map(apart) {
            self.withdraw(&event.subject);
            let events = &mut self.scenario.events;
            let place = events.partition_point(|other| other.at <= event.at);
            events.insert(place, event);
            self.controls.orders += 1;
        }
        Ok(())
    }

    fn check(&self, event: &Event) -> Result<(), InputError> {
        let error = |message| Err(InputError::without_place(message));
        let name = match &event.subject {
            Subject::Link(order) => {
                let Some(link) = self.scenario.links.get(order.link) else {
                    let links = self.scenario.links.len();
                    return error(format!(
                        "there is no link with the index {}; the scenario has {links}",
                        order.link
                    ));
                };
                if changes_a_trace(order, link) {
                    return error(format!(
                        "the rate of link \"{}\" follows a trace, which no order can change",
                        link.name
                    ));
                }
                format!("link \"{}\"", link.name)
            }
            Subject::Flow(order) => format!("flow \"{}\"", self.scenario.flows[order.flow].name),
        };
        let own = self.first_order();
        let mut present = self.scenario.events[..own].iter().rev().take_while(|other| other.at == event.at);
        if present.any(|other| sets_the_same(&event.subject, &other.subject)) {
            return error(format!(
                "an event of the scenario sets the same value of {name} at this time; go on before the order"
            ));
        }
        Ok(())
    }

    /// Removes the changes of earlier orders at the current time that set the same values.
    fn withdraw(&mut self, new: &Subject) {
        let mut at = self.first_order();
        for _ in 0..self.controls.orders {
            let event = &mut self.scenario.events[at];
            if !sets_the_same(new, &event.subject) {
                at += 1;
                continue;
            }
            match (&mut event.subject, new) {
                (Subject::Link(old), Subject::Link(new))
                    if old.directions == Directions::Both && new.directions != Directions::Both =>
                {
                    old.directions = opposite(new.directions);
                    at += 1;
                }
                _ => {
                    self.scenario.events.remove(at);
                    self.controls.orders -= 1;
                }
            }
        }
    }

    /// The index of the first order at the present time among all events.
    fn first_order(&self) -> usize {
        let now = self.now();
        self.scenario.events.partition_point(|event| event.at <= now) - self.controls.orders
    }
}

/// Splits an event into one event for each change. New addresses stay with the change of the state.
fn apart(event: Event) -> Vec<Event> {
    let Event { at, subject } = event;
    let LinkEvent { link, directions, renumbers, changes } = match subject {
        Subject::Link(event) => event,
        Subject::Flow(_) => return vec![Event { at, subject }],
    };
    let single = |change| {
        let renumbers = renumbers && matches!(change, Change::State { .. });
        let event = LinkEvent { link, directions, renumbers, changes: vec![change] };
        Event { at, subject: Subject::Link(event) }
    };
    changes.into_iter().map(single).collect()
}

/// True if an event changes the rate of a link that follows a trace.
fn changes_a_trace(event: &LinkEvent, link: &Link) -> bool {
    let follows = |direction, rate: &LinkRate| {
        overlap(event.directions, direction) && matches!(rate, LinkRate::Trace { .. })
    };
    let follows_trace =
        follows(Directions::Forward, &link.forward.rate) || follows(Directions::Reverse, &link.reverse.rate);
    follows_trace && event.changes.iter().any(|change| matches!(change, Change::Rate(_)))
}

/// True if two events set a value of the same link or flow.
fn sets_the_same(new: &Subject, other: &Subject) -> bool {
    match (new, other) {
        (Subject::Link(new), Subject::Link(other)) => {
            let same =
                |change: &Change| new.changes.iter().any(|new| discriminant(new) == discriminant(change));
            new.link == other.link
                && overlap(new.directions, other.directions)
                && other.changes.iter().any(same)
        }
        (Subject::Flow(new), Subject::Flow(other)) => {
            new.flow == other.flow && discriminant(&new.change) == discriminant(&other.change)
        }
        _ => false,
    }
}

fn overlap(first: Directions, second: Directions) -> bool {
    first == second || first == Directions::Both || second == Directions::Both
}

const fn opposite(direction: Directions) -> Directions {
    match direction {
        Directions::Forward => Directions::Reverse,
        _ => Directions::Forward,
    }
}
