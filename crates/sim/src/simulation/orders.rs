//! Orders to a run that has paused: changes of links at the present time.

use super::Simulation;
use crate::scenario::model::{Change, Directions, Event, LinkRate};
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
        let event = Event { at: self.now(), link, directions, changes: vec![change] };
        self.place(vec![event])
    }

    /// Like [`order`](Self::order), with an order in JSON ([`scenario::order()`]). A new queue is completed from the
    /// present one.
    ///
    /// # Errors
    ///
    /// As [`order`](Self::order), and if the text is not an order.
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
        for event in events {
            for change in event.changes {
                self.withdraw(event.link, event.directions, &change);
                let events = &mut self.scenario.events;
                let place = events.partition_point(|other| other.at <= event.at);
                events.insert(place, Event { changes: vec![change], ..event });
                self.controls.orders += 1;
            }
        }
        Ok(())
    }

    fn check(&self, event: &Event) -> Result<(), InputError> {
        let error = |message| Err(InputError::without_place(message));
        let Some(link) = self.scenario.links.get(event.link) else {
            let links = self.scenario.links.len();
            return error(format!(
                "there is no link with the index {}; the scenario has {links}",
                event.link
            ));
        };
        let follows = |direction, rate: &LinkRate| {
            overlap(event.directions, direction) && matches!(rate, LinkRate::Trace { .. })
        };
        let follows_trace = follows(Directions::Forward, &link.forward.rate)
            || follows(Directions::Reverse, &link.reverse.rate);
        if follows_trace && event.changes.iter().any(|change| matches!(change, Change::Rate(_))) {
            return error(format!(
                "the rate of link \"{}\" follows a trace, which no order can change",
                link.name
            ));
        }
        let own = self.first_order();
        let present = self.scenario.events[..own].iter().rev().take_while(|other| other.at == event.at);
        for other in present.filter(|other| other.link == event.link) {
            let same =
                |change: &Change| event.changes.iter().any(|new| discriminant(new) == discriminant(change));
            if overlap(event.directions, other.directions) && other.changes.iter().any(same) {
                return error(format!(
                    "an event of the scenario sets the same value of link \"{}\" at this time; go on before the order",
                    link.name
                ));
            }
        }
        Ok(())
    }

    /// Removes what earlier orders at the present time changed in the same way.
    fn withdraw(&mut self, link: usize, directions: Directions, new: &Change) {
        let mut at = self.first_order();
        for _ in 0..self.controls.orders {
            let event = &mut self.scenario.events[at];
            let same = event.link == link && discriminant(&event.changes[0]) == discriminant(new);
            if !same || !overlap(event.directions, directions) {
                at += 1;
            } else if event.directions == Directions::Both && directions != Directions::Both {
                event.directions = opposite(directions);
                at += 1;
            } else {
                self.scenario.events.remove(at);
                self.controls.orders -= 1;
            }
        }
    }

    /// The index of the first order at the present time among all events.
    fn first_order(&self) -> usize {
        let now = self.now();
        self.scenario.events.partition_point(|event| event.at <= now) - self.controls.orders
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
