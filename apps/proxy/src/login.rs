//! Users of a proxy, by name and password.

use super::config::User;
use super::login_backoff::Penalties;
use super::password_proof::{Epoch, Fresh, Proof, Spent};
use core::net::IpAddr;
use hmac::{Hmac, KeyInit, Mac};
use rustix::time::{ClockId, clock_gettime};
use sha2::Sha256;
use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The users of a proxy. Passwords are compared as codes under a key of this process alone, in a time that says nothing of how
/// much is right.
pub struct Logins {
    key: [u8; 32],
    users: Vec<(User, [u8; 32])>,
    penalties: Mutex<Penalties>,
    spent: Mutex<Spent>,
    epoch: Epoch,
}

/// Credentials of a client.
#[derive(Debug)]
pub enum Shown {
    /// Name and password.
    Password(Vec<u8>, Vec<u8>),
    /// A proof of the password, and the bytes of the request that it covers.
    Proof(Proof, Vec<u8>),
}

/// Result of a log-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// Name and password are right.
    Right,
    /// Wrong name or password, the given number of times from this source.
    Wrong(u32),
    /// The proof is too old: by our clock it was made the given number of seconds ago.
    Clock(i64),
    /// The proof was made for another proxy, or before this one began; it is to be made again for this epoch.
    Epoch(Epoch),
    /// More proofs come than can be remembered.
    Full,
    /// So many wrong passwords came from this source that the log-in cannot be checked in time.
    TooMany,
}

/// As the log says it of a client.
impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("is who it says"),
            Self::Wrong(times) => write!(f, "wrong name or password, {times} of late"),
            Self::Clock(seconds) => write!(
                f,
                "its clock is {} s {} the one here: set both right",
                seconds.unsigned_abs(),
                if *seconds > 0 { "behind" } else { "before" },
            ),
            Self::Epoch(_) => f.write_str("proves a password for another start of this proxy"),
            Self::Full => f.write_str("has to wait: more log-ins come than can be remembered"),
            Self::TooMany => f.write_str("has to wait: too many wrong passwords came from there"),
        }
    }
}

