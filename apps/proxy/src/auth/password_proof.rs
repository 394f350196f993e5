//! Login between two Anabranch proxies: the client proves that it knows the password, without sending it.
//!
//! A proof consists of the user's name, the time, random bytes, the server's epoch, and an HMAC-SHA-256 of these and of
//! the request under the password. It is sent in one flight with the request and is valid only for this request. The
//! server accepts each proof once: it stores used proofs for the permitted clock difference, and draws a random epoch
//! at each start. A client whose proof has another epoch receives the current epoch and connects again.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::collections::BTreeSet;

/// Prefix of the authenticated bytes. With it, the code is valid for no other purpose.
const PURPOSE: &[u8] = b"anabranch-proxy log-in 2";
/// Maximum difference between the clocks of client and server, seconds.
const TOLERANCE_S: u64 = 120;
/// Maximum number of stored used proofs.
const MAX_PROOFS: usize = 1 << 20;

/// Random bytes that a proxy draws when it starts.
pub type Epoch = [u8; 16];

/// A proof of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Name of the user.
    pub name: Vec<u8>,
    /// Creation time, seconds since 1970.
    pub time_s: u64,
    /// Random bytes.
    pub nonce: [u8; 16],
    /// Epoch of the server; zeros if the client does not know it.
    pub epoch: Epoch,
    /// HMAC over the other fields and the request.
    pub code: [u8; 32],
}

impl Proof {
    /// Replaces the code with that for a password and an encoded request.
    pub fn authenticate(mut self, password: &[u8], request: &[u8]) -> Self {
        self.code = self.mac(password, request).finalize().into_bytes().into();
        self
    }

    /// True if the proof was made with this password for this request. The check takes constant time.
    pub fn is_valid(&self, password: &[u8], request: &[u8]) -> bool {
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

/// Proofs that the server has accepted and must not accept again.
#[derive(Default)]
pub struct UsedProofs(BTreeSet<(u64, [u8; 16])>);

/// State of a proof with a valid code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofState {
    /// The proof is recent and has not been used.
    Fresh,
    /// The proof has been used before.
    Used,
    /// The clocks differ too much; contains the local time minus the time of the proof, seconds.
    ClockDiffers(i64),
    /// The memory of used proofs is full, so this proof could not be recorded as used.
    MemoryFull,
}

impl UsedProofs {
    /// Accepts a fresh proof and stores it as used; `now_s` is in seconds since 1970.
    pub fn accept_once(&mut self, proof: &Proof, now_s: u64) -> ProofState {
        self.accept_once_limited(proof, now_s, MAX_PROOFS)
    }

    fn accept_once_limited(&mut self, proof: &Proof, now_s: u64, max_proofs: usize) -> ProofState {
        if now_s.abs_diff(proof.time_s) > TOLERANCE_S {
            return ProofState::ClockDiffers(now_s.wrapping_sub(proof.time_s).cast_signed());
        }
        // Removes older proofs: the server would refuse them because of their time.
        self.0 = self.0.split_off(&(now_s.saturating_sub(TOLERANCE_S), [0; 16]));
        let entry = (proof.time_s, proof.nonce);
        if self.0.contains(&entry) {
            return ProofState::Used;
        }
        if self.0.len() >= max_proofs {
            return ProofState::MemoryFull;
        }
        self.0.insert(entry);
        ProofState::Fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_at(time_s: u64) -> Proof {
        let proof = Proof { name: b"alice".to_vec(), time_s, nonce: [7; 16], epoch: [3; 16], code: [0; 32] };
        proof.authenticate(b"secret", b"request")
    }

    #[test]
    fn proof_is_bound_to_password_and_request() {
        let proof = made_at(1000);
        let is_valid = |proof: &Proof| proof.is_valid(b"secret", b"request");
        assert!(is_valid(&proof) && !proof.is_valid(b"Secret", b"request"));
        assert!(!proof.is_valid(b"secret", b"requesT"));
        assert!(!is_valid(&Proof { time_s: 1001, ..proof.clone() }));
        assert!(!is_valid(&Proof { name: b"alic".to_vec(), ..proof.clone() }));
        assert!(!is_valid(&Proof { epoch: [4; 16], ..proof.clone() }));
        assert!(!is_valid(&Proof { nonce: [8; 16], ..proof }));
    }

    #[test]
    fn proof_is_accepted_once() {
        let mut used_proofs = UsedProofs::default();
        let proof = made_at(1000);
        assert_eq!(used_proofs.accept_once(&proof, 1100), ProofState::Fresh);
        assert_eq!(used_proofs.accept_once(&proof, 1100), ProofState::Used);
        assert_eq!(used_proofs.accept_once(&proof, 1120), ProofState::Used);
        assert_eq!(used_proofs.accept_once(&proof, 1121), ProofState::ClockDiffers(121));
        assert_eq!(used_proofs.accept_once(&proof, 879), ProofState::ClockDiffers(-121));
        assert_eq!(used_proofs.accept_once(&made_at(1300), 1300), ProofState::Fresh);
        assert_eq!(used_proofs.0.len(), 1);
    }

    #[test]
    fn full_table_of_proofs_is_reported_as_full() {
        let mut used_proofs = UsedProofs::default();
        assert_eq!(used_proofs.accept_once_limited(&made_at(1000), 1000, 1), ProofState::Fresh);
        assert_eq!(used_proofs.accept_once_limited(&made_at(1001), 1000, 1), ProofState::MemoryFull);
        assert_eq!(used_proofs.accept_once_limited(&made_at(1000), 1000, 1), ProofState::Used);
        assert_eq!(used_proofs.accept_once_limited(&made_at(1200), 1200, 1), ProofState::Fresh);
    }
}
