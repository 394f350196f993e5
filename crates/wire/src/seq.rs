//! Serial numbers of 32 bits. They wrap, so "less than" is not transitive over the whole range, and the type
//! has no `Ord`. The comparison methods hold for numbers less than 2³¹ apart (RFC 9293 §3.4, RFC 1982).

use core::fmt;

/// A 32-bit serial number: TCP sequence number or SCTP TSN.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Serial(pub u32);

impl Serial {
    /// True if `self` precedes `other`.
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// True if `self` precedes or equals `other`.
    pub const fn at_or_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) <= 0
    }

    /// True if `self` follows `other`.
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// The number that is `steps` after this one.
    #[must_use]
    pub const fn add(self, steps: u32) -> Self {
        Self(self.0.wrapping_add(steps))
    }

    /// The number that is `steps` before this one.
    #[must_use]
    pub const fn sub(self, steps: u32) -> Self {
        Self(self.0.wrapping_sub(steps))
    }

    /// The 64-bit number nearest to `near` whose low 32 bits are this serial number.
    pub const fn unwrap_near(self, near: u64) -> u64 {
        let delta = self.0.wrapping_sub(near as u32) as i32;
        near.wrapping_add_signed(delta as i64)
    }

    /// The distance from `first` to this number, without limit: the one nearest to the distance `near`. A number before
    /// `first` gives a distance that has wrapped below zero.
    #[inline]
    pub const fn distance_from(self, first: Self, near: u64) -> u64 {
        let first = first.0 as u64;
        self.unwrap_near(near.wrapping_add(first)).wrapping_sub(first)
    }
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_across_the_wrap() {
        let (low, high) = (Serial(0xffff_fff0), Serial(16));
        assert!(low.before(high) && high.after(low) && !high.before(low));
        assert_eq!(high.sub(32), low);
        assert_eq!(low.add(32), high);
    }

    #[test]
    fn unwrapping_finds_the_nearest() {
        assert_eq!(Serial(5).unwrap_near(0x1_ffff_fff0), 0x2_0000_0005);
        assert_eq!(Serial(0xffff_fff0).unwrap_near(0x2_0000_0005), 0x1_ffff_fff0);
        assert_eq!(Serial(7).unwrap_near(7), 7);
    }
}
