//! Pairs of associations over faulty links.

mod failure;
mod handshake;
mod hostile;
mod lifecycle;
mod multipath;
mod pair;
mod random;
mod transfer;
