//! Subflows through several gateways of a network (Boccassi, Fayed, Marina 2013: "Binder: a system to aggregate multiple
//! internet gateways in community networks").

use super::managers::initial;
use super::{AddressId, Pair, PathManager};

/// The initial subflow, and one through each gateway, between the first two addresses. The packets of subflow `i`, with
/// port `i`, have a loose source route through gateway `i` modulo the number of gateways. The initial subflow takes the
/// route of the network, so that the connection works where routers drop source routes.
#[derive(Debug)]
pub(super) struct Binder {
    /// Number of gateways.
    pub gateways: u8,
}

impl PathManager for Binder {
    fn name(&self) -> &'static str {
        "binder"
    }

    fn wanted(&self, local: &[AddressId], remote: &[AddressId]) -> Vec<Pair> {
        let Some(first) = initial(local, remote) else { return Vec::new() };
        (0..=self.gateways).map(|port| Pair { port, ..first }).collect()
    }
}
