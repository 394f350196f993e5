//! A listening port with its backlog.

use super::id::ConnectionId;
use super::limits::Backlog;
use super::protocol::Protocol;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::{Address, Ends, Secrets};
use anabranch_multipath::scheduler::KnownPath;
use anabranch_sctp::{self as sctp, ConfigError, CookieKey};
use core::net::IpAddr;
use std::collections::VecDeque;
use std::sync::Arc;

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct Listening {
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
    /// Limits on waiting connections.
    pub backlog: Backlog,
}

/// Time after the last sent cookie in which the final ACK of a handshake may contain a cookie.
const COOKIE_LIFETIME: Duration = Duration::from_secs(128);

/// A listening port.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) protocol: Protocol,
    pub(super) backlog: Backlog,
    /// The addresses on which the port listens; `None` for all addresses of the host.
    pub(super) local: Option<Vec<Address>>,
    /// The listener of SCTP, which keeps no state of a handshake.
    pub(super) stateless: Option<Box<sctp::Listener>>,
    /// Connections in a handshake.
    pub(super) incomplete: usize,
    /// Established connections, oldest first.
    pub(super) queue: VecDeque<ConnectionId>,
    /// Time of the last SYN cookie.
    cookie_at: Option<Time>,
}

impl Listener {
    pub(super) fn new(
        (listening, local): (Listening, Option<Vec<Address>>),
        ends: &Ends,
        (secrets, host): (Secrets, &Secrets),
    ) -> Result<Self, ConfigError> {
        let stateless = match &listening.protocol {
            Protocol::Sctp(config) => {
                let key = CookieKey::new(host);
                Some(Box::new(sctp::Listener::new((**config).clone(), ends, secrets, key)?))
            }
            _ => None,
        };
        Ok(Self {
            protocol: listening.protocol,
            backlog: listening.backlog,
            local,
            stateless,
            incomplete: 0,
            queue: VecDeque::new(),
            cookie_at: None,
        })
    }

    /// Replaces the host's addresses.
    pub(super) fn set_addresses(&mut self, addresses: &[Address]) {
        if self.local.is_some() {
            return;
        }
        if let Some(stateless) = &mut self.stateless {
            stateless.set_addresses(addresses.to_vec());
        }
    }

    /// Replaces the characteristics of paths that schedulers may use.
    pub(super) fn set_known_paths(&mut self, known: &Arc<[KnownPath]>) {
        self.protocol.set_known_paths(known);
        if let Some(stateless) = &mut self.stateless {
            stateless.set_known_paths(known);
        }
    }

    /// Replaces an address of either host by another on the same interface, which has the same routes.
    pub(super) fn renumber(&mut self, old: IpAddr, new: IpAddr) {
        self.protocol.renumber(old, new);
        for own in self.local.iter_mut().flatten().filter(|own| own.ip == old) {
            own.ip = new;
        }
        if let Some(stateless) = &mut self.stateless {
            stateless.renumber(old, new);
        }
    }

    /// True if the backlog is full; further SYNs get no answer.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= self.backlog.complete
    }

    /// True if the next SYN is answered with a cookie.
    pub(super) const fn is_flooded(&self) -> bool {
        self.incomplete >= self.backlog.incomplete
    }

    pub(super) const fn record_cookie(&mut self, now: Time) {
        self.cookie_at = Some(now);
    }

    /// True if the final ACK of a handshake may contain a cookie, because the listener has sent one recently.
    pub(super) fn expects_cookies(&self, now: Time) -> bool {
        self.cookie_at.is_some_and(|at| now.since(at) < COOKIE_LIFETIME)
    }
}
