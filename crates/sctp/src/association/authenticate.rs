//! Adds AUTH chunks to packets, as the peer requires (RFC 4895 §6.2).

use super::state::{Association, State};
use crate::common::Core;
use crate::cookie::Peer;
use crate::extensions::auth::{ADDRESS_CHANGES, Authentication, Offer, USER_DATA};
use anabranch_wire::{Body, Packet};

impl Association {
    /// Adds an AUTH chunk to a packet if the peer requires it.
    pub(crate) fn authenticate(&self, packet: &mut Packet) {
        let (auth, tag) = match &self.state {
            State::Open(open) => (&open.auth, open.peer_tag),
            State::CookieEchoed(echoed) => (&echoed.auth, echoed.peer.tag),
            _ => return,
        };
        if let (Some(auth), Body::Sctp(body)) = (auth, &mut packet.body)
            && body.verification_tag == tag
        {
            auth.authenticate(&mut body.chunks);
        }
    }

    /// Authenticates the queued packets at the end of the association, because its keys are deleted.
    pub(crate) fn authenticate_last(&mut self) {
        let mut out = core::mem::take(&mut self.core.out);
        for packet in &mut out {
            self.authenticate(packet);
        }
        self.core.out = out;
    }
}

impl Core {
    /// True if this endpoint offers a feature that needs authentication.
    pub const fn authenticates(&self) -> bool {
        self.config.asconf || self.config.authenticate_data
    }

    /// Authentication parameters of this endpoint for an association with this tag and initial TSN, if it offers a
    /// feature that needs them. The result depends only on the arguments, so that nothing is stored.
    pub fn auth_offer(&self, (tag, tsn): (u32, u32)) -> Option<Offer> {
        let parts = [&b"AUTH random number"[..], &tag.to_be_bytes(), &tsn.to_be_bytes()];
        let mut chunks = Vec::new();
        for (on, kinds) in
            [(self.config.asconf, &ADDRESS_CHANGES[..]), (self.config.authenticate_data, &USER_DATA)]
        {
            chunks.extend_from_slice(if on { kinds } else { &[] });
        }
        (!chunks.is_empty()).then(|| Offer::new(self.cookie_key.keyed(&parts), chunks.into()))
    }

    /// Reserves room in packets for the AUTH chunk that the peer requires; true if its length has changed.
    pub fn follow_auth(&mut self, auth: Option<&Authentication>) -> bool {
        let len = auth.map_or(0, Authentication::overhead);
        let changed = core::mem::replace(&mut self.auth_len, len) != len;
        for at in (0..self.paths.len()).filter(|_| changed) {
            self.set_mtu(at, self.paths[at].mtu);
        }
        changed
    }

    /// Authentication of the association in which this endpoint has the tag and first TSN `own`, if both endpoints
    /// support it.
    pub fn authentication(&self, own: (u32, u32), peer: &Peer) -> Option<Authentication> {
        let own = self.auth_offer(own)?;
        Authentication::new(&self.config.shared_key, &own, peer.auth.as_ref()?)
    }
}
