//! The association: its states (RFC 9260 §4).

use crate::common::Core;
use crate::config::{Config, ConfigError, check};
use crate::cookie::{CookieKey, Peer};
use crate::extensions::auth::Authentication;
use crate::open::Open;
use crate::path::state::Path;
use crate::phase::Phase;
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Event, Reason};
use anabranch_endpoint::ends::Ends;
use anabranch_endpoint::secrets::Secrets;
use anabranch_multipath::PathId;
use anabranch_multipath::scheduler::KnownPath;
use anabranch_settings::policy::Information;
use anabranch_wire::sctp::Parameter;
use core::net::IpAddr;
use std::sync::Arc;

/// COOKIE-WAIT: the INIT was sent.
#[derive(Debug)]
pub(crate) struct CookieWait {
    pub tag: u32,
    pub tsn: u32,
    pub attempts: u32,
    pub due: Time,
    /// Requested extension of the cookie's lifetime after a Stale Cookie error, milliseconds (§5.2.6).
    pub more_life: Option<u32>,
    /// Number of Stale Cookie errors received.
    pub stale: u32,
}

/// COOKIE-ECHOED: the COOKIE ECHO was sent.
#[derive(Debug)]
pub(crate) struct CookieEchoed {
    pub tag: u32,
    pub tsn: u32,
    pub peer: Box<Peer>,
    /// Keys and algorithm for authenticated chunks, if the peer supports authentication.
    pub auth: Option<Authentication>,
    pub cookie: Box<[u8]>,
    /// Unknown parameters of the INIT ACK, which an ERROR with the COOKIE ECHO reports (§3.2.1).
    pub unknown: Vec<Parameter>,
    pub attempts: u32,
    pub due: Time,
    pub sent: Time,
    pub stale: u32,
    /// Local address that received the INIT ACK, so that a path from this address works.
    pub proven: IpAddr,
}

/// The state of an association (RFC 9260 §4), with the data that exist only in that state.
#[derive(Debug)]
pub(crate) enum State {
    /// Not opened yet.
    Idle,
    /// Waiting for an INIT.
    Listening,
    CookieWait(CookieWait),
    CookieEchoed(CookieEchoed),
    /// ESTABLISHED, and the states of the shutdown.
    Open(Box<Open>),
    /// The association has ended.
    Closed,
}

/// One endpoint of an SCTP association; with [`Config::cmt`], of a CMT-SCTP association.
///
/// [`Endpoint`](anabranch_endpoint::Endpoint) states the driving contract: pass in events, take packets, take events
/// for the application, sleep until the next timeout. A client starts with
/// [`connect`](anabranch_endpoint::Endpoint::connect), a server with the first received packet.
///
/// # Association of a received packet
/// A host finds the association of a packet by its ports and its verification tag, which is [`tag`](Self::tag) here.
/// Three kinds of packets carry another tag: INIT (tag 0), COOKIE ECHO (the tag is in the cookie), and ABORT or
/// SHUTDOWN COMPLETE with the T bit (the peer's tag). They belong to the association with these ports whose
/// [`peer_addresses`](Self::peer_addresses) include the source address. Packets of no association go to the
/// [`Listener`](crate::Listener) of their destination port.
#[derive(Debug)]
pub struct Association {
    pub(crate) core: Core,
    pub(crate) state: State,
    /// Latest time passed in by the driver.
    pub(crate) now: Time,
}

impl Association {
    /// Returns true if the acknowledgement of received data may wait for packets that have arrived already.
    pub fn may_wait(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.inbound.may_wait())
    }

    /// Creates the client; [`connect`](anabranch_endpoint::Endpoint::connect) sends its INIT.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if a setting is invalid.
    pub fn connecting(config: Config, ends: &Ends, secrets: Secrets) -> Result<Self, ConfigError> {
        check(&config, ends, true)?;
        let key = CookieKey::new(&secrets);
        Ok(Self { core: Core::new(config, ends, secrets, key), state: State::Idle, now: Time::ZERO })
    }

    /// Creates a server for a single association.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if a setting is invalid.
    pub fn listening(config: Config, ends: &Ends, secrets: Secrets) -> Result<Self, ConfigError> {
        check(&config, ends, false)?;
        let key = CookieKey::new(&secrets);
        Ok(Self::accepting(Core::new(config, ends, secrets, key)))
    }

    /// Creates the endpoint that a listener uses for a valid cookie.
    pub(crate) const fn accepting(core: Core) -> Self {
        Self { core, state: State::Listening, now: Time::ZERO }
    }

    /// True while data can be written.
    pub fn established(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.phase == Phase::Established)
    }

    /// Makes this path the primary path (Set Primary, RFC 9260 §11.1.5). New data uses it as long as it is in use.
    /// Returns false if the path does not exist or is not active. With concurrent multipath transfer, the primary path
    /// is used only if no other path is available.
    pub fn set_primary(&mut self, path: PathId) -> bool {
        let active = self.core.paths.get(path.index()).is_some_and(Path::active);
        let may = active && matches!(self.state, State::Open(_));
        if may {
            self.core.primary = path.index();
            self.clear_wait(self.now);
        }
        may
    }

    /// Replaces an address of either host by another on the same interface, which has the same routes. An old local
    /// address is deleted if the peer still has it.
    pub fn renumber(&mut self, now: Time, old: IpAddr, new: IpAddr) {
        self.clear_wait(now);
        self.core.config.renumber(old, new);
        if let State::Open(open) = &mut self.state
            && open.extensions.asconf
            && self.core.own_addresses().any(|own| own == old)
        {
            open.address_down(&mut self.core, now, old);
        }
    }

    /// Replaces the characteristics of paths from the scenario.
    pub fn set_known_paths(&mut self, now: Time, known: &Arc<[KnownPath]>) {
        self.clear_wait(now);
        self.core.config.known_paths = known.clone();
        if self.core.config.information == Information::Scenario {
            self.core.inform_scheduler();
        }
    }

    /// The verification tag of received packets; `None` before the association starts and after it has ended. A restart
    /// of the peer changes it (RFC 9260 §5.2.4 A).
    pub fn tag(&self) -> Option<u32> {
        match &self.state {
            State::CookieWait(wait) => Some(wait.tag),
            State::CookieEchoed(echoed) => Some(echoed.tag),
            State::Open(open) => Some(open.local_tag),
            State::Idle | State::Listening | State::Closed => None,
        }
    }

    /// Local and remote port.
    pub const fn ports(&self) -> (u16, u16) {
        (self.core.local_port, self.core.remote_port)
    }

    /// Known addresses of the peer; an address may occur more than once.
    pub fn peer_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.core.remote_addresses()
    }

    /// Ends the association.
    pub(crate) fn end(&mut self, reason: Reason) {
        self.core.unblock(self.now);
        self.authenticate_last();
        if let State::Open(open) = &self.state {
            self.core.unacknowledged = open.outbound.used();
        }
        self.state = State::Closed;
        self.core.events.push_back(Event::Closed(reason));
    }

    pub(crate) fn end_if(&mut self, end: Option<Reason>) {
        if let Some(reason) = end {
            self.end(reason);
        }
    }
}
