//! Authenticated chunks (RFC 4895): keys made of what both ends said in the handshake and, if they share one, of a secret.
//!
//! It stands behind address reconfiguration here: requests to change addresses count only if they come with a code that the
//! peer alone can have made (RFC 5061 §4.2.7). Chunks with user data are not authenticated, since their bytes are not at hand.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use sha2::digest::OutputSizeUser;
use wire::sctp::{Auth, Chunk, HmacId, Init, Parameter, kind, parameter};

/// Bytes of a random number (§3.1).
const RANDOM: usize = 32;
/// Codes that can be made and read, the best first. SHA-1 is the one that everybody has (§8).
const ALGORITHMS: [HmacId; 2] = [HmacId::SHA256, HmacId::SHA1];
/// Chunks that are taken with authentication only.
const REQUIRED: [u8; 2] = [kind::ASCONF, kind::ASCONF_ACK];
/// Algorithms and chunk types of a peer that are taken note of: what it says is in the cookie, which must fit a packet.
const MOST: usize = 32;

/// What one end says of itself (§3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub random: Box<[u8]>,
    /// Chunk types to be authenticated on the way to it; `None` if the parameter is missing.
    pub chunks: Option<Box<[u8]>>,
    pub algorithms: Box<[HmacId]>,
}

impl Offer {
    /// What this end says, with a random number of its own for each association.
    pub fn new(random: [u8; RANDOM]) -> Self {
        Self { random: random.into(), chunks: Some(REQUIRED.into()), algorithms: ALGORITHMS.into() }
    }

    /// What an INIT or INIT ACK says; `None` if its sender does not authenticate, not as it must, or asks for more than can
    /// be done here.
    pub fn of(init: &Init) -> Option<Self> {
        let (mut random, mut chunks, mut algorithms) = (None, None, None);
        for parameter in &init.parameters {
            match parameter {
                Parameter::Random(bytes) => random = Some(bytes.clone()),
                Parameter::ChunkList(kinds) => chunks = Some(kinds.clone()),
                Parameter::HmacAlgorithms(list) => algorithms = Some(list.clone()),
                _ => {}
            }
        }
        let (random, algorithms) = (random?, algorithms?);
        let known = |kinds: &[u8]| kinds.iter().all(|kind| REQUIRED.contains(kind));
        let fits = random.len() == RANDOM && algorithms.len() <= MOST;
        let offer = Self { random, chunks, algorithms };
        (fits && known(offer.required()) && offer.algorithm().is_some()).then_some(offer)
    }

    /// The parameters that say so.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter> {
        let random = Parameter::Random(self.random.clone());
        let chunks = self.chunks.clone().map(Parameter::ChunkList);
        let algorithms = Parameter::HmacAlgorithms(self.algorithms.clone());
        [Some(random), chunks, Some(algorithms)].into_iter().flatten()
    }

    fn required(&self) -> &[u8] {
        self.chunks.as_deref().unwrap_or_default()
    }

    /// The first of its algorithms that is known here.
    fn algorithm(&self) -> Option<HmacId> {
        self.algorithms.iter().copied().find(|algorithm| ALGORITHMS.contains(algorithm))
    }

    /// The key vector: the parameters without padding, in this order whatever the order in the packet (§6.1).
    fn key_vector(&self) -> Vec<u8> {
        self.parameters().flat_map(|parameter| parameter::to_bytes(&[parameter]).into_vec()).collect()
    }
}

/// Authentication of an association that is up.
#[derive(Debug)]
pub(super) struct Authentication {
    /// The association shared key (§6.1).
    key: Box<[u8]>,
    /// How codes are made for the peer.
    algorithm: HmacId,
    /// Chunk types that it takes with a code only.
    required: Box<[u8]>,
}

impl Authentication {
    /// With what both ends said and the secret that they share, which may be empty.
    pub fn new(shared: &[u8], own: &Offer, peer: &Offer) -> Option<Self> {
        let algorithm = peer.algorithm()?;
        let (own, vector) = (own.key_vector(), peer.key_vector());
        // The smaller one first, as numbers: both begin with the type of the same parameter, so that the shorter is smaller.
        let in_order = (own.len(), &own) <= (vector.len(), &vector);
        let (first, second) = if in_order { (own, vector) } else { (vector, own) };
        let key = [shared, &first, &second].concat().into();
        Some(Self { key, algorithm, required: peer.required().into() })
    }

    /// These chunks as they go out: behind an AUTH if the peer wants it of one of them.
    pub fn protect(&self, chunks: Vec<Chunk>) -> Vec<Chunk> {
        if !chunks.iter().any(|chunk| self.required.contains(&chunk.kind())) {
            return chunks;
        }
        let len = if self.algorithm == HmacId::SHA1 { Sha1::output_size() } else { Sha256::output_size() };
        let mut auth = Auth::over(0, self.algorithm, len, &chunks);
        auth.code = if self.algorithm == HmacId::SHA1 {
            mac::<Hmac<Sha1>>(&self.key, &auth.covered).finalize().into_bytes()[..].into()
        } else {
            mac::<Hmac<Sha256>>(&self.key, &auth.covered).finalize().into_bytes()[..].into()
        };
        let mut all = vec![Chunk::Auth(Box::new(auth))];
        all.extend(chunks);
        all
    }

    /// Whether an AUTH is the peer's own. The comparison takes the same time wherever the first difference is.
    pub fn verify(&self, auth: &Auth) -> Verdict {
        let Auth { covered, code, .. } = auth;
        let genuine = match auth.algorithm {
            HmacId::SHA1 => mac::<Hmac<Sha1>>(&self.key, covered).verify_slice(code).is_ok(),
            HmacId::SHA256 => mac::<Hmac<Sha256>>(&self.key, covered).verify_slice(code).is_ok(),
            _ => return Verdict::Unsupported,
        };
        if genuine && auth.key == 0 { Verdict::Genuine } else { Verdict::Forged }
    }
}

/// What an AUTH turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The chunks behind it are the peer's.
    Genuine,
    /// They are not.
    Forged,
    /// Its algorithm is not one of those that were offered.
    Unsupported,
}

/// A chunk of this kind counts only behind a genuine AUTH.
pub(super) fn required(kind: u8) -> bool {
    REQUIRED.contains(&kind)
}

/// A code over these bytes.
fn mac<M: Mac + KeyInit>(key: &[u8], covered: &[u8]) -> M {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(covered);
    mac
}

#[cfg(test)]
mod tests;
