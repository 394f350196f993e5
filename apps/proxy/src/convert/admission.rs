//! Admission of clients to a converter.

use super::cookie::{Cookies, decode_proof};
use super::{Tlv, emit};
use crate::auth::login::{Credentials, LoginResult, Logins, now_s};
use crate::config::Convert;
use crate::network::Network;
use core::net::IpAddr;
use std::io;
use tokio::time::Instant;

/// Seconds after which a client may retry when too many other clients are logging in.
const RETRY_AFTER_S: u8 = 30;

/// Admission of clients to a converter.
pub struct Admission {
    /// Networks whose clients are admitted; if the list is empty, all networks.
    clients: Vec<Network>,
    required: RequiredCookie,
}

/// Content that a client's cookie must have.
enum RequiredCookie {
    None,
    Address(Cookies),
    Password(Logins),
}

/// Decision about a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The client is admitted.
    Yes,
    /// The client must connect again with a cookie. Contains the cookie, or for a client that logs in the epoch for its
    /// proof.
    Missing(Vec<u8>),
    /// The client is refused, with the reason for the log.
    No(String),
    /// The client is refused for this number of seconds, with the reason for the log.
    Later(u8, String),
}

impl Admission {
    /// Creates the admission rules from the settings.
    ///
    /// # Errors
    /// If the system's random generator fails.
    pub fn new(settings: &Convert) -> io::Result<Self> {
        let clients = settings.clients.iter().map(|network| *network.as_ref()).collect();
        let required = if !settings.users.is_empty() {
            RequiredCookie::Password(Logins::new(settings.users.iter().map(AsRef::as_ref))?)
        } else if settings.cookies {
            RequiredCookie::Address(Cookies::new()?)
        } else {
            RequiredCookie::None
        };
        Ok(Self { clients, required })
    }

    /// True if the client's address is in one of the admitted networks.
    pub fn permits_address(&self, client: IpAddr) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|network| network.contains(client.to_canonical()))
    }

    /// Decides by the cookie whether a client's request is admitted.
    pub async fn admit(
        &self,
        client: IpAddr,
        cookie: Option<&[u8]>,
        tlvs: &[Tlv],
        deadline: Instant,
    ) -> Admitted {
        match &self.required {
            RequiredCookie::None => Admitted::Yes,
            RequiredCookie::Address(cookies) => match cookie {
                None => Admitted::Missing(cookies.create(client, now_s())),
                Some(cookie) if cookies.is_valid(cookie, client, now_s()) => Admitted::Yes,
                Some(_) => Admitted::No("the cookie is invalid or expired".to_owned()),
            },
            RequiredCookie::Password(logins) => {
                let Some(cookie) = cookie else { return Admitted::Missing(logins.epoch().to_vec()) };
                let Some(proof) = decode_proof(cookie) else {
                    return Admitted::No("the cookie does not contain a proof of the password".to_owned());
                };
                // The TLVs are from a parsed message, so their encoding fits into one message.
                let request = emit(tlvs).unwrap_or_default();
                admission_after_login(
                    logins.attempt(client, &Credentials::Proof(proof, request), deadline).await,
                )
            }
        }
    }
}

fn admission_after_login(result: LoginResult) -> Admitted {
    match result {
        LoginResult::Accepted => Admitted::Yes,
        LoginResult::OtherEpoch(epoch) => Admitted::Missing(epoch.to_vec()),
        LoginResult::Rejected(_) | LoginResult::ClockDiffers(_) => Admitted::No(result.to_string()),
        LoginResult::MemoryFull | LoginResult::TooManyFailures => {
            Admitted::Later(RETRY_AFTER_S, result.to_string())
        }
    }
}
