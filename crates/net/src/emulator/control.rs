//! Changes of links that a program makes while the emulator runs.

use crate::clock::Clock;
use crate::stack::Queue;
use anabranch_base::time::Time;
use anabranch_netem::Interface;
use anabranch_scenario::link_settings::{self, SetValue};
use anabranch_scenario::model::{Change, Directions, Event, Link};
use anabranch_scenario::{InputError, Scenario};
use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// Maximum time in which the emulator applies requested settings.
const ORDER_TIMEOUT: Duration = Duration::from_secs(1);

/// Changes that the emulator's thread makes together.
pub(super) struct Order {
    pub events: Vec<Event>,
    /// Receives the time of the changes.
    pub applied: mpsc::Sender<Time>,
}

/// Changes that the emulator has made.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Time of the changes, by the emulator's clock.
    pub at: Time,
    /// The values before and after.
    pub values: Vec<SetValue>,
    /// The ends of links whose outgoing direction went up or down, in order.
    pub switched: Vec<(Interface, bool)>,
}

/// An error of a change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// A setting that is invalid.
    Input(InputError),
    /// Another machine emulates a direction: the link, and the direction that can be changed here, if there is one.
    Elsewhere(String, Option<Directions>),
    /// The emulator has ended, or is too busy to apply the changes.
    NotApplied,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::Elsewhere(link, None) => {
                write!(f, "the other machine emulates link \"{link}\"; change it there")
            }
            Self::Elsewhere(link, Some(here)) => {
                let [here, there] = match here {
                    Directions::Reverse => ["reverse", "forward"],
                    Directions::Forward | Directions::Both => ["forward", "reverse"],
                };
                write!(
                    f,
                    "the other machine emulates the {there} direction of link \"{link}\"; change it there, and here with \
                     --direction {here}"
                )
            }
            Self::NotApplied => f.write_str("the emulated network has ended, or does not answer"),
        }
    }
}

impl core::error::Error for ControlError {}

/// Changes the links of a running emulator, from any thread.
pub struct Control {
    clock: Clock,
    /// The scenario, with the values of links after the last change.
    scenario: Mutex<Scenario>,
    orders: Arc<Queue<Order>>,
    /// Whether another machine emulates each direction; empty if none does.
    elsewhere: Vec<bool>,
}

impl Control {
    pub(super) fn new(
        scenario: &Scenario,
        elsewhere: Vec<bool>,
        (clock, orders): (Clock, Arc<Queue<Order>>),
    ) -> Self {
        Self { clock, scenario: Mutex::new(scenario.clone()), orders, elsewhere }
    }

    /// Whether this machine emulates a direction.
    pub fn is_here(&self, direction: Interface) -> bool {
        self.elsewhere.get(direction.index()).is_none_or(|&elsewhere| !elsewhere)
    }

    /// Checks that this machine emulates all directions that events change.
    fn check_place(&self, scenario: &Scenario, events: &[Event]) -> Result<(), ControlError> {
        for event in events.iter().filter_map(Event::of_link) {
            if event.directions.ends().all(|end| self.is_here(Interface::new(event.link, end))) {
                continue;
            }
            let here = match [0, 1].map(|end| self.is_here(Interface::new(event.link, end))) {
                [true, false] => Some(Directions::Forward),
                [false, true] => Some(Directions::Reverse),
                _ => None,
            };
            return Err(ControlError::Elsewhere(scenario.links[event.link].name.clone(), here));
        }
        Ok(())
    }

    /// Gives links the values of `settings`, pairs of `link.NAME.KEY` and a value, all of them or none.
    ///
    /// # Errors
    ///
    /// The first invalid setting, or the emulator does not carry out the order.
    pub fn set(
        &self,
        settings: &[(String, String)],
        directions: Directions,
    ) -> Result<Applied, ControlError> {
        let mut scenario = self.lock();
        let now = self.clock.now();
        let before = link_settings::present_links(&scenario, now);
        let mut events =
            link_settings::set_links(&scenario, now, settings, directions).map_err(ControlError::Input)?;
        self.check_place(&scenario, &events)?;
        let (applied, answer) = mpsc::channel();
        let order = Order { events: events.clone(), applied };
        self.orders.send(order).map_err(|_| ControlError::NotApplied)?;
        let at = answer.recv_timeout(ORDER_TIMEOUT).map_err(|_| ControlError::NotApplied)?;
        for event in &mut events {
            event.at = at;
        }
        let place = scenario.events.partition_point(|event| event.at <= at);
        scenario.events.splice(place..place, events.iter().cloned());
        let after = link_settings::present_links(&scenario, at);
        let values = link_settings::set_values(&before, &events, &after);
        link_settings::settle(&mut scenario, at);
        Ok(Applied { at, values, switched: switched(&events) })
    }

    /// The links with their present values.
    pub fn links(&self) -> Vec<Link> {
        link_settings::present_links(&self.lock(), self.clock.now())
    }

    fn lock(&self) -> MutexGuard<'_, Scenario> {
        self.scenario.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ends whose outgoing direction goes up or down.
fn switched(events: &[Event]) -> Vec<(Interface, bool)> {
    let of = |event: &Event| {
        let event = event.of_link()?;
        let up = event.changes.iter().find_map(|change| match change {
            Change::State { up } => Some(*up),
            _ => None,
        })?;
        let ends = event.directions.ends();
        Some(ends.map(|end| (Interface::new(event.link, end), up)).collect::<Vec<_>>())
    };
    events.iter().filter_map(of).flatten().collect()
}
