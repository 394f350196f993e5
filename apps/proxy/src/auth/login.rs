//! Users of a proxy, by name and password.

use crate::auth::login_backoff::Penalties;
use crate::auth::password_proof::{Epoch, Proof, ProofState, UsedProofs};
use crate::config::User;
use crate::datagrams::{Keys, Nonce};
use core::net::IpAddr;
use hmac::{Hmac, KeyInit, Mac};
use rustix::time::{ClockId, clock_gettime};
use sha2::Sha256;
use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Users of a proxy. To compare passwords, HMACs under a random key of this process are compared in constant time, so
/// the time of a check reveals nothing about a partly correct password.
pub struct Logins {
    key: [u8; 32],
    users: Vec<(User, [u8; 32])>,
    penalties: Mutex<Penalties>,
    used_proofs: Mutex<UsedProofs>,
    epoch: Epoch,
}

/// Credentials of a client.
#[derive(Debug)]
pub enum Credentials {
    /// Name and password.
    Password(Vec<u8>, Vec<u8>),
    /// A proof of the password, and the bytes of the request that it covers.
    Proof(Proof, Vec<u8>),
}

/// Result of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginResult {
    /// Name and password are correct.
    Accepted,
    /// Wrong name or password; contains the number of failures from this source.
    Rejected(u32),
    /// The time of the proof differs too much from the local clock: local time minus time of the proof, in seconds.
    ClockDiffers(i64),
    /// The proof was made for another proxy, or before this process started. The client must make a new proof for this epoch.
    OtherEpoch(Epoch),
    /// Too many proofs are stored as used, so no further proof can be accepted.
    MemoryFull,
    /// Too many recent failures of this source: the delay of this attempt would exceed its deadline.
    TooManyFailures,
}

/// Writes the result for the log, after the client's address.
impl fmt::Display for LoginResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("login accepted"),
            Self::Rejected(failures) => write!(f, "wrong name or password ({failures} recent failures)"),
            Self::ClockDiffers(seconds) => {
                write!(f, "clock differs by {} s; synchronise both clocks", seconds.unsigned_abs())
            }
            Self::OtherEpoch(_) => {
                f.write_str("the proof is for an earlier start of this proxy; the client must log in again")
            }
            Self::MemoryFull => f.write_str("too many logins; try again later"),
            Self::TooManyFailures => {
                f.write_str("too many wrong passwords from this address; try again later")
            }
        }
    }
}

