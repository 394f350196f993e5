//! The path managers of the table: each derives pairs from two lists of addresses.

use super::{AddressId, Pair, PathManager};

/// The pair of the initial subflow: the first address of each host.
pub(super) fn initial(local: &[AddressId], remote: &[AddressId]) -> Option<Pair> {
    Some(Pair { local: *local.first()?, remote: *remote.first()?, port: 0 })
}

/// The initial subflow only.
#[derive(Debug)]
pub(super) struct Default;

impl PathManager for Default {
    fn name(&self) -> &'static str {
        "default"
    }

    fn wanted(&self, local: &[AddressId], remote: &[AddressId]) -> Vec<Pair> {
        initial(local, remote).into_iter().collect()
    }
}

/// Every local address with every remote one, "cross paths".
#[derive(Debug)]
pub(super) struct FullMesh;

impl PathManager for FullMesh {
    fn name(&self) -> &'static str {
        "fullmesh"
    }

    fn wanted(&self, local: &[AddressId], remote: &[AddressId]) -> Vec<Pair> {
        let row = |&l: &AddressId| remote.iter().map(move |&r| Pair { local: l, remote: r, port: 0 });
        local.iter().flat_map(row).collect()
    }
}

/// The i-th local address with the i-th remote one.
#[derive(Debug)]
pub(super) struct Disjoint;

impl PathManager for Disjoint {
    fn name(&self) -> &'static str {
        "disjoint"
    }

    fn wanted(&self, local: &[AddressId], remote: &[AddressId]) -> Vec<Pair> {
        local.iter().zip(remote).map(|(&local, &remote)| Pair { local, remote, port: 0 }).collect()
    }
}

/// Several subflows between the first two addresses, each with a different port.
#[derive(Debug)]
pub(super) struct DiffPorts {
    /// Number of subflows, the initial one included.
    pub subflows: u8,
}

impl PathManager for DiffPorts {
    fn name(&self) -> &'static str {
        "ndiffports"
    }

    fn wanted(&self, local: &[AddressId], remote: &[AddressId]) -> Vec<Pair> {
        let Some(first) = initial(local, remote) else { return Vec::new() };
        (0..self.subflows).map(|port| Pair { port, ..first }).collect()
    }
}
