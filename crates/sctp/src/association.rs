//! The association: its states (RFC 9260 §4).

use super::auth::Authentication;
use super::common::Core;
use super::config::{Config, ConfigError, check};
use super::cookie::{CookieKey, Peer};
use super::open::Open;
use super::path::Path;
use super::phase::Phase;
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Event, Reason};
use anabranch_endpoint::ends::Ends;
use anabranch_endpoint::secrets::Secrets;
use anabranch_multipath::PathId;
use anabranch_wire::sctp::Parameter;
use core::net::IpAddr;

/// INIT is out (COOKIE-WAIT).
#[derive(Debug)]
pub(super) struct CookieWait {
    pub tag: u32,
    pub tsn: u32,
    pub attempts: u32,
    pub due: Time,
    /// A longer life for the cookie, milliseconds, requested after a stale one (§5.2.6).
    pub more_life: Option<u32>,
    /// Cookies that the peer found stale.
    pub stale: u32,
}

/// COOKIE ECHO is out (COOKIE-ECHOED).
#[derive(Debug)]
pub(super) struct CookieEchoed {
    pub tag: u32,
    pub tsn: u32,
    pub peer: Box<Peer>,
    /// How chunks are authenticated, if they are.
    pub auth: Option<Authentication>,
    pub cookie: Box<[u8]>,
    /// Unknown parameters of the INIT ACK, to be reported with the COOKIE ECHO (§3.2.1).
    pub unknown: Vec<Parameter>,
    pub attempts: u32,
    pub due: Time,
    pub sent: Time,
    pub stale: u32,
    /// The local address that the INIT ACK reached: the pair with it works.
    pub proven: IpAddr,
}

/// The state of an association (RFC 9260 §4), with the data that exist only in that state.
#[derive(Debug)]
pub(super) enum State {
    /// Not opened yet.
    Idle,
    /// Waits for an INIT.
    Listening,
    CookieWait(CookieWait),
    CookieEchoed(CookieEchoed),
    /// ESTABLISHED and the states of its end.
    Open(Box<Open>),
    /// Over.
    Closed,
}

/// One end of an SCTP association; with [`Config::cmt`] a CMT-SCTP one.
///
/// [`Endpoint`](anabranch_endpoint::Endpoint) states the driving contract: pass in events, take packets, take
/// events for the application, sleep until the next timeout. A connecting end begins with
/// [`connect`](anabranch_endpoint::Endpoint::connect), a listening one with the first packet.
///
/// # Whose packet is it?
/// A host finds the association of a packet by its verification tag, which is [`tag`](Self::tag) here, and the ports. Three
/// kinds of packet carry another tag and belong to the association with these ports whose peer has the packet's source
/// among its [`addresses`](Self::peer_addresses): INIT (tag 0), COOKIE ECHO (a tag that only the cookie knows), and ABORT
/// or SHUTDOWN COMPLETE with the T bit (the peer's tag). Those that belong to no association go to the
/// [`Listener`](super::Listener) of their destination port.
#[derive(Debug)]
pub struct Association {
    pub(super) core: Core,
    pub(super) state: State,
    /// The newest time that was handed in.
    pub(super) now: Time,
}

impl Association {
    /// The connecting end: [`connect`](anabranch_endpoint::Endpoint::connect) opens it.
    ///
    /// # Errors
    /// A setting that cannot work, as [`ConfigError`] says.
    pub fn connecting(config: Config, ends: &Ends, secrets: Secrets) -> Result<Self, ConfigError> {
        check(&config, ends, true)?;
        let key = CookieKey::new(&secrets);
        Ok(Self { core: Core::new(config, ends, secrets, key), state: State::Idle, now: Time::ZERO })
    }

    /// The listening end: it takes one association.
    ///
    /// # Errors
    /// A setting that cannot work, as [`ConfigError`] says.
    pub fn listening(config: Config, ends: &Ends, secrets: Secrets) -> Result<Self, ConfigError> {
        check(&config, ends, false)?;
        let key = CookieKey::new(&secrets);
        Ok(Self::accepting(Core::new(config, ends, secrets, key)))
    }

    /// The end that a listener makes for a cookie that is its own.
    pub(super) const fn accepting(core: Core) -> Self {
        Self { core, state: State::Listening, now: Time::ZERO }
    }

    /// True while data can be written.
    pub fn established(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.phase == Phase::Established)
    }

    /// New data goes out on this path from now on, as long as it is in use (Set Primary, RFC 9260 §11.1.5). False if there is
    /// no such path, or if it is not active. With concurrent multipath transfer it is the last resort.
    pub fn set_primary(&mut self, path: PathId) -> bool {
        let active = self.core.paths.get(path.index()).is_some_and(Path::active);
        let may = active && matches!(self.state, State::Open(_));
        if may {
            self.core.primary = path.index();
            self.stir(self.now);
        }
        may
    }

    /// The verification tag of packets to this end; `None` before the association begins and after it has
    /// ended. A restart of the peer changes it (RFC 9260 §5.2.4 A).
    pub fn tag(&self) -> Option<u32> {
        match &self.state {
            State::CookieWait(wait) => Some(wait.tag),
            State::CookieEchoed(echoed) => Some(echoed.tag),
            State::Open(open) => Some(open.local_tag),
            State::Idle | State::Listening | State::Closed => None,
        }
    }

    /// Own port and the peer's.
    pub const fn ports(&self) -> (u16, u16) {
        (self.core.local_port, self.core.remote_port)
    }

    /// The peer's addresses as far as known; one may be there more than once.
    pub fn peer_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.core.remote_addresses()
    }

    /// The association is over.
    pub(super) fn end(&mut self, reason: Reason) {
        self.core.unblock(self.now);
        self.authenticate_last();
        self.state = State::Closed;
        self.core.events.push_back(Event::Closed(reason));
    }

    pub(super) fn end_if(&mut self, end: Option<Reason>) {
        if let Some(reason) = end {
            self.end(reason);
        }
    }
}
