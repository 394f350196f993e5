//! Places of middleboxes in a network, for the worlds that carry packets through them.

use crate::Scenario;
use anabranch_netem::Interface;

/// For each direction of a link, the middlebox at its end, if there is one, and whether the direction comes from the
/// middlebox's inside.
#[derive(Clone, Debug)]
pub struct MiddleboxPlaces(Vec<Option<(usize, bool)>>);

impl MiddleboxPlaces {
    /// The places of a scenario; `None` without middleboxes.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        if scenario.middleboxes.is_empty() {
            return None;
        }
        let place = |direction: usize| {
            let (link, end) = (direction / 2, 1 - direction % 2);
            let node = &scenario.links[link].between[end];
            let found = scenario.middleboxes.iter().position(|middlebox| middlebox.node == *node)?;
            let from = &scenario.middleboxes[found].from;
            Some((found, from.is_empty() || from.contains(&link)))
        };
        Some(Self((0..2 * scenario.links.len()).map(place).collect()))
    }

    /// Index of the middlebox at the end of a direction, and whether the direction comes from its inside.
    #[inline]
    pub fn at(&self, direction: Interface) -> Option<(usize, bool)> {
        self.0[direction.index()]
    }

    /// The first direction that leads to a middlebox.
    pub fn first_to(&self, middlebox: usize) -> Option<Interface> {
        let leads = |place: &Option<(usize, bool)>| place.is_some_and(|(found, _)| found == middlebox);
        self.0.iter().position(leads).map(|direction| Interface(direction as u32))
    }

    /// Returns true if a packet that arrives by a direction from the inside (or the outside) leaves to the other
    /// side, or ends at the node.
    pub fn crosses(&self, inside: bool, leaves_by: Option<Interface>) -> bool {
        leaves_by.is_none_or(|by| self.is_outside(by) == inside)
    }

    /// True if an interface of a middlebox's node is on the outside.
    pub fn is_outside(&self, interface: Interface) -> bool {
        !matches!(self.at(interface.opposite()), Some((_, true)))
    }
}
