//! Congestion control through its public interface: numbers computed by hand, properties of every entry of
//! the table, the equilibria of the publications, and the shared vectors.

#![allow(clippy::doc_markdown, reason = "subscripts of formulas are not code")]

mod conformance;
mod delay;
mod equilibrium;
mod numbers;
mod peers;
mod rig;
mod shared;
mod vectors;
