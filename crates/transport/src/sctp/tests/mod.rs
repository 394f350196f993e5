//! Pairs of associations over faulty links.

mod addresses;
mod ecn;
mod encapsulation;
mod failure;
mod handshake;
mod hostile;
mod lifecycle;
mod listener;
mod multipath;
mod network;
mod pair;
mod random;
mod restart;
mod spurious;
mod transfer;
