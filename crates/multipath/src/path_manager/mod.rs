//! Path managers: the pairs of addresses (and the number of ports of each) that a connection uses.

mod binder;
mod managers;
mod registry;

pub use registry::{Choice, Entry, PATH_MANAGERS, Parameter, parse};

use core::fmt::Debug;

/// An address of one host, by its identifier (RFC 8684 §3.4.1: the address of the initial subflow has
/// identifier 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddressId(pub u8);

/// One subflow that a path manager requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pair {
    /// Address of the connecting host.
    pub local: AddressId,
    /// Address of the other host.
    pub remote: AddressId,
    /// Index of a subflow between the two addresses, from 0: each has a different port, and with `binder` another gateway.
    pub port: u8,
}

/// A path manager of one connection; it acts on the connecting side.
pub trait PathManager: Debug + Send {
    /// The name used in scenarios.
    fn name(&self) -> &'static str;
    /// Every subflow that should exist, given the addresses known now, initial subflow first. Addresses are
    /// in the order in which their hosts list them. The transport opens the missing ones.
    fn wanted(&self, local: &[AddressId], remote: &[AddressId]) -> Vec<Pair>;
}
