//! The interfaces nearest to the two sides of a path, for captures that show a packet at several interfaces.

/// The interface nearest to each side: the one that showed the first packet of that side first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NearestInterfaces([Option<u32>; 2]);

/// The roles of an interface for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roles {
    /// True if the interface is the one nearest to the packet's sender.
    pub is_near: bool,
    /// True if the interface is the one nearest to the packet's receiver.
    pub is_far: bool,
}

impl NearestInterfaces {
    /// The roles of an interface for a packet from a side.
    pub fn roles(&mut self, side: usize, tap: u32) -> Roles {
        let home = *self.0[side].get_or_insert(tap);
        Roles { is_near: home == tap, is_far: self.0[1 - side].unwrap_or(home) == tap }
    }

    /// The interface nearest to the receiver of a side's packets, if it differs from the one nearest to the sender.
    pub fn other(&self, side: usize) -> Option<u32> {
        self.0[1 - side].filter(|_| !self.is_single())
    }

    /// True if the same interface is nearest to both sides.
    pub fn is_single(&self) -> bool {
        self.0[0] == self.0[1] || self.0.contains(&None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_interface_of_a_side_is_nearest() {
        let mut nearest = NearestInterfaces::default();
        let roles = |is_near, is_far| Roles { is_near, is_far };
        assert_eq!(nearest.roles(0, 5), roles(true, true));
        assert_eq!(nearest.roles(0, 6), roles(false, false));
        assert!(nearest.is_single());
        assert_eq!(nearest.roles(1, 6), roles(true, false));
        assert_eq!(nearest.roles(1, 5), roles(false, true));
        assert_eq!(nearest.roles(0, 6), roles(false, true));
        assert_eq!((nearest.is_single(), nearest.other(0), nearest.other(1)), (false, Some(6), Some(5)));
    }
}
