//! Values that are nearly always the same: they cost a pointer until they are not.

use core::ops::{Deref, DerefMut};

/// A type whose default is what nearly all its instances are.
pub trait Usual: Default + 'static {
    /// The default, in one place for all that share it.
    fn usual() -> &'static Self;
}

/// A value that is seldom other than usual; only then does it take memory of its own.
///
/// Packets are made of this, so that a plain one is small: with thousands on the way, their size decides how many of
/// them stay in the processor's cache. It reads and writes like the value itself; the first write allocates.
#[derive(Clone, Debug)]
pub struct Seldom<T: Usual>(Option<Box<T>>);

impl<T: Usual> Seldom<T> {
    /// The value, if it has memory of its own. None is usual, and needs no look.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

impl<T: Usual> Default for Seldom<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Usual> From<T> for Seldom<T> {
    fn from(value: T) -> Self {
        Self(Some(Box::new(value)))
    }
}

impl<T: Usual> Deref for Seldom<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => T::usual(),
        }
    }
}

impl<T: Usual> DerefMut for Seldom<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Usual + PartialEq> PartialEq for Seldom<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Usual + Eq> Eq for Seldom<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    impl Usual for [u8; 3] {
        fn usual() -> &'static Self {
            &[0; 3]
        }
    }

    #[test]
    fn the_usual_value_takes_no_memory_and_equals_one_that_does() {
        let mut seldom = Seldom::<[u8; 3]>::default();
        assert_eq!((*seldom, seldom.0.is_none()), ([0; 3], true));
        seldom[1] = 8;
        assert_eq!((*seldom, seldom == Seldom::default()), ([0, 8, 0], false));
        seldom[1] = 0;
        assert!(seldom == Seldom::default() && seldom == Seldom::from([0; 3]));
    }
}
