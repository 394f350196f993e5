//! A COOKIE ECHO for an established association: the peer has restarted, or both endpoints sent an INIT at the same
//! time (RFC 9260 §5.2.4).

use super::state::{Association, State};
use crate::cookie::Peer;
use crate::origin::Origin;
use crate::path::state::Reachability;
use crate::phase::Phase;
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::Event;
use anabranch_multipath::PathId;

impl Association {
    /// The peer has lost its state and restarts (§5.2.4 A). The effect is that of an ABORT and a new association,
    /// except that the application keeps this association and is notified. Its unacknowledged data is discarded. Only
    /// the address used by the new handshake is confirmed (§5.4).
    pub(crate) fn restart(&mut self, now: Time, begun: Origin, own: (u32, u32), peer: &Peer) {
        let State::Open(open) = core::mem::replace(&mut self.state, State::Closed) else { return };
        self.core.totals.restarts += 1;
        self.core.events.push_back(Event::Restarted { discarded: open.outbound.used() });
        if open.outbound.refused.is_some() {
            self.core.events.push_back(Event::Writable);
        }
        let closing = matches!(open.phase, Phase::ShutdownPending | Phase::ShutdownSent { .. });
        let changes = open.asconf.unfinished();
        self.core.unwrapped = ((open.inbound.highest() >> 32) + 1) << 32;
        self.core.forgotten.extend(open.inbound.into_unread());
        let active: Vec<PathId> =
            self.core.paths.iter().filter(|path| path.active()).map(|path| path.id).collect();
        self.core.adopt_peer_paths(begun, peer);
        let primary = self.core.primary;
        for (at, path) in self.core.paths.iter_mut().enumerate() {
            if path.reachability != Reachability::Removed && at != primary {
                path.reachability = Reachability::Unconfirmed;
            }
        }
        let down = active.into_iter().filter(|path| path.index() != primary);
        self.core.events.extend(down.map(Event::PathDown));
        self.establish(now, own, peer);
        let State::Open(open) = &mut self.state else { return };
        open.resume_changes(&mut self.core, now, changes);
        if closing {
            let end = open.close(&mut self.core, now);
            self.end_if(end);
        }
    }

    /// Both endpoints sent an INIT at the same time, and the peer has chosen another tag since (§5.2.4 B). It has then
    /// also chosen another random number for the keys (RFC 4895 §6.1). If the peer has another initial TSN, it has
    /// created a new association, and has no data of the earlier one.
    pub(crate) fn collide(&mut self, now: Time, begun: Origin, own: (u32, u32), peer: &Peer) {
        let State::Open(open) = &mut self.state else { return };
        if open.peer_tsn == peer.tsn {
            open.peer_tag = peer.tag;
            open.auth = self.core.authentication(own, peer);
            if self.core.follow_auth(open.auth.as_ref()) {
                open.outbound.paths_changed(&self.core);
            }
        } else {
            self.restart(now, begun, own, peer);
        }
    }
}
