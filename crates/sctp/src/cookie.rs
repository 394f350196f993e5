//! The state cookie (RFC 9260 §5.1.3). It contains all data of an INIT that a listener needs, signed with
//! HMAC-SHA-256 (RFC 2104, RFC 6234). The peer returns the cookie, so the listener stores nothing.

use crate::extensions::auth::Offer;
use anabranch_base::time::{Duration, Time};
use anabranch_endpoint::secrets::Secrets;
use anabranch_wire::sctp::HmacId;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of the signature.
const SIGNATURE_BYTES: usize = 32;

/// The key that signs the state cookies of a host. A cookie can be opened only with the key that sealed it.
/// The listeners of a host share one key, and the associations that they accept keep it for a peer that
/// restarts.
#[derive(Clone)]
pub struct CookieKey([u8; 32]);

impl CookieKey {
    /// Derives the key from `secrets`. The result does not depend on the values already drawn from them.
    pub fn new(secrets: &Secrets) -> Self {
        Self(secrets.keyed(&[b"SCTP state cookie"]))
    }

    /// HMAC-SHA-256 under this key over the concatenated parts, for values that must be recomputed from the same input.
    pub(super) fn keyed(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// Key for cookies created at this time. The key changes every hour, so that a key signs cookies of at most an
    /// hour (RFC 9260 §5.1.3). The creation time in the cookie selects the key.
    fn of(&self, created: [u8; 8]) -> [u8; 32] {
        let hour = u64::from_be_bytes(created) / Duration::from_secs(3600).as_nanos();
        self.keyed(&[b"cookies of an hour", &hour.to_be_bytes()])
    }
}

impl core::fmt::Debug for CookieKey {
    /// Omits the key, because debug output is not secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CookieKey").finish_non_exhaustive()
    }
}

/// Extensions that both endpoints support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    pub nr_sack: bool,
    pub i_data: bool,
    pub asconf: bool,
    pub ecn: bool,
    /// FORWARD TSN, or I-FORWARD-TSN if I-DATA is used.
    pub forward_tsn: bool,
    pub reconfig: bool,
    /// The peer accepts packets without a checksum.
    pub zero_checksum: bool,
    /// Delayed acknowledgement for CMT.
    pub dac: bool,
}

/// Parameters of the peer, known after the INIT or INIT ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// The peer's verification tag.
    pub tag: u32,
    /// The peer's initial TSN.
    pub tsn: u32,
    /// The peer's receive window, bytes.
    pub window: u32,
    /// Numbers of outgoing and incoming streams, limited by both endpoints.
    pub outbound: u16,
    pub inbound: u16,
    pub extensions: Extensions,
    /// The peer's authentication parameters, if it authenticates.
    pub auth: Option<Offer>,
    /// The peer's addresses: those in its list, or the source of its packet.
    pub addresses: Vec<IpAddr>,
}

/// The contents of a state cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cookie {
    pub created: Time,
    pub life: Duration,
    pub local_tag: u32,
    pub local_tsn: u32,
    /// Tie-Tags: tags of an association that existed when the INIT was received (§5.2.2); zero if there was none.
    pub local_tie: u32,
    pub peer_tie: u32,
    /// Source and destination of the INIT.
    pub source: IpAddr,
    pub source_port: u16,
    pub destination: IpAddr,
    pub peer: Peer,
}

/// Reason for which a cookie is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CookieError {
    /// The signature is invalid or the cookie is incomplete.
    Forged,
    /// The signature is valid but the contents cannot be parsed: a bug, or another version of this program.
    Malformed,
}

