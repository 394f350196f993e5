//! Commands for single paths of a running connection.

use super::Host;
use super::id::ConnectionId;
use super::protocol::Core;
use anabranch_base::time::Time;
use anabranch_multipath::PathId;

impl Host {
    /// Makes a path of an association its primary path (RFC 9260 §11.1.5). Returns false if the connection has no such
    /// path, the path is not active, or the protocol has no primary path.
    pub fn set_primary(&mut self, id: ConnectionId, path: PathId) -> bool {
        self.wake(id);
        match self.connections.get_mut(id).map(|slot| &mut slot.core) {
            Some(Core::Sctp(core)) => core.set_primary(path),
            _ => false,
        }
    }

    /// Makes a subflow of Multipath TCP a backup in both directions, or a usual one (`MP_PRIO`, RFC 8684 §3.3.8). Returns
    /// false if the connection has no such subflow, or the protocol has no priorities.
    pub fn set_backup(&mut self, now: Time, id: ConnectionId, (path, backup): (PathId, bool)) -> bool {
        self.wake(id);
        match self.connections.get_mut(id).map(|slot| &mut slot.core) {
            Some(Core::Mptcp(core)) => core.set_backup(now, path, backup),
            _ => false,
        }
    }
}
