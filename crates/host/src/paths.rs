//! Commands for single paths of a running connection, and for addresses of the host.

use super::Host;
use super::id::ConnectionId;
use super::protocol::Core;
use anabranch_base::time::Time;
use anabranch_multipath::PathId;
use anabranch_multipath::scheduler::KnownPath;
use core::net::IpAddr;
use std::sync::Arc;

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

    /// Makes a subflow of Multipath TCP a backup in both directions, or a regular one (`MP_PRIO`, RFC 8684 §3.3.8).
    /// Returns false if the connection has no such subflow, or the protocol has no priorities.
    pub fn set_backup(&mut self, now: Time, id: ConnectionId, (path, backup): (PathId, bool)) -> bool {
        self.wake(id);
        match self.connections.get_mut(id).map(|slot| &mut slot.core) {
            Some(Core::Mptcp(core)) => core.set_backup(now, path, backup),
            _ => false,
        }
    }

    /// Makes those addresses of a Multipath TCP connection that have this property backups, and its other addresses
    /// regular ones. Returns false if there is no such connection, or the protocol has no priorities.
    pub fn set_backup_addresses(
        &mut self,
        now: Time,
        id: ConnectionId,
        is_backup: &dyn Fn(IpAddr) -> bool,
    ) -> bool {
        self.wake(id);
        let Some(Core::Mptcp(core)) = self.connections.get_mut(id).map(|slot| &mut slot.core) else {
            return false;
        };
        core.set_backup_addresses(now, is_backup);
        true
    }

    /// Replaces an address of either host by another on the same interface, which has the same routes. Before this
    /// call the caller reports the end of the old address by [`remove_address`](Self::remove_address), and
    /// afterwards, if the interface is up, the new one by [`add_address`](Self::add_address).
    pub fn renumber(&mut self, now: Time, old: IpAddr, new: IpAddr) {
        for listener in self.listeners.values_mut() {
            listener.renumber(old, new);
        }
        let all: Vec<_> = self.connections.ids().collect();
        for id in all {
            match self.connections.get_mut(id).map(|slot| &mut slot.core) {
                Some(Core::Mptcp(core)) => core.renumber(now, old, new),
                Some(Core::Sctp(core)) => core.renumber(now, old, new),
                Some(Core::Tcp(_) | Core::Udp(_)) | None => {}
            }
            self.wake(id);
        }
    }

    /// Replaces the characteristics of paths that schedulers of Multipath TCP and SCTP may use.
    pub fn set_known_paths(&mut self, now: Time, known: &Arc<[KnownPath]>) {
        for listener in self.listeners.values_mut() {
            listener.set_known_paths(known);
        }
        let all: Vec<_> = self.connections.ids().collect();
        for id in all {
            match self.connections.get_mut(id).map(|slot| &mut slot.core) {
                Some(Core::Mptcp(core)) => core.set_known_paths(known),
                Some(Core::Sctp(core)) => core.set_known_paths(now, known),
                Some(Core::Tcp(_) | Core::Udp(_)) | None => {}
            }
            self.wake(id);
        }
    }
}
