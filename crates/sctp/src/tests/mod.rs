//! Pairs of associations over faulty links.

mod addresses;
mod adversarial;
mod authenticated;
mod changeover;
mod ecn;
mod encapsulation;
mod failure;
mod handshake;
mod immediate;
mod lifecycle;
mod listener;
mod multipath;
mod network;
mod network_control;
mod outage;
mod pair;
mod partial;
mod random;
mod renumbering;
mod restart;
mod silence;
mod spurious;
mod streams;
mod transfer;
mod zero_checksum;
