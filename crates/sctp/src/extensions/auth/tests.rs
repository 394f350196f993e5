use super::*;
use anabranch_wire::sctp::{Chunks, Packet, Pad, Shutdown};
use anabranch_wire::seq::Serial;
use anabranch_wire::{Content, Pattern, Payload};

fn offer(seed: u8) -> Offer {
    Offer::new([seed; 32], ADDRESS_CHANGES.into())
}

fn init(parameters: Vec<Parameter>) -> Init {
    Init { parameters, ..Init::default() }
}

/// Both endpoints of an association.
fn pair(shared: [&[u8]; 2]) -> [Authentication; 2] {
    let (one, other) = (offer(1), offer(2));
    [
        Authentication::new(shared[0], &one, &other).unwrap(),
        Authentication::new(shared[1], &other, &one).unwrap(),
    ]
}

fn request() -> Vec<Chunk> {
    let address = [10, 0, 0, 1].into();
    vec![Chunk::Asconf(Box::new(anabranch_wire::sctp::Asconf {
        serial: Serial(1),
        address,
        parameters: vec![],
    }))]
}

/// The encoding of these chunks with an AUTH before them.
fn authenticated(by: &Authentication, chunks: Vec<Chunk>) -> Chunks {
    let mut chunks = chunks.into();
    by.authenticate(&mut chunks);
    chunks
}

/// The AUTH before these chunks, as the peer parses it.
fn auth(by: &Authentication, chunks: Vec<Chunk>) -> Auth {
    let packet = Packet {
        source_port: 1,
        destination_port: 2,
        verification_tag: 3,
        chunks: authenticated(by, chunks),
        udp: None,
        may_fragment: false,
        zero_checksum: false,
    };
    let mut bytes = Vec::new();
    packet.emit_with(&mut bytes, &mut |payload, bytes| Pattern.copy(payload, bytes));
    let read = Packet::parse(&bytes).unwrap();
    let Chunk::Auth(auth) = &read.chunks[0] else { panic!("AUTH") };
    (**auth).clone()
}

/// RFC 4895 §6.1, computed separately: the secret, then the key vectors, the smaller one first, each without padding.
#[test]
fn key_contains_secret_and_both_key_vectors() {
    let own =
        Offer { random: [1; 32].into(), chunks: Some([0xc1].into()), algorithms: [HmacId::SHA1].into() };
    let peer = Offer { random: [2; 32].into(), chunks: None, algorithms: [HmacId::SHA256].into() };
    let longer = [&[0x80, 2, 0, 36][..], &[1; 32], &[0x80, 3, 0, 5, 0xc1, 0x80, 4, 0, 6, 0, 1]].concat();
    let shorter = [&[0x80, 2, 0, 36][..], &[2; 32], &[0x80, 4, 0, 6, 0, 3]].concat();
    let made = Authentication::new(b"secret", &own, &peer).unwrap();
    assert_eq!(made.secret.0[..], [&b"secret"[..], &shorter, &longer].concat());
    assert_eq!((made.algorithm, &made.required[..]), (HmacId::SHA256, &[][..]));
    // If the lengths are equal, the random number decides.
    let peer = Offer { random: [0; 32].into(), ..own.clone() };
    let made = Authentication::new(b"", &own, &peer).unwrap();
    assert_eq!(made.secret.0[..], [peer.key_vector(), own.key_vector()].concat());
}

#[test]
fn only_genuine_auth_is_accepted() {
    let [one, other] = pair([b"", b""]);
    let genuine = auth(&one, request());
    assert_eq!(other.verify(&genuine), AuthCheck::Genuine);
    for at in 0..genuine.covered.len() {
        let mut covered = genuine.covered.clone();
        covered[at] ^= 1;
        assert_eq!(other.verify(&Auth { covered, ..genuine.clone() }), AuthCheck::Forged);
    }
    assert_eq!(other.verify(&Auth { key: 1, ..genuine.clone() }), AuthCheck::Forged);
    assert_eq!(other.verify(&Auth { code: Box::default(), ..genuine.clone() }), AuthCheck::Forged);
    assert_eq!(other.verify(&Auth { algorithm: HmacId(2), ..genuine }), AuthCheck::Unsupported);
    // Chunk types that the peer does not list are sent without an AUTH.
    let plain = vec![Chunk::Shutdown(Shutdown { cumulative_tsn: Serial(3) })];
    assert_eq!(authenticated(&one, plain.clone()), Chunks::from(plain));
}