impl Logins {
    /// Creates the table of users.
    ///
    /// # Errors
    /// If the system's random generator fails.
    pub fn new<'a>(users: impl Iterator<Item = &'a User>) -> io::Result<Self> {
        let (mut key, mut epoch) = ([0; 32], [0; 16]);
        getrandom::fill(&mut key).and_then(|()| getrandom::fill(&mut epoch)).map_err(io::Error::other)?;
        let (penalties, used_proofs) = (Mutex::default(), Mutex::default());
        let mut logins = Self { key, users: Vec::new(), penalties, used_proofs, epoch };
        for user in users {
            let code = logins.code(user.name.as_bytes(), user.password.as_bytes()).finalize().into_bytes();
            logins.users.push((user.clone(), code.into()));
        }
        Ok(logins)
    }

    /// Returns the random bytes that identify this start of the proxy.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Checks the credentials of a client at the address `from`. After earlier failures, the check is delayed.
    pub async fn attempt(&self, from: IpAddr, credentials: &Credentials, deadline: Instant) -> LoginResult {
        // A proof with an old epoch is answered without delay, because the answer reveals nothing about passwords.
        if let Credentials::Proof(proof, _) = credentials
            && proof.epoch != self.epoch
        {
            return LoginResult::OtherEpoch(self.epoch);
        }
        let (Credentials::Password(user, _) | Credentials::Proof(Proof { name: user, .. }, _)) = credentials;
        let now = Instant::now();
        let Some(scheduled) = lock(&self.penalties).schedule_attempt(from, user, now, deadline) else {
            return LoginResult::TooManyFailures;
        };
        // A sleep until `now` would last until the next millisecond; all attempts until then would be scheduled as the
        // first one.
        if scheduled.at > now {
            tokio::time::sleep_until(scheduled.at).await;
        }
        let state = match credentials {
            Credentials::Password(name, password) => {
                self.password_matches(name, password).then_some(ProofState::Fresh)
            }
            Credentials::Proof(proof, request) => self
                .proof_is_valid(proof, request)
                .then(|| lock(&self.used_proofs).accept_once(proof, now_s())),
        };
        if !matches!(state, None | Some(ProofState::Used)) {
            lock(&self.penalties).release(scheduled);
        }
        match state {
            Some(ProofState::Fresh) => {
                lock(&self.penalties).record_success(from, user, Instant::now());
                LoginResult::Accepted
            }
            Some(ProofState::ClockDiffers(seconds)) => LoginResult::ClockDiffers(seconds),
            Some(ProofState::MemoryFull) => LoginResult::MemoryFull,
            None | Some(ProofState::Used) => {
                LoginResult::Rejected(lock(&self.penalties).record_failure(from, user, Instant::now()))
            }
        }
    }

    /// Compares name and password with those of all users, so that the time does not reveal which names exist.
    fn password_matches(&self, name: &[u8], password: &[u8]) -> bool {
        let given = self.code(name, password);
        self.users.iter().filter(|(_, code)| given.clone().verify_slice(code).is_ok()).count() > 0
    }

    /// Derives the keys for the datagrams of a user who has logged in, from the two proxies' nonces.
    pub fn datagram_keys(&self, name: &[u8], client: &Nonce, own: &Nonce) -> Option<Keys> {
        let (user, _) = self.users.iter().find(|(user, _)| user.name.as_bytes() == name)?;
        Some(Keys::of_upstream(user.password.as_bytes(), client, own))
    }

    fn proof_is_valid(&self, proof: &Proof, request: &[u8]) -> bool {
        let is_valid = |user: &User| {
            proof.is_valid(user.password.as_bytes(), request) && user.name.as_bytes() == proof.name
        };
        self.users.iter().filter(|(user, _)| is_valid(user)).count() > 0
    }

    fn code(&self, name: &[u8], password: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(&(name.len() as u64).to_be_bytes());
        mac.update(name);
        mac.update(password);
        mac
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the current time in seconds since 1970.
pub fn now_s() -> u64 {
    clock_gettime(ClockId::Realtime).tv_sec.cast_unsigned()
}

/// Makes a proof of a user's password with the current time, for a proxy's epoch and an encoded request.
///
/// # Errors
/// If the system's random generator fails.
pub fn prove(user: &User, epoch: Epoch, request: &[u8]) -> io::Result<Proof> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let proof = Proof { name: user.name.as_bytes().to_vec(), time_s: now_s(), nonce, epoch, code: [0; 32] };
    Ok(proof.authenticate(user.password.as_bytes(), request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn only_correct_name_and_password_log_in() {
        let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
        let logins = Logins::new([&user].into_iter()).unwrap();
        let begin = Instant::now();
        let attempt_from = async |last: u8, name: &str, password: &str| {
            let credentials = Credentials::Password(name.into(), password.into());
            let from = IpAddr::from([192, 0, 2, last]);
            logins.attempt(from, &credentials, Instant::now() + Duration::from_secs(5)).await
        };
        let attempt = async |name: &str, password: &str| attempt_from(1, name, password).await;
        assert_eq!(attempt("alice", "secret").await, LoginResult::Accepted);
        assert_eq!(begin.elapsed(), Duration::ZERO);
        for (number, (name, password)) in
            [("alice", "Secret"), ("alices", "ecret"), ("", "alicesecret"), ("bob", "secret")]
                .into_iter()
                .enumerate()
        {
            assert_eq!(attempt(name, password).await, LoginResult::Rejected(number as u32 + 1));
        }
        assert!(begin.elapsed() >= Duration::from_millis(250 + 500 + 1000));
        assert_eq!(attempt("alice", "secret").await, LoginResult::Accepted);
        for _ in 0..6 {
            attempt("alice", "guess").await;
            attempt_from(2, "alice", "guess").await;
        }
        // Failed logins of other clients do not delay the user `alice` at an address from which she has
        // logged in.
        assert_eq!(attempt("alice", "secret").await, LoginResult::Accepted);
        assert_eq!(attempt_from(2, "alice", "secret").await, LoginResult::TooManyFailures);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_guesses_are_delayed_from_the_second() {
        let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
        let logins = std::sync::Arc::new(Logins::new([&user].into_iter()).unwrap());
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut attempts = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let logins = std::sync::Arc::clone(&logins);
            let guess = Credentials::Password(b"alice".to_vec(), b"guess".to_vec());
            attempts
                .spawn(async move { logins.attempt(IpAddr::from([192, 0, 2, 1]), &guess, deadline).await });
        }
        let results = attempts.join_all().await;
        // One guess is checked immediately, and then one every 250 ms until the deadline.
        assert_eq!(results.iter().filter(|result| matches!(result, LoginResult::Rejected(_))).count(), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn proof_is_accepted_once() {
        let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
        let logins = Logins::new([&user].into_iter()).unwrap();
        let attempt = async |proof: &Proof| {
            let deadline = Instant::now() + Duration::from_secs(10);
            let credentials = Credentials::Proof(proof.clone(), b"request".to_vec());
            logins.attempt(IpAddr::from([192, 0, 2, 1]), &credentials, deadline).await
        };
        let made = |user: &User, request: &[u8]| prove(user, logins.epoch, request).unwrap();
        let proof = made(&user, b"request");
        assert_eq!(attempt(&proof).await, LoginResult::Accepted);
        assert_eq!(attempt(&proof).await, LoginResult::Rejected(1));
        assert_eq!(attempt(&made(&user, b"request")).await, LoginResult::Accepted);
        let stranger = User { name: "alice".to_owned(), password: "guess".to_owned() };
        assert_eq!(attempt(&made(&stranger, b"request")).await, LoginResult::Rejected(1));
        assert_eq!(attempt(&made(&user, b"another")).await, LoginResult::Rejected(2));
        let old = Proof { time_s: proof.time_s - 3600, ..proof.clone() }.authenticate(b"secret", b"request");
        assert!(matches!(attempt(&old).await, LoginResult::ClockDiffers(3600..3700)));
    }

    #[tokio::test]
    async fn proof_from_before_restart_is_refused() {
        let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
        let begun = || Logins::new([&user].into_iter()).unwrap();
        let (before, after) = (begun(), begun());
        let credentials =
            Credentials::Proof(prove(&user, before.epoch, b"request").unwrap(), b"request".to_vec());
        let (here, deadline) = (IpAddr::from([192, 0, 2, 1]), Instant::now() + Duration::from_secs(10));
        assert_eq!(before.attempt(here, &credentials, deadline).await, LoginResult::Accepted);
        assert_eq!(after.attempt(here, &credentials, deadline).await, LoginResult::OtherEpoch(after.epoch));
    }
}
