//! Answers packets that belong to no association, with a listener or without one.

use super::association::{Association, State};
use super::common::Core;
use super::config::{Config, ConfigError, check};
use super::cookie::{Cookie, CookieKey};
use super::handshake::{Known, readable};
use super::origin::{Origin, behind_auth};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::Endpoint;
use anabranch_endpoint::ends::{Address, Ends};
use anabranch_endpoint::secrets::Secrets;
use anabranch_wire::sctp::Chunk;
use anabranch_wire::{Content, Packet};

/// A listening port. It keeps no state for an INIT: all that the association will need is in the cookie that
/// the peer returns (RFC 9260 §5.1.3), so that a flood of INITs takes no memory.
#[derive(Debug)]
pub struct Listener {
    core: Core,
    ends: Ends,
}

/// The result of handling a packet that belongs to no association.
#[derive(Debug)]
pub enum Answer {
    /// Nothing.
    Ignored,
    /// It is answered.
    Packet(Packet),
    /// It was the COOKIE ECHO of an association that is up now. The association has taken the packet and is to be driven
    /// from here on, its placements first.
    Accepted(Box<Association>),
}

impl Listener {
    /// A listener on a port; of `ends` only what is local matters. All listeners of a host share their `key`, which must
    /// outlast the cookies, and have `secrets` of their own.
    ///
    /// # Errors
    /// A setting that cannot work, as [`ConfigError`] says.
    pub fn new(config: Config, ends: &Ends, secrets: Secrets, key: CookieKey) -> Result<Self, ConfigError> {
        check(&config, ends, false)?;
        let ends = Ends { remote: Vec::new(), remote_port: 0, ..ends.clone() };
        Ok(Self { core: Core::new(config, &ends, secrets, key), ends })
    }

    /// The host has these addresses now.
    pub fn set_addresses(&mut self, local: Vec<Address>) {
        self.core.local.clone_from(&local);
        self.ends.local = local;
    }

    /// A packet to this port that belongs to no association. `content` is as [`Endpoint::handle_packet`] has it.
    pub fn handle_packet(&mut self, now: Time, packet: Packet, content: &dyn Content) -> Answer {
        let Some((origin, body)) = Origin::of(&packet) else { return Answer::Ignored };
        // No peer can have been informed that this end accepts such packets (RFC 9653 §5.3).
        if body.zero_checksum {
            return Answer::Ignored;
        }
        match behind_auth(&body.chunks).first() {
            // INIT comes alone, with tag zero (§6.10, §8.5.1 A).
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

    /// An association is made for a cookie that is this host's own, and remains if the cookie is good.
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