impl Cookie {
    /// Encodes and signs the cookie.
    pub fn seal(&self, key: &CookieKey) -> Box<[u8]> {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&self.created.as_nanos().to_be_bytes());
        out.extend_from_slice(&self.life.as_nanos().to_be_bytes());
        let peer = &self.peer;
        for word in
            [self.local_tag, self.local_tsn, self.local_tie, self.peer_tie, peer.tag, peer.tsn, peer.window]
        {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for half in [peer.outbound, peer.inbound, self.source_port] {
            out.extend_from_slice(&half.to_be_bytes());
        }
        let Extensions { nr_sack, i_data, asconf, ecn, forward_tsn, reconfig, zero_checksum, dac } =
            peer.extensions;
        let bits = [nr_sack, i_data, asconf, ecn, forward_tsn, reconfig, zero_checksum, dac];
        out.push((0..).zip(bits).map(|(place, bit)| u8::from(bit) << place).sum());
        put_offer(&mut out, peer.auth.as_ref());
        put_address(&mut out, self.source);
        put_address(&mut out, self.destination);
        out.push(peer.addresses.len() as u8);
        peer.addresses.iter().for_each(|&address| put_address(&mut out, address));
        let signature = sign(key, &out).finalize().into_bytes();
        out.extend_from_slice(&signature);
        out.into()
    }

    /// Verifies and decodes a cookie.
    pub fn open(bytes: &[u8], key: &CookieKey) -> Result<Self, CookieError> {
        let at = bytes.len().checked_sub(SIGNATURE_BYTES).ok_or(CookieError::Forged)?;
        let (contents, signature) = bytes.split_at(at);
        // The comparison takes constant time.
        sign(key, contents).verify_slice(signature).map_err(|_| CookieError::Forged)?;
        Self::parse(&mut Fields(contents)).ok_or(CookieError::Malformed)
    }

    fn parse(fields: &mut Fields) -> Option<Self> {
        let created = Time::from_nanos(u64::from_be_bytes(fields.take()?));
        let life = Duration::from_nanos(u64::from_be_bytes(fields.take()?));
        let mut words = [0; 7];
        for word in &mut words {
            *word = u32::from_be_bytes(fields.take()?);
        }
        let mut halves = [0; 3];
        for half in &mut halves {
            *half = u16::from_be_bytes(fields.take()?);
        }
        let [bits] = fields.take()?;
        let auth = fields.list(Fields::offer)?.pop();
        let (source, destination) = (fields.address()?, fields.address()?);
        let addresses = fields.list(Fields::address)?;
        let [local_tag, local_tsn, local_tie, peer_tie, tag, tsn, window] = words;
        let [outbound, inbound, source_port] = halves;
        let [nr_sack, i_data, asconf, ecn, forward_tsn, reconfig, zero_checksum, dac] =
            [1, 2, 4, 8, 16, 32, 64, 128].map(|bit| bits & bit != 0);
        let extensions =
            Extensions { nr_sack, i_data, asconf, ecn, forward_tsn, reconfig, zero_checksum, dac };
        let peer = Peer { tag, tsn, window, outbound, inbound, extensions, auth, addresses };
        Some(Self {
            created,
            life,
            local_tag,
            local_tsn,
            local_tie,
            peer_tie,
            source,
            source_port,
            destination,
            peer,
        })
    }

    /// Time since the cookie expired; `None` if it is still valid.
    pub fn staleness(&self, now: Time) -> Option<Duration> {
        let age = now.since(self.created);
        (age > self.life).then(|| age.saturating_sub(self.life))
    }
}

/// The signature of a cookie; its contents start with the creation time.
fn sign(key: &CookieKey, contents: &[u8]) -> Hmac<Sha256> {
    let created = contents.first_chunk().copied().unwrap_or_default();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.of(created)).expect("HMAC takes keys of any length");
    mac.update(contents);
    mac
}

fn put_offer(out: &mut Vec<u8>, offer: Option<&Offer>) {
    out.push(u8::from(offer.is_some()));
    let Some(Offer { random, chunks, algorithms }) = offer else { return };
    out.extend_from_slice(random);
    out.push(u8::from(chunks.is_some()));
    if let Some(chunks) = chunks {
        out.push(chunks.len() as u8);
        out.extend_from_slice(chunks);
    }
    out.push(algorithms.len() as u8);
    out.extend(algorithms.iter().flat_map(|algorithm| algorithm.0.to_be_bytes()));
}

fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(6);
            out.extend_from_slice(&v6.octets());
        }
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn offer(&mut self) -> Option<Offer> {
        let random = self.take::<32>()?.into();
        let kinds = |fields: &mut Self| fields.list(Self::take::<1>).map(|kinds| kinds.concat().into());
        let chunks = self.list(kinds)?.pop();
        let algorithm = |fields: &mut Self| fields.take().map(|id| HmacId(u16::from_be_bytes(id)));
        Some(Offer { random, chunks, algorithms: self.list(algorithm)?.into() })
    }

    /// A list; its first byte contains the number of items.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let [count] = self.take()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.take()? {
            [4] => Some(Ipv4Addr::from(self.take::<4>()?).into()),
            [6] => Some(Ipv6Addr::from(self.take::<16>()?).into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie() -> Cookie {
        Cookie {
            created: Time::from_nanos(5),
            life: Duration::from_secs(60),
            local_tag: 1,
            local_tsn: 2,
            local_tie: 3,
            peer_tie: 4,
            source: "10.0.0.1".parse().unwrap(),
            source_port: 7,
            destination: "fe80::1".parse().unwrap(),
            peer: Peer {
                tag: 5,
                tsn: 6,
                window: 1 << 20,
                outbound: 8,
                inbound: 9,
                extensions: Extensions {
                    nr_sack: true,
                    i_data: false,
                    asconf: true,
                    ecn: false,
                    forward_tsn: false,
                    reconfig: true,
                    zero_checksum: true,
                    dac: true,
                },
                auth: Some(Offer {
                    random: [7; 32].into(),
                    chunks: Some([0xc1, 0x80].into()),
                    algorithms: [HmacId::SHA1].into(),
                }),
                addresses: vec!["10.0.0.1".parse().unwrap(), "::2".parse().unwrap()],
            },
        }
    }

    #[test]
    fn cookie_opens_with_the_same_key_only() {
        let [key, other] = [1, 2].map(|byte| CookieKey::new(&Secrets::new([byte; 32])));
        let sealed = cookie().seal(&key);
        assert_eq!(Cookie::open(&sealed, &key), Ok(cookie()));
        assert_eq!(Cookie::open(&sealed, &other), Err(CookieError::Forged));
        for at in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[at] ^= 1;
            assert_eq!(Cookie::open(&forged, &key), Err(CookieError::Forged));
            assert_eq!(Cookie::open(&sealed[..at], &key), Err(CookieError::Forged));
        }
    }

    /// A missing list of chunk types and an empty list are different offers (RFC 4895 §6.1).
    #[test]
    fn cookie_keeps_missing_and_empty_chunk_lists() {
        let key = CookieKey::new(&Secrets::new([1; 32]));
        let offer = |chunks: Option<&[u8]>| Offer {
            random: [8; 32].into(),
            chunks: chunks.map(Box::from),
            algorithms: [HmacId(9), HmacId::SHA1].into(),
        };
        for auth in [None, Some(offer(None)), Some(offer(Some(&[]))), Some(offer(Some(&[1, 2, 3])))] {
            let mut cookie = cookie();
            cookie.peer.auth = auth;
            assert_eq!(Cookie::open(&cookie.seal(&key), &key), Ok(cookie));
        }
    }

    /// A cookie signed with the key of another hour is rejected.
    #[test]
    fn cookie_key_changes_every_hour() {
        let key = CookieKey::new(&Secrets::new([1; 32]));
        let hour = Duration::from_secs(3600);
        let early = cookie();
        let late = Cookie { created: early.created + hour, ..cookie() };
        let (sealed, other) = (early.seal(&key), late.seal(&key));
        let mut forged = other.to_vec();
        forged[..8].copy_from_slice(&sealed[..8]);
        assert_eq!(Cookie::open(&forged, &key), Err(CookieError::Forged));
        assert_eq!(Cookie::open(&other, &key), Ok(late));
        let at = |created: Time| key.of(created.as_nanos().to_be_bytes());
        assert_ne!(at(Time::ZERO), at(Time::ZERO + hour));
        assert_eq!(at(Time::ZERO), at(Time::ZERO + Duration::from_secs(3599)));
    }

    #[test]
    fn cookie_expires_after_its_lifetime() {
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        assert_eq!(cookie().staleness(at(60)), None);
        assert_eq!(cookie().staleness(at(62)), Some(Duration::from_nanos(1_999_999_995)));
    }
}
