//! Log-in between two of our proxies: the client proves that it has the password, without sending it.
//!
//! A proof consists of the user's name, the time, random bytes, the server's epoch, and an HMAC-SHA-256 of these and of the request
//! under the password. It goes out in one flight with the request, is valid for this request alone, and is accepted once: the server
//! remembers proofs for as long as clocks may differ, and its epoch is random and new at each start. A client with another epoch
//! gets the present one, and connects again.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::BTreeSet;

/// Purpose of the code, which makes it invalid for any other.
const PURPOSE: &[u8] = b"anabranch-proxy log-in 2";
/// Largest difference between the clocks of the two ends, seconds.
const TOLERANCE_S: u64 = 120;
/// Proofs that are remembered.
const MAX_PROOFS: usize = 1 << 20;

/// Random bytes that a proxy drew when it began.
pub type Epoch = [u8; 16];

/// A proof of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The user.
    pub name: Vec<u8>,
    /// When it was made, seconds since 1970.
    pub time_s: u64,
    /// Random bytes.
    pub nonce: [u8; 16],
    /// The epoch of the proxy that it is for; zeros if that is not known.
    pub epoch: Epoch,
    /// The code over all of that, and the request.
    pub code: [u8; 32],
}

impl Proof {
    /// With its code, for a request in bytes; the code that it has does not count.
    pub fn sealed(mut self, password: &[u8], request: &[u8]) -> Self {
        self.code = self.mac(password, request).finalize().into_bytes().into();
        self
    }

    /// Whether it was made with this password for this request. It takes as long for a wrong one.
    pub fn holds(&self, password: &[u8], request: &[u8]) -> bool {
        self.mac(password, request).verify_slice(&self.code).is_ok()
    }

    fn mac(&self, password: &[u8], request: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(password).expect("HMAC takes keys of any length");
        mac.update(PURPOSE);
        mac.update(&(self.name.len() as u64).to_be_bytes());
        mac.update(&self.name);
        mac.update(&self.time_s.to_be_bytes());
        mac.update(&self.nonce);
        mac.update(&self.epoch);
        mac.update(request);
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
    /// The clocks differ by this time, seconds, ours less theirs.
    Clock(i64),
    /// No more can be remembered just now.
    Full,
}

impl Spent {
    /// Takes a proof at a time, seconds since 1970.
    pub fn take(&mut self, proof: &Proof, now_s: u64) -> Fresh {
        self.take_of(proof, now_s, MAX_PROOFS)
    }

    fn take_of(&mut self, proof: &Proof, now_s: u64, most: usize) -> Fresh {
        if now_s.abs_diff(proof.time_s) > TOLERANCE_S {
            return Fresh::Clock(now_s.wrapping_sub(proof.time_s).cast_signed());
        }
        // Older proofs are refused by their time.
        self.0 = self.0.split_off(&(now_s.saturating_sub(TOLERANCE_S), [0; 16]));
        let entry = (proof.time_s, proof.nonce);
        if self.0.contains(&entry) {
            return Fresh::Spent;
        }
        if self.0.len() >= most {
            return Fresh::Full;
        }
        self.0.insert(entry);
        Fresh::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_at(time_s: u64) -> Proof {
        let proof = Proof { name: b"alice".to_vec(), time_s, nonce: [7; 16], epoch: [3; 16], code: [0; 32] };
        proof.sealed(b"secret", b"request")
    }

    #[test]
    fn proof_is_bound_to_password_and_request() {
        let proof = made_at(1000);
        let holds = |proof: &Proof| proof.holds(b"secret", b"request");
        assert!(holds(&proof) && !proof.holds(b"Secret", b"request"));
        assert!(!proof.holds(b"secret", b"requesT"));
        assert!(!holds(&Proof { time_s: 1001, ..proof.clone() }));
        assert!(!holds(&Proof { name: b"alic".to_vec(), ..proof.clone() }));
        assert!(!holds(&Proof { epoch: [4; 16], ..proof.clone() }));
        assert!(!holds(&Proof { nonce: [8; 16], ..proof }));
    }

    #[test]
    fn a_proof_is_taken_once() {
        let mut spent = Spent::default();
        let proof = made_at(1000);
        assert_eq!(spent.take(&proof, 1100), Fresh::Yes);
        assert_eq!(spent.take(&proof, 1100), Fresh::Spent);
        assert_eq!(spent.take(&proof, 1120), Fresh::Spent);
        assert_eq!(spent.take(&proof, 1121), Fresh::Clock(121));
        assert_eq!(spent.take(&proof, 879), Fresh::Clock(-121));
        assert_eq!(spent.take(&made_at(1300), 1300), Fresh::Yes);
        assert_eq!(spent.0.len(), 1);
    }

    #[test]
    fn a_full_memory_is_not_a_proof_that_came_before() {
        let mut spent = Spent::default();
        assert_eq!(spent.take_of(&made_at(1000), 1000, 1), Fresh::Yes);
        assert_eq!(spent.take_of(&made_at(1001), 1000, 1), Fresh::Full);
        assert_eq!(spent.take_of(&made_at(1000), 1000, 1), Fresh::Spent);
        assert_eq!(spent.take_of(&made_at(1200), 1200, 1), Fresh::Yes);
    }
}
