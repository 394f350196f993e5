//! Authenticated chunks (RFC 4895). The keys are derived from the parameters of both endpoints in the handshake and,
//! if the endpoints share one, from a secret.
//!
//! Each endpoint lists the chunk types that it accepts only with an authentication code. These are requests to change
//! addresses (RFC 5061 §4.2.7) and, where configured, user data and its acknowledgements. The peer sends chunks of
//! these types behind an AUTH chunk, which is inserted when the packet leaves; paths reserve room for it. The core
//! holds no payload bytes, so the code is computed by the writer of the packet ([`Auth::pending`]).

use anabranch_wire::sctp::{Auth, Chunk, Chunks, HmacId, Init, Parameter, Secret, kind, padded, parameter};
use std::sync::Arc;

/// Bytes of a random number (§3.1).
pub(crate) const RANDOM_BYTES: usize = 32;
/// Supported algorithms, the preferred one first. Every implementation must support SHA-1 (§8).
const ALGORITHMS: [HmacId; 2] = [HmacId::SHA256, HmacId::SHA1];
/// Chunks that change addresses.
pub(crate) const ADDRESS_CHANGES: [u8; 2] = [kind::ASCONF, kind::ASCONF_ACK];
/// Chunks that carry user data, skip it, or acknowledge it (as SHUTDOWN does).
pub(crate) const USER_DATA: [u8; 7] = [
    kind::DATA,
    kind::I_DATA,
    kind::SACK,
    kind::NR_SACK,
    kind::FORWARD_TSN,
    kind::I_FORWARD_TSN,
    kind::SHUTDOWN,
];
/// Chunk types that are never authenticated, even if the peer lists them (§3.2).
const NEVER_AUTHENTICATED: [u8; 4] = [kind::INIT, kind::INIT_ACK, kind::SHUTDOWN_COMPLETE, kind::AUTH];
/// Maximum number of the peer's algorithms and chunk types that are kept: they are stored in the cookie,
/// which must fit a packet.
const MAX_ENTRIES: usize = 64;
/// Bytes of the longest AUTH chunk of a peer.
const MAX_AUTH_BYTES: u32 = Auth::HEADER_LEN + 32;

/// Authentication parameters of one endpoint (§3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub random: Box<[u8]>,
    /// Chunk types that this endpoint accepts only with authentication; `None` if the parameter is missing.
    pub chunks: Option<Box<[u8]>>,
    pub algorithms: Box<[HmacId]>,
}

impl Offer {
    /// Creates the parameters of this endpoint. Each association has its own random number.
    pub fn new(random: [u8; RANDOM_BYTES], chunks: Box<[u8]>) -> Self {
        Self { random: random.into(), chunks: Some(chunks), algorithms: ALGORITHMS.into() }
    }

    /// Reads the authentication parameters of an INIT or INIT ACK. `None` if its sender does not support
    /// authentication, or not as required.
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
        let fits = offer.random.len() == RANDOM_BYTES
            && offer.algorithms.len().max(offer.listed().len()) <= MAX_ENTRIES;
        (fits && offer.algorithm().is_some()).then_some(offer)
    }

    /// The parameters of an INIT or INIT ACK that contain this offer.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter> {
        let random = Parameter::Random(self.random.clone());
        let chunks = self.chunks.clone().map(Parameter::ChunkList);
        let algorithms = Parameter::HmacAlgorithms(self.algorithms.clone());
        [Some(random), chunks, Some(algorithms)].into_iter().flatten()
    }

    fn listed(&self) -> &[u8] {
        self.chunks.as_deref().unwrap_or_default()
    }

    /// Chunk types that the offer lists and that can be authenticated.
    fn required(&self) -> Box<[u8]> {
        self.listed().iter().copied().filter(|kind| !NEVER_AUTHENTICATED.contains(kind)).collect()
    }

    /// The first algorithm of the offer that this endpoint supports.
    fn algorithm(&self) -> Option<HmacId> {
        self.algorithms.iter().copied().find(|algorithm| ALGORITHMS.contains(algorithm))
    }

    /// The key vector: the parameters without padding, in a fixed order that is independent of the packet (§6.1).
    fn key_vector(&self) -> Vec<u8> {
        self.parameters().flat_map(|parameter| parameter::to_bytes(&[parameter]).into_vec()).collect()
    }
}

/// Authentication of an association.
#[derive(Debug)]
pub(crate) struct Authentication {
    /// The association shared key (§6.1).
    secret: Secret,
    /// Algorithm of the codes sent to the peer.
    algorithm: HmacId,
    /// Chunk types that need an authentication code if sent to the peer (`required`) and if received from it
    /// (`expected`).
    required: Box<[u8]>,
    expected: Box<[u8]>,
}

impl Authentication {
    /// Derives the keys from the offers of both endpoints and their shared secret, which may be empty.
    pub fn new(shared: &[u8], own: &Offer, peer: &Offer) -> Option<Self> {
        let algorithm = peer.algorithm()?;
        let (mine, theirs) = (own.key_vector(), peer.key_vector());
        // The key vectors are ordered as numbers, the smaller one first. Both begin with the type of the same
        // parameter, so the shorter vector is the smaller number.
        let in_order = (mine.len(), &mine) <= (theirs.len(), &theirs);
        let (first, second) = if in_order { (mine, theirs) } else { (theirs, mine) };
        let secret = Secret(Arc::from([shared, &first, &second].concat()));
        Some(Self { secret, algorithm, required: peer.required(), expected: own.required() })
    }

    /// Bytes to reserve for an AUTH chunk in each packet. 0 if the peer requires it for ASCONF and ASCONF-ACK only,
    /// which are not bundled with data.
    pub fn overhead(&self) -> u32 {
        let more = self.required.iter().any(|kind| !ADDRESS_CHANGES.contains(kind));
        if more { padded(Auth::HEADER_LEN + self.algorithm.code_len().unwrap_or(0)) } else { 0 }
    }

    /// Bytes by which a packet of the peer is longer if it must authenticate this type of chunk.
    pub fn overhead_of(&self, kind: u8) -> u32 {
        if self.expects(kind) { MAX_AUTH_BYTES } else { 0 }
    }

    /// Returns true if a chunk of this type is accepted only behind a valid AUTH.
    pub fn expects(&self, kind: u8) -> bool {
        self.expected.contains(&kind)
    }

    /// Inserts an AUTH before the first of these chunks that the peer accepts only with one. A packet padded to a
    /// given length (a path MTU probe) always gets an AUTH, because its padding leaves room for one.
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

    /// Checks an AUTH chunk of the peer.
    pub fn verify(&self, auth: &Auth) -> AuthCheck {
        // A packet that was passed as a value, and never written as bytes, has no code. Its AUTH names the secret
        // instead.
        let genuine = match &auth.secret {
            Some(secret) => Some(*secret == self.secret),
            None => auth.algorithm.verifies(&self.secret.0, &auth.covered, &auth.code),
        };
        match genuine {
            None => AuthCheck::Unsupported,
            Some(true) if auth.key == 0 => AuthCheck::Genuine,
            Some(_) => AuthCheck::Forged,
        }
    }
}

/// The result of checking an AUTH chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthCheck {
    /// The code is valid: the peer sent the following chunks.
    Genuine,
    /// The code is invalid.
    Forged,
    /// The algorithm is not one that this endpoint has offered.
    Unsupported,
}

#[cfg(test)]
mod tests;
