//! Who may use a proxy, by name and password.

use super::config::User;
use super::penalty::Penalties;
use core::net::IpAddr;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The users of a proxy. Passwords are kept as codes under a key of this process alone, and compared in a time that says
/// nothing of how much is right.
pub struct Logins {
    key: [u8; 32],
    codes: Vec<[u8; 32]>,
    penalties: Mutex<Penalties>,
}

/// What came of a try to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// Name and password are right.
    Right,
    /// They are not, for so many times in a row from there.
    Wrong(u32),
    /// There were so many wrong ones that it would not be this one's turn in time.
    TooMany,
}

impl Logins {
    /// For these users.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn new<'a>(users: impl Iterator<Item = &'a User>) -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        let mut logins = Self { key, codes: Vec::new(), penalties: Mutex::default() };
        for user in users {
            let code = logins.code(user.name.as_bytes(), user.password.as_bytes()).finalize().into_bytes();
            logins.codes.push(code.into());
        }
        Ok(logins)
    }

    /// A try to log in from an address: waits for its turn, which comes later after wrong ones.
    pub async fn attempt(&self, from: IpAddr, name: &[u8], password: &[u8], deadline: Instant) -> Tried {
        let Some(turn) = self.penalties().turn(from, Instant::now(), deadline) else { return Tried::TooMany };
        tokio::time::sleep_until(turn).await;
        let given = self.code(name, password);
        // All are compared: how long it takes says nothing of who is a user.
        let right = self.codes.iter().filter(|code| given.clone().verify_slice(*code).is_ok()).count() > 0;
        if right {
            self.penalties().right(from);
            Tried::Right
        } else {
            Tried::Wrong(self.penalties().wrong(from, Instant::now()))
        }
    }

    fn code(&self, name: &[u8], password: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(&(name.len() as u64).to_be_bytes());
        mac.update(name);
        mac.update(password);
        mac
    }

    fn penalties(&self) -> MutexGuard<'_, Penalties> {
        self.penalties.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_right_name_and_password_and_no_others() {
        let user = User { name: "alice".to_owned(), password: "secret".to_owned() };
        let logins = Logins::new([&user].into_iter()).unwrap();
        let here = IpAddr::from([192, 0, 2, 1]);
        let begin = Instant::now();
        let attempt = |name: &'static str, password: &'static str| {
            logins.attempt(here, name.as_bytes(), password.as_bytes(), begin + Duration::from_secs(10))
        };
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
        }
        assert_eq!(attempt("alice", "secret").await, Tried::TooMany);
    }
}