/// A packet that was never written as bytes has no code. The secret that its AUTH names is compared instead.
#[test]
fn unwritten_auth_is_verified_by_the_secret() {
    let ([one, other], [stranger, _]) = (pair([b"", b""]), pair([b"x", b"x"]));
    for (by, verdict) in [(&one, AuthCheck::Genuine), (&stranger, AuthCheck::Forged)] {
        let chunks = authenticated(by, request());
        let Chunk::Auth(auth) = &chunks[0] else { panic!("AUTH") };
        assert_eq!(other.verify(auth), verdict);
    }
}

/// RFC 4895 §3.2, §6.2: chunks of the types that the peer lists are sent after an AUTH, except those that
/// must not be authenticated. Chunks before the AUTH keep their positions.
#[test]
fn listed_chunks_are_sent_behind_an_auth() {
    let every: Box<[u8]> = [kind::INIT, kind::SHUTDOWN_COMPLETE, kind::DATA, kind::AUTH, kind::SACK].into();
    let peer = Offer { chunks: Some(every), ..offer(2) };
    let one = Authentication::new(b"", &offer(1), &peer).unwrap();
    assert_eq!(one.required[..], [kind::DATA, kind::SACK]);
    assert_eq!((one.overhead(), pair([b"", b""])[0].overhead()), (40, 0));
    let data = || {
        let payload = Payload::new(0, 10);
        Chunk::Data(anabranch_wire::sctp::Data { payload, ..anabranch_wire::sctp::Data::default() })
    };
    let kinds = |chunks: Vec<Chunk>| authenticated(&one, chunks).iter().map(Chunk::kind).collect::<Vec<u8>>();
    assert_eq!(kinds(vec![Chunk::CookieAck, data(), data()]), [11, kind::AUTH, kind::DATA, kind::DATA]);
    assert_eq!(kinds(authenticated(&one, vec![data()]).to_vec()), [kind::AUTH, kind::DATA], "once");
    assert_eq!(kinds(vec![Chunk::CookieAck, Chunk::Pad(Pad { len: 8 })]), [11, kind::AUTH, kind::PAD]);
    assert_eq!(kinds(vec![Chunk::CookieAck]), [11]);
}

#[test]
fn auth_of_another_secret_is_forged() {
    let [one, other] = pair([b"this", b"that"]);
    assert_eq!(other.verify(&auth(&one, request())), AuthCheck::Forged);
    let [one, other] = pair([b"this", b"this"]);
    assert_eq!(other.verify(&auth(&one, request())), AuthCheck::Genuine);
}

/// RFC 4895 §3: a random number of 32 bytes and a known algorithm are required.
#[test]
fn invalid_offers_are_rejected() {
    let whole: Vec<Parameter> = offer(1).parameters().collect();
    assert_eq!(Offer::of(&init(whole.clone())), Some(offer(1)));
    for without in [0, 2] {
        let mut less = whole.clone();
        less.remove(without);
        assert_eq!(Offer::of(&init(less)), None);
    }
    let mut no_list = whole.clone();
    no_list.remove(1);
    assert_eq!(Offer::of(&init(no_list)), Some(Offer { chunks: None, ..offer(1) }));
    for (at, parameter) in [
        (0, Parameter::Random([7; 31].into())),
        (1, Parameter::ChunkList([kind::DATA; MAX_ENTRIES + 1].into())),
        (2, Parameter::HmacAlgorithms([HmacId(2)].into())),
    ] {
        let mut other = whole.clone();
        other[at] = parameter;
        assert_eq!(Offer::of(&init(other)), None);
    }
}
