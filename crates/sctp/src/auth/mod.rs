//! Authenticated chunks (RFC 4895). The keys are derived from the parameters of both ends in the handshake
//! and, if the ends share one, from a secret.
//!
//! Each end lists the chunk types that it accepts only with an authentication code. These are requests to
//! change addresses (RFC 5061 §4.2.7) and, where configured, user data and its acknowledgements. All chunks
//! of the types that the peer lists are sent behind an AUTH chunk. It is inserted where packets leave, and
//! paths reserve room for it. A core holds no payload bytes, so the code is computed where the bytes are
//! ([`Auth::pending`]).

use anabranch_wire::sctp::{Auth, Chunk, Chunks, HmacId, Init, Parameter, Secret, kind, padded, parameter};
use std::sync::Arc;

/// Bytes of a random number (§3.1).
pub(super) const RANDOM: usize = 32;
/// Supported algorithms, the best first. SHA-1 is the one that every implementation must support (§8).
const ALGORITHMS: [HmacId; 2] = [HmacId::SHA256, HmacId::SHA1];
/// Chunks that change addresses.
pub(super) const ADDRESS_CHANGES: [u8; 2] = [kind::ASCONF, kind::ASCONF_ACK];
/// Chunks that carry user data, acknowledge it (as SHUTDOWN does, too), or skip it.
pub(super) const USER_DATA: [u8; 7] = [
    kind::DATA,
    kind::I_DATA,
    kind::SACK,
    kind::NR_SACK,
    kind::FORWARD_TSN,
    kind::I_FORWARD_TSN,
    kind::SHUTDOWN,
];
/// These are never authenticated, whatever a list says (§3.2).
const EXEMPT: [u8; 4] = [kind::INIT, kind::INIT_ACK, kind::SHUTDOWN_COMPLETE, kind::AUTH];
/// Maximum number of the peer's algorithms and chunk types that are kept: they are stored in the cookie,
/// which must fit a packet.
const MAX_ENTRIES: usize = 64;
/// Bytes of the longest AUTH that a peer may send.
const MAX_AUTH_BYTES: u32 = Auth::HEADER_LEN + 32;

/// The authentication parameters of one end (§3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub random: Box<[u8]>,
    /// Chunk types to be authenticated on the way to it; `None` if the parameter is missing.
    pub chunks: Option<Box<[u8]>>,
    pub algorithms: Box<[HmacId]>,
}

impl Offer {
    /// The parameters of this end. Each association has its own random number.
    pub fn new(random: [u8; RANDOM], chunks: Box<[u8]>) -> Self {
        Self { random: random.into(), chunks: Some(chunks), algorithms: ALGORITHMS.into() }
    }

    /// The authentication parameters of an INIT or INIT ACK; `None` if its sender does not authenticate, or
    /// not as required.
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
        let offer = Self { random, chunks, algorithms };
        let fits =
            offer.random.len() == RANDOM && offer.algorithms.len().max(offer.listed().len()) <= MAX_ENTRIES;
        (fits && offer.algorithm().is_some()).then_some(offer)
    }

    /// The parameters of the handshake that contain this offer.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter> {
        let random = Parameter::Random(self.random.clone());
        let chunks = self.chunks.clone().map(Parameter::ChunkList);
        let algorithms = Parameter::HmacAlgorithms(self.algorithms.clone());
        [Some(random), chunks, Some(algorithms)].into_iter().flatten()
    }

    fn listed(&self) -> &[u8] {
        self.chunks.as_deref().unwrap_or_default()
    }

    /// The chunk types that it wants authenticated.
    fn required(&self) -> Box<[u8]> {
        self.listed().iter().copied().filter(|kind| !EXEMPT.contains(kind)).collect()
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

/// Authentication of an association.
#[derive(Debug)]
pub(super) struct Authentication {
    /// The association shared key (§6.1).
    secret: Secret,
    /// How codes are made for the peer.
    algorithm: HmacId,
    /// Chunk types that it takes with a code only, and those that this end does.
    required: Box<[u8]>,
    expected: Box<[u8]>,
}

impl Authentication {
    /// With the offers of both ends and their shared secret, which may be empty.
    pub fn new(shared: &[u8], own: &Offer, peer: &Offer) -> Option<Self> {
        let algorithm = peer.algorithm()?;
        let (mine, theirs) = (own.key_vector(), peer.key_vector());
        // The smaller one first, as numbers: both begin with the type of the same parameter, so that the shorter is smaller.
        let in_order = (mine.len(), &mine) <= (theirs.len(), &theirs);
        let (first, second) = if in_order { (mine, theirs) } else { (theirs, mine) };
        let secret = Secret(Arc::from([shared, &first, &second].concat()));
        Some(Self { secret, algorithm, required: peer.required(), expected: own.required() })
    }

    /// Bytes to reserve for an AUTH chunk in each packet, 0 if the peer requires it for ASCONF and ASCONF-ACK only: those are
    /// not bundled with data.
    pub fn overhead(&self) -> u32 {
        let more = self.required.iter().any(|kind| !ADDRESS_CHANGES.contains(kind));
        if more { padded(Auth::HEADER_LEN + self.algorithm.code_len().unwrap_or(0)) } else { 0 }
    }

    /// Bytes by which packets of the peer may be longer, where it authenticates this kind of chunk.
    pub fn overhead_of(&self, kind: u8) -> u32 {
        if self.expects(kind) { MAX_AUTH_BYTES } else { 0 }
    }

    /// A chunk of this kind counts only behind a genuine AUTH.
    pub fn expects(&self, kind: u8) -> bool {
        self.expected.contains(&kind)
    }

    /// Puts an AUTH before the first of these chunks that the peer wants it before. Padding that makes a packet as long as it is to
    /// be is written for one with AUTH: it gets it, wanted or not.
    pub fn authenticate(&self, chunks: &mut Chunks) {
        let pads = self.overhead() > 0;
        let wanted =
            |chunk: &Chunk| self.required.contains(&chunk.kind()) || pads && matches!(chunk, Chunk::Pad(_));
        let authenticated = chunks.iter().any(|chunk| matches!(chunk, Chunk::Auth(_)));
        if let Some(at) = chunks.iter().position(wanted).filter(|_| !authenticated)
            && let Some(auth) = Auth::pending(self.algorithm, self.secret.clone())
        {
            chunks.list().insert(at, Chunk::Auth(Box::new(auth)));
        }
    }

    /// Whether an AUTH is the peer's own.
    pub fn verify(&self, auth: &Auth) -> Verdict {
        // A packet that was never serialized has no code to check: any holder of the secret is trusted.
        let genuine = match &auth.secret {
            Some(secret) => Some(*secret == self.secret),
            None => auth.algorithm.verifies(&self.secret.0, &auth.covered, &auth.code),
        };
        match genuine {
            None => Verdict::Unsupported,
            Some(true) if auth.key == 0 => Verdict::Genuine,
            Some(_) => Verdict::Forged,
        }
    }
}

/// The result of checking an AUTH chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The chunks behind it are the peer's.
    Genuine,
    /// They are not.
    Forged,
    /// Its algorithm is not one of those that were offered.
    Unsupported,
}

#[cfg(test)]
mod tests;
