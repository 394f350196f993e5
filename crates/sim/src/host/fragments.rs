//! The written data of each stored fragment, until its message is read.

use anabranch_endpoint::Delivery;
use anabranch_wire::Payload;

/// Initial number of slots; a power of two. It is small, since all slots are used in turn and should stay in
/// the cache.
const INITIAL_SLOTS: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Key of the fragment; 0 in an empty slot, because no fragment has that key.
    key: u64,
    offset: u64,
    len: u32,
}

/// The fragments that an endpoint stores, by their keys. Keys are consecutive numbers, most of which are in
/// use only for a short time. So a fragment's slot is its key modulo the number of slots, which doubles on a
/// collision.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    slots: Vec<Slot>,
}

impl Fragments {
    /// Records a fragment with these bytes of the writer.
    ///
    /// # Errors
    ///
    /// The key is in use.
    #[inline]
    pub fn place(&mut self, key: u64, payload: Payload) -> Result<(), String> {
        let slot = Slot { key, offset: payload.offset, len: payload.len };
        loop {
            let mask = self.slots.len().wrapping_sub(1);
            match self.slots.get_mut(key as usize & mask) {
                Some(place) if place.key == 0 => {
                    *place = slot;
                    return Ok(());
                }
                Some(place) if place.key == key => return Err(format!("fragment {key} was placed before")),
                _ => self.grow(),
            }
        }
    }

    /// Removes the `count` fragments with keys from `first` on, which will not be read.
    ///
    /// # Errors
    ///
    /// If one of these fragments was not placed.
    pub fn forget(&mut self, (first, count): (u64, u32)) -> Result<(), String> {
        let mask = self.slots.len().wrapping_sub(1);
        for key in first..first + u64::from(count) {
            let slot = self.slots.get_mut(key as usize & mask).filter(|slot| slot.key == key);
            *slot.ok_or_else(|| format!("fragment {key} is discarded, but was not placed"))? =
                Slot::default();
        }
        Ok(())
    }

    /// Doubles the number of slots. Keys in different slots stay in different slots.
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(INITIAL_SLOTS);
        let old = core::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        for slot in old.into_iter().filter(|slot| slot.key != 0) {
            self.slots[slot.key as usize & (slots - 1)] = slot;
        }
    }

    /// Removes the fragments of a message that was read, given by runs of keys, and returns the offset of the message
    /// in the written data.
    ///
    /// # Errors
    ///
    /// If the fragments are not one range of the written data, in order.
    #[inline]
    pub fn read(&mut self, message: &Delivery, runs: &[(u64, u32)]) -> Result<u64, String> {
        let mut range = None;
        let mask = self.slots.len().wrapping_sub(1);
        for key in runs.iter().flat_map(|&(first, count)| first..first + u64::from(count)) {
            let slot = self.slots.get_mut(key as usize & mask).filter(|slot| slot.key == key);
            let Slot { offset, len, .. } = core::mem::take(
                slot.ok_or_else(|| format!("{message:?} has fragment {key}, which was not placed"))?,
            );
            let (start, end) = range.unwrap_or((offset, offset));
            if offset != end {
                return Err(format!(
                    "fragment {key} of {message:?} begins at {offset}, but {end} was expected"
                ));
            }
            range = Some((start, end + u64::from(len)));
        }
        match range {
            Some((start, end)) if end - start == message.len => Ok(start),
            other => Err(format!("{message:?} has fragments of {other:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: u64) -> Delivery {
        Delivery::bytes(0, len)
    }

    #[test]
    fn fragments_in_any_order_form_a_range() {
        let mut fragments = Fragments::default();
        for key in [7, 3, 4, 3 + INITIAL_SLOTS as u64, 5] {
            fragments.place(key, Payload::new(key * 10, 10)).unwrap();
        }
        assert_eq!(fragments.read(&message(30), &[(3, 3)]), Ok(30));
        assert_eq!(fragments.read(&message(10), &[(7, 1)]), Ok(70));
        let wrapped = 3 + INITIAL_SLOTS as u64;
        assert_eq!(fragments.read(&message(10), &[(wrapped, 1)]), Ok(wrapped * 10));
    }

    #[test]
    fn mixed_up_fragments_are_detected() {
        let mut fragments = Fragments::default();
        fragments.place(3, Payload::new(30, 10)).unwrap();
        assert!(fragments.place(3, Payload::new(30, 10)).unwrap_err().contains("before"));
        fragments.place(5, Payload::new(40, 10)).unwrap();
        assert!(fragments.read(&message(10), &[(4, 1)]).unwrap_err().contains("was not placed"));
        assert!(fragments.read(&message(20), &[(5, 1), (3, 1)]).unwrap_err().contains("was expected"));
        fragments.place(6, Payload::new(60, 10)).unwrap();
        assert!(fragments.read(&message(20), &[(6, 1)]).unwrap_err().contains("fragments of"));
    }
}
