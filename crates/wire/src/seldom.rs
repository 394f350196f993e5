//! Boxed values that nearly always equal their default: the default is stored as a pointer only.

use core::ops::{Deref, DerefMut};

/// A type whose instances nearly always equal its shared default value.
pub trait HasDefault: Default + 'static {
    /// The shared default.
    fn shared_default() -> &'static Self;
}

/// A value that is allocated only if it differs from the default.
///
/// Packets contain such values to stay small: with thousands of packets in flight, their size determines how many fit
/// into the processor's cache. The wrapper dereferences to the value; the first mutable access allocates the value.
#[derive(Clone, Debug)]
pub struct BoxedIfSet<T: HasDefault>(Option<Box<T>>);

impl<T: HasDefault> BoxedIfSet<T> {
    /// The allocated value; `None` means the default.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

impl<T: HasDefault> Default for BoxedIfSet<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: HasDefault> From<T> for BoxedIfSet<T> {
    fn from(value: T) -> Self {
        Self(Some(Box::new(value)))
    }
}

impl<T: HasDefault> Deref for BoxedIfSet<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => T::shared_default(),
        }
    }
}

impl<T: HasDefault> DerefMut for BoxedIfSet<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: HasDefault + PartialEq> PartialEq for BoxedIfSet<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: HasDefault + Eq> Eq for BoxedIfSet<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    impl HasDefault for [u8; 3] {
        fn shared_default() -> &'static Self {
            &[0; 3]
        }
    }

    #[test]
    fn default_is_not_allocated_and_equals_a_set_one() {
        let mut boxed = BoxedIfSet::<[u8; 3]>::default();
        assert_eq!((*boxed, boxed.0.is_none()), ([0; 3], true));
        boxed[1] = 8;
        assert_eq!((*boxed, boxed == BoxedIfSet::default()), ([0, 8, 0], false));
        boxed[1] = 0;
        assert!(boxed == BoxedIfSet::default() && boxed == BoxedIfSet::from([0; 3]));
    }
}