impl Logins {
    /// For these users.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn new<'a>(users: impl Iterator<Item = &'a User>) -> io::Result<Self> {
        let (mut key, mut epoch) = ([0; 32], [0; 16]);
        getrandom::fill(&mut key).and_then(|()| getrandom::fill(&mut epoch)).map_err(io::Error::other)?;
        let (penalties, spent) = (Mutex::default(), Mutex::default());
        let mut logins = Self { key, users: Vec::new(), penalties, spent, epoch };
        for user in users {
            let code = logins.code(user.name.as_bytes(), user.password.as_bytes()).finalize().into_bytes();
            logins.users.push((user.clone(), code.into()));
        }
        Ok(logins)
    }

    /// Random bytes that were drawn at the beginning.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// A try to log in from an address: waits for its turn, which comes later after wrong ones.
    pub async fn attempt(&self, from: IpAddr, shown: &Shown, deadline: Instant) -> Tried {
        // Sent before any check: it contains nothing about passwords.
        if let Shown::Proof(proof, _) = shown
            && proof.epoch != self.epoch
        {
            return Tried::Epoch(self.epoch);
        }
        let (Shown::Password(user, _) | Shown::Proof(Proof { name: user, .. }, _)) = shown;
        let now = Instant::now();
        let Some(turn) = lock(&self.penalties).turn(from, user, now, deadline) else {
            return Tried::TooMany;
        };
        // A sleep until now lasts to the next millisecond, in which a flood of tries would all be the first.
        if turn.at > now {
            tokio::time::sleep_until(turn.at).await;
        }
        let fresh = match shown {
            Shown::Password(name, password) => self.knows(name, password).then_some(Fresh::Yes),
            Shown::Proof(proof, request) => {
                self.proven(proof, request).then(|| lock(&self.spent).take(proof, now_s()))
            }
        };
        if !matches!(fresh, None | Some(Fresh::Spent)) {
            lock(&self.penalties).release(turn);
        }
        match fresh {
            Some(Fresh::Yes) => {
                lock(&self.penalties).right(from, user, Instant::now());
                Tried::Right
            }
            Some(Fresh::Clock(seconds)) => Tried::Clock(seconds),
            Some(Fresh::Full) => Tried::Full,
            None | Some(Fresh::Spent) => {
                Tried::Wrong(lock(&self.penalties).wrong(from, user, Instant::now()))
            }
        }
    }

    /// Compares all users, so that the time does not reveal which ones exist.
    fn knows(&self, name: &[u8], password: &[u8]) -> bool {
        let given = self.code(name, password);
        self.users.iter().filter(|(_, code)| given.clone().verify_slice(code).is_ok()).count() > 0
    }

    fn proven(&self, proof: &Proof, request: &[u8]) -> bool {
        let holds = |user: &User| {
            proof.holds(user.password.as_bytes(), request) && user.name.as_bytes() == proof.name
        };
        self.users.iter().filter(|(user, _)| holds(user)).count() > 0
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

/// The time, seconds since 1970.
pub fn now_s() -> u64 {
    clock_gettime(ClockId::Realtime).tv_sec.cast_unsigned()
}

/// A proof of a user's password, made now, for a proxy of this epoch and a request in bytes.
///
/// # Errors
/// If the system has no randomness to give.
pub fn prove(user: &User, epoch: Epoch, request: &[u8]) -> io::Result<Proof> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let proof = Proof { name: user.name.as_bytes().to_vec(), time_s: now_s(), nonce, epoch, code: [0; 32] };
    Ok(proof.sealed(user.password.as_bytes(), request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_right_name_and_password_and_no_others() {
        let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
        let logins = Logins::new([&user].into_iter()).unwrap();
        let begin = Instant::now();
        let attempt_from = async |last: u8, name: &str, password: &str| {
            let shown = Shown::Password(name.into(), password.into());
            let from = IpAddr::from([192, 0, 2, last]);
            logins.attempt(from, &shown, Instant::now() + Duration::from_secs(5)).await
        };
        let attempt = async |name: &str, password: &str| attempt_from(1, name, password).await;
        assert_eq!(attempt("alice", "secret").await, Tried::Right);
        assert_eq!(begin.elapsed(), Duration::ZERO);
        for (number, (name, password)) in
            [("alice", "Secret"), ("alices", "ecret"), ("", "alicesecret"), ("bob", "secret")]
                .into_iter()
                .enumerate()
        {
            assert_eq!(attempt(name, password).await, Tried::Wrong(number as u32 + 1));
        }
        assert!(begin.elapsed() >= Duration::from_millis(250 + 500 + 1000));
        assert_eq!(attempt("alice", "secret").await, Tried::Right);
        for _ in 0..6 {
            attempt("alice", "guess").await;
            attempt_from(2, "alice", "guess").await;
        }
        // Where alice has logged in, guesses of others do not lock her out.
        assert_eq!(attempt("alice", "secret").await, Tried::Right);
        assert_eq!(attempt_from(2, "alice", "secret").await, Tried::TooMany);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_tries_is_slowed_from_the_second_on() {
        let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
        let logins = std::sync::Arc::new(Logins::new([&user].into_iter()).unwrap());
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut tries = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let logins = std::sync::Arc::clone(&logins);
            let guess = Shown::Password(b"alice".to_vec(), b"guess".to_vec());
            tries.spawn(async move { logins.attempt(IpAddr::from([192, 0, 2, 1]), &guess, deadline).await });
        }
        let tried = tries.join_all().await;
        // One at once, and then one each 250 ms.
        assert_eq!(tried.iter().filter(|tried| matches!(tried, Tried::Wrong(_))).count(), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn a_proof_is_as_good_as_the_password_once() {
        let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
        let logins = Logins::new([&user].into_iter()).unwrap();
        let attempt = async |proof: &Proof| {
            let deadline = Instant::now() + Duration::from_secs(10);
            let shown = Shown::Proof(proof.clone(), b"request".to_vec());
            logins.attempt(IpAddr::from([192, 0, 2, 1]), &shown, deadline).await
        };
        let made = |user: &User, request: &[u8]| prove(user, logins.epoch, request).unwrap();
        let proof = made(&user, b"request");
        assert_eq!(attempt(&proof).await, Tried::Right);
        assert_eq!(attempt(&proof).await, Tried::Wrong(1));
        assert_eq!(attempt(&made(&user, b"request")).await, Tried::Right);
        let stranger = User { name: "alice".to_owned(), password: "guess".to_owned() };
        assert_eq!(attempt(&made(&stranger, b"request")).await, Tried::Wrong(1));
        assert_eq!(attempt(&made(&user, b"another")).await, Tried::Wrong(2));
        let old = Proof { time_s: proof.time_s - 3600, ..proof.clone() }.sealed(b"secret", b"request");
        assert!(matches!(attempt(&old).await, Tried::Clock(3600..3700)));
    }

    #[tokio::test]
    async fn a_proof_from_before_a_restart_is_not_taken() {
        let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
        let begun = || Logins::new([&user].into_iter()).unwrap();
        let (before, after) = (begun(), begun());
        let shown = Shown::Proof(prove(&user, before.epoch, b"request").unwrap(), b"request".to_vec());
        let (here, deadline) = (IpAddr::from([192, 0, 2, 1]), Instant::now() + Duration::from_secs(10));
        assert_eq!(before.attempt(here, &shown, deadline).await, Tried::Right);
        assert_eq!(after.attempt(here, &shown, deadline).await, Tried::Epoch(after.epoch));
    }
}
