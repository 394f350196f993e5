//! Responds to packets that belong to no association.

use super::handshake::{Known, readable};
use super::state::{Association, State};
use crate::common::Core;
use crate::config::{Config, ConfigError, check};
use crate::cookie::{Cookie, CookieKey};
use crate::origin::{Origin, behind_auth};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_endpoint::ends::{Address, Ends};
use anabranch_endpoint::secrets::Secrets;
use anabranch_multipath::scheduler::KnownPath;
use anabranch_wire::sctp::Chunk;
use anabranch_wire::{Content, Packet};
use core::net::IpAddr;
use std::sync::Arc;

/// A listening port. It stores no state for an INIT. The cookie that the peer returns contains all that the association
/// needs (RFC 9260 §5.1.3), so that a flood of INITs uses no memory.
#[derive(Debug)]
pub struct Listener {
    core: Core,
    ends: Ends,
}

/// The result of handling a packet that belongs to no association.
#[derive(Debug)]
pub enum Answer {
    /// No response.
    Ignored,
    /// A packet to send in response.
    Packet(Packet),
    /// The packet contained the COOKIE ECHO of an association that is now established. The association has processed
    /// the packet; the caller drives it from now on, and polls its placements first.
    Accepted(Box<Association>),
}

impl Listener {
    /// Creates a listener on a port; only the local part of `ends` is used. All listeners of a host share `key`, which
    /// must stay valid as long as the cookies. Each listener has its own `secrets`.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if a setting is invalid.
    pub fn new(config: Config, ends: &Ends, secrets: Secrets, key: CookieKey) -> Result<Self, ConfigError> {
        check(&config, ends, false)?;
        let ends = Ends { remote: Vec::new(), remote_port: 0, ..ends.clone() };
        Ok(Self { core: Core::new(config, &ends, secrets, key), ends })
    }

    /// Replaces the local addresses of the host.
    pub fn set_addresses(&mut self, local: Vec<Address>) {
        self.core.local.clone_from(&local);
        self.ends.local = local;
    }

    /// Replaces the characteristics of paths that schedulers may use.
    pub fn set_known_paths(&mut self, known: &Arc<[KnownPath]>) {
        self.core.config.known_paths = known.clone();
    }

    /// Replaces an address of either host by another on the same interface, which has the same routes.
    pub fn renumber(&mut self, old: IpAddr, new: IpAddr) {
        self.core.config.renumber(old, new);
        self.ends.renumber(old, new);
        self.core.local.clone_from(&self.ends.local);
    }

    /// Handles a packet to this port that belongs to no association. `content` is as in [`Endpoint::handle_packet`].
    pub fn handle_packet(&mut self, now: Time, packet: Packet, content: &dyn Content) -> Answer {
        let Some((origin, body)) = Origin::of(&packet) else { return Answer::Ignored };
        // The peer cannot know that this endpoint accepts packets with zero checksum (RFC 9653 §5.3).
        if body.zero_checksum {
            return Answer::Ignored;
        }
        match behind_auth(&body.chunks).first() {
            // INIT must not be bundled, and has tag zero (§6.10, §8.5.1 A).
            Some(Chunk::Init(init)) if body.chunks.len() == 1 && body.verification_tag == 0 => {
                self.core.answer_init(now, origin, &readable(init), Known::Nothing);
            }
            Some(Chunk::CookieEcho(echo)) if Cookie::open(&echo.cookie, &self.core.cookie_key).is_ok() => {
                return self.accept(now, packet, content);
            }
            None | Some(Chunk::Init(_) | Chunk::CookieEcho(_)) => {}
            Some(_) => {
                let answer = origin.out_of_the_blue(body.verification_tag, &body.chunks);
                return answer.map_or(Answer::Ignored, Answer::Packet);
            }
        }
        self.core.out.pop_front().map_or(Answer::Ignored, Answer::Packet)
    }

    /// Creates an association for a cookie with a valid signature, and keeps it if the handshake succeeds.
    fn accept(&mut self, now: Time, packet: Packet, content: &dyn Content) -> Answer {
        let mut key = [0; 32];
        self.core.secrets.fill(&mut key);
        let config = self.core.config.clone();
        let core = Core::new(config, &self.ends, Secrets::new(key), self.core.cookie_key.clone());
        let mut association = Box::new(Association::accepting(core));
        association.handle_packet(now, packet, content);
        if matches!(association.state, State::Listening) {
            return association.poll_transmit(now).map_or(Answer::Ignored, Answer::Packet);
        }
        Answer::Accepted(association)
    }
}
