//! Sets of bits.

/// Gives a tuple struct around an integer the operations of a set.
macro_rules! bit_set {
    ($set:ident) => {
        impl $set {
            /// True if all bits of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// True if any bit of `other` is set.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The union of both sets.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// `self` without the bits of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl core::ops::BitOr for $set {
            type Output = Self;
            fn bitor(self, rhs: Self) -> Self {
                self.union(rhs)
            }
        }

        impl core::ops::BitOrAssign for $set {
            fn bitor_assign(&mut self, rhs: Self) {
                *self = *self | rhs;
            }
        }
    };
}

pub(crate) use bit_set;
