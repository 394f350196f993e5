//! Admission of clients to a converter.

use super::cookie::{Cookies, proof_in};
use super::{Tlv, emit};
use crate::config::Convert;
use crate::login::{Logins, Shown, Tried, now_s};
use crate::network::Network;
use core::net::IpAddr;
use std::io;
use tokio::time::Instant;

/// Seconds after which a client may come again if too many others log in.
const LATER: u8 = 30;

/// Admission of clients to a converter.
pub struct Admission {
    /// Networks of clients; all, if there is none.
    clients: Vec<Network>,
    shown: Shows,
}

/// Required content of a client's cookie.
enum Shows {
    Nothing,
    Address(Cookies),
    Password(Logins),
}

/// Whether a client may be here.
#[derive(Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It may.
    Yes,
    /// It has to come again with a cookie, which is this one, or made with it.
    Missing(Vec<u8>),
    /// It may not, with the reason for the log.
    No(String),
    /// Refused for the given number of seconds, with the reason for the log.
    Later(u8, String),
}

impl Admission {
    /// By these settings.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn new(settings: &Convert) -> io::Result<Self> {
        let clients = settings.clients.iter().map(|network| *network.as_ref()).collect();
        let shown = if !settings.users.is_empty() {
            Shows::Password(Logins::new(settings.users.iter().map(AsRef::as_ref))?)
        } else if settings.cookies {
            Shows::Address(Cookies::new()?)
        } else {
            Shows::Nothing
        };
        Ok(Self { clients, shown })
    }

    /// Whether a client's address may come at all.
    pub fn knows(&self, client: IpAddr) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|network| network.contains(client.to_canonical()))
    }

    /// Whether a client may have what it asks for, by its cookie.
    pub async fn admit(
        &self,
        client: IpAddr,
        cookie: Option<&[u8]>,
        asked: &[Tlv],
        deadline: Instant,
    ) -> Admitted {
        match &self.shown {
            Shows::Nothing => Admitted::Yes,
            Shows::Address(cookies) => match cookie {
                None => Admitted::Missing(cookies.of(client, now_s())),
                Some(cookie) if cookies.holds(cookie, client, now_s()) => Admitted::Yes,
                Some(_) => Admitted::No("shows a cookie that is not, or no longer, its own".to_owned()),
            },
            Shows::Password(logins) => {
                let Some(cookie) = cookie else { return Admitted::Missing(logins.epoch().to_vec()) };
                let Some(proof) = proof_in(cookie) else {
                    return Admitted::No("shows a cookie that is no proof of a password".to_owned());
                };
                // The parsed parts are no longer than the message they come from.
                let request = emit(asked).unwrap_or_default();
                log_in(logins.attempt(client, &Shown::Proof(proof, request), deadline).await)
            }
        }
    }
}

fn log_in(tried: Tried) -> Admitted {
    match tried {
        Tried::Right => Admitted::Yes,
        Tried::Epoch(epoch) => Admitted::Missing(epoch.to_vec()),
        Tried::Wrong(_) | Tried::Clock(_) => Admitted::No(tried.to_string()),
        Tried::Full | Tried::TooMany => Admitted::Later(LATER, tried.to_string()),
    }
}
