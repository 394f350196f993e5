//! Theorems about functions: a theorem is a function over typed inputs that panics for a counterexample.
//!
//! The same theorem is checked twice. `cargo test` calls it with samples. `make proofs` executes the compiled function
//! symbolically, with all inputs at once, and decides by a solver whether any path can panic. The inputs are read from
//! [`Input`], a fixed number of bytes; symbolic execution leaves all of them undetermined.
//!
//! ```
//! anabranch_proof::theorem! {
//!     /// Halving loses at most one.
//!     fn halves_add_up(number: u32) {
//!         assert!(number - 2 * (number / 2) <= 1);
//!     }
//! }
//! ```
//!
//! A theorem restricts its inputs by returning early.

/// Bytes from which the inputs of a theorem are read.
pub const INPUT_BYTES: usize = 64;

/// The inputs of a theorem, encoded.
pub type Input = [u8; INPUT_BYTES];

/// Number of samples with which a test calls a theorem.
const SAMPLES: usize = 4096;

/// Reads inputs in the order of their declaration.
#[derive(Debug)]
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// All bytes of `input`.
    pub const fn new(input: &'a Input) -> Self {
        Self(input)
    }

    /// The next `N` bytes.
    ///
    /// # Panics
    /// If the inputs of a theorem have more than [`INPUT_BYTES`] bytes.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_first_chunk().expect("the inputs of a theorem exceed INPUT_BYTES");
        self.0 = rest;
        *taken
    }
}

/// A type of inputs: every value of the type is one.
pub trait Any {
    /// Decodes a value. Every value has an encoding.
    fn any(source: &mut Source<'_>) -> Self;
}

macro_rules! any_integer {
    ($($kind:ty)*) => {$(
        impl Any for $kind {
            fn any(source: &mut Source<'_>) -> Self {
                Self::from_le_bytes(source.take())
            }
        }
    )*};
}

any_integer!(u8 u16 u32 u64);

impl Any for bool {
    fn any(source: &mut Source<'_>) -> Self {
        u8::any(source) & 1 == 1
    }
}

impl<T: Any, const N: usize> Any for [T; N] {
    fn any(source: &mut Source<'_>) -> Self {
        core::array::from_fn(|_| T::any(source))
    }
}

impl<T: Any> Any for Option<T> {
    fn any(source: &mut Source<'_>) -> Self {
        let (is_some, value) = (bool::any(source), T::any(source));
        is_some.then_some(value)
    }
}

/// Declares a theorem: a module with the function `theorem`, which `make proofs` finds by this name, and a test.
#[macro_export]
macro_rules! theorem {
    ($(#[$doc:meta])+ fn $name:ident($($input:ident: $kind:ty),+ $(,)?) $body:block) => {
        $(#[$doc])+
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            #[inline(never)]
            fn theorem(input: &$crate::Input) {
                let mut source = $crate::Source::new(input);
                $(let $input = <$kind as $crate::Any>::any(&mut source);)+
                $body
            }

            #[::core::prelude::v1::test]
            fn holds_for_samples() {
                $crate::check_samples(theorem);
            }
        }
    };
}

/// Calls a theorem with samples: random bytes, of which a part is replaced by extreme values.
pub fn check_samples(theorem: fn(&Input)) {
    // The compiled function must exist, with undetermined inputs.
    let theorem = core::hint::black_box(theorem);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..SAMPLES {
        theorem(&core::array::from_fn(|_| next_byte(&mut state)));
    }
}

/// The next byte of a xorshift generator (Marsaglia 2003); every fourth one is an extreme value.
fn next_byte(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    let [choice, byte, ..] = state.to_be_bytes();
    match choice {
        0..32 => 0,
        32..48 => 0xff,
        48..56 => 0x80,
        56..64 => 1,
        _ => byte,
    }
}

#[cfg(test)]
mod false_theorems;

#[cfg(test)]
mod tests {
    use super::*;

    theorem! {
        /// Inputs are read in the order of their declaration.
        fn inputs_are_read_in_order(first: u16, flag: bool, rest: [u8; 3], last: Option<u32>) {
            assert!(u32::from(first) < 1 << 16 && u8::from(flag) < 2 && rest.len() == 3);
            assert!(last.is_none_or(|last| u64::from(last) < 1 << 32));
        }
    }

    fn fails_for_large_bytes(input: &Input) {
        assert!(input[0] < 0xf0);
    }

    #[test]
    #[should_panic(expected = "input[0] < 0xf0")]
    fn samples_find_a_counterexample() {
        check_samples(fails_for_large_bytes);
    }

    #[test]
    fn inputs_are_decoded_as_little_endian() {
        let mut input = [0; INPUT_BYTES];
        input[..7].copy_from_slice(&[0x34, 0x12, 3, 9, 8, 1, 5]);
        let mut source = Source::new(&input);
        assert_eq!((u16::any(&mut source), bool::any(&mut source)), (0x1234, true));
        assert_eq!((<[u8; 2]>::any(&mut source), Option::<u8>::any(&mut source)), ([9, 8], Some(5)));
    }
}
