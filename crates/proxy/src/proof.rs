//! Log-in between two of our proxies: who comes proves that it has the password, and does not show it.
//!
//! The proof is the user's name, the time, random bytes and HMAC-SHA-256 of them under the password. It needs no question from
//! the other end, so that it goes out in one flight with the request, and holds once: within the time for which clocks may
//! differ the other end remembers which it has had.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::BTreeSet;

/// What the code is made for, so that it is good for nothing else.
const PURPOSE: &[u8] = b"anabranch-proxy log-in 1";
/// Clocks of the two ends may differ by so much, seconds.
const TOLERANCE_S: u64 = 120;
/// Proofs that are remembered.
const MOST: usize = 1 << 20;

/// A proof of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The user.
    pub name: Vec<u8>,
    /// When it was made, seconds since 1970.
    pub time_s: u64,
    /// Random bytes.
    pub nonce: [u8; 16],
    /// The code over all of that.
    pub code: [u8; 32],
}

impl Proof {
    /// A proof that is made at a time with random bytes.
    pub fn new(name: &[u8], password: &[u8], time_s: u64, nonce: [u8; 16]) -> Self {
        let mut proof = Self { name: name.to_vec(), time_s, nonce, code: [0; 32] };
        proof.code = proof.mac(password).finalize().into_bytes().into();
        proof
    }

    /// Whether it was made with this password. It takes as long for a wrong one.
    pub fn holds(&self, password: &[u8]) -> bool {
        self.mac(password).verify_slice(&self.code).is_ok()
    }

    fn mac(&self, password: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(password).expect("HMAC takes keys of any length");
        mac.update(PURPOSE);
        mac.update(&(self.name.len() as u64).to_be_bytes());
        mac.update(&self.name);
        mac.update(&self.time_s.to_be_bytes());
        mac.update(&self.nonce);
        mac
    }
}

/// Which proofs have come.
#[derive(Default)]
pub struct Spent(BTreeSet<(u64, [u8; 16])>);

/// Whether a proof that holds may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// It may.
    Yes,
    /// It came before.
    Spent,
    /// The clocks differ by so much, seconds, ours less theirs.
    Clock(i64),
}

impl Spent {
    /// Takes a proof at a time, seconds since 1970.
    pub fn take(&mut self, proof: &Proof, now_s: u64) -> Fresh {
        if now_s.abs_diff(proof.time_s) > TOLERANCE_S {
            return Fresh::Clock(now_s.wrapping_sub(proof.time_s).cast_signed());
        }
        // What is older than may be is refused for that.
        self.0 = self.0.split_off(&(now_s.saturating_sub(TOLERANCE_S), [0; 16]));
        if self.0.len() >= MOST || !self.0.insert((proof.time_s, proof.nonce)) {
            return Fresh::Spent;
        }
        Fresh::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_password_name_and_time() {
        let proof = Proof::new(b"alice", b"secret", 1000, [7; 16]);
        assert!(proof.holds(b"secret") && !proof.holds(b"Secret"));
        assert!(!Proof { time_s: 1001, ..proof.clone() }.holds(b"secret"));
        assert!(!Proof { name: b"alic".to_vec(), ..proof.clone() }.holds(b"secret"));
        assert!(!Proof { nonce: [8; 16], ..proof }.holds(b"secret"));
    }

    #[test]
    fn a_proof_is_taken_once() {
        let mut spent = Spent::default();
        let proof = Proof::new(b"alice", b"secret", 1000, [7; 16]);
        assert_eq!(spent.take(&proof, 1100), Fresh::Yes);
        assert_eq!(spent.take(&proof, 1100), Fresh::Spent);
        assert_eq!(spent.take(&proof, 1120), Fresh::Spent);
        assert_eq!(spent.take(&proof, 1121), Fresh::Clock(121));
        assert_eq!(spent.take(&proof, 879), Fresh::Clock(-121));
        assert_eq!(spent.take(&Proof::new(b"", b"", 1300, [0; 16]), 1300), Fresh::Yes);
        assert_eq!(spent.0.len(), 1);
    }
}
