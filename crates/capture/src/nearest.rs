//! The interfaces nearest to the two sides of a path, for captures that show a packet at several ones.

/// The interface nearest to each side: the one that showed its first packet first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Homes([Option<u32>; 2]);

/// The part that an interface plays for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Nearest to the sender.
    pub is_near: bool,
    /// Nearest to the receiver.
    pub is_far: bool,
}

impl Homes {
    /// The part that an interface plays for a packet from a side.
    pub fn roles(&mut self, side: usize, tap: u32) -> Roles {
        let home = *self.0[side].get_or_insert(tap);
        Roles { is_near: home == tap, is_far: self.0[1 - side].unwrap_or(home) == tap }
    }

    /// The interface nearest to the receiver of a side's packets, if that is another than the sender's.
    pub fn other(&self, side: usize) -> Option<u32> {
        self.0[1 - side].filter(|_| !self.is_single())
    }

    /// Whether both sides were captured at the same interface.
    pub fn is_single(&self) -> bool {
        self.0[0] == self.0[1] || self.0.contains(&None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_interface_of_a_side_is_its_own() {
        let mut homes = Homes::default();
        let roles = |is_near, is_far| Roles { is_near, is_far };
        assert_eq!(homes.roles(0, 5), roles(true, true));
        assert_eq!(homes.roles(0, 6), roles(false, false));
        assert!(homes.is_single());
        assert_eq!(homes.roles(1, 6), roles(true, false));
        assert_eq!(homes.roles(1, 5), roles(false, true));
        assert_eq!(homes.roles(0, 6), roles(false, true));
        assert_eq!((homes.is_single(), homes.other(0), homes.other(1)), (false, Some(6), Some(5)));
    }
}
