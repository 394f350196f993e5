//! Decoder of the packed module of the laboratory: text in base64, which contains a length and LZMA.
//!
//! LZMA makes the module a quarter smaller than gzip does, but browsers have no decoder. A decoder in JavaScript would
//! start in the interpreter and take more than twice as long as this module, which the browser compiles at once.
//!
//! `lab/pack.py` writes the format: the length of the data in four bytes, the lowest first, then raw LZMA with three bits
//! of literal context and no bits of position (lc = 3, lp = 0, pb = 0). [`Unpacking`] decodes it in steps, because a
//! browser replaces compiled code by faster code only between calls.

pub mod abi;
mod base64;
mod bits;
mod lzma;
mod unpacking;

pub use unpacking::{Damaged, Unpacking};
