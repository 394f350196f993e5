//! Pairs of associations over faulty links.

mod pair;
mod transfer;
