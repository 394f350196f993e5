//! Pairs of associations over faulty links.

mod failure;
mod hostile;
mod lifecycle;
mod multipath;
mod pair;
mod random;
mod transfer;
