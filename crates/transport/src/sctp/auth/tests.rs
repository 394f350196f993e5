use super::*;
use wire::sctp::{Shutdown, kind};
use wire::seq::Serial;

fn offer(seed: u8) -> Offer {
    Offer::new([seed; 32])
}

fn init(parameters: Vec<Parameter>) -> Init {
    Init { parameters, ..Init::default() }
}

/// Both ends of an association.
fn pair(shared: [&[u8]; 2]) -> [Authentication; 2] {
    let (one, other) = (offer(1), offer(2));
    [
        Authentication::new(shared[0], &one, &other).unwrap(),
        Authentication::new(shared[1], &other, &one).unwrap(),
    ]
}

fn request() -> Vec<Chunk> {
    let address = [10, 0, 0, 1].into();
    vec![Chunk::Asconf(Box::new(wire::sctp::Asconf { serial: Serial(1), address, parameters: vec![] }))]
}

fn auth(chunks: &[Chunk]) -> Auth {
    let Chunk::Auth(auth) = &chunks[0] else { panic!("AUTH") };
    (**auth).clone()
}

/// RFC 4895 §6.1, by hand: the secret, then the key vectors, the smaller one first, each without padding.
#[test]
fn the_key_is_made_of_the_secret_and_both_key_vectors() {
    let own =
        Offer { random: [1; 32].into(), chunks: Some([0xc1].into()), algorithms: [HmacId::SHA1].into() };
    let peer = Offer { random: [2; 32].into(), chunks: None, algorithms: [HmacId::SHA256].into() };
    let longer = [&[0x80, 2, 0, 36][..], &[1; 32], &[0x80, 3, 0, 5, 0xc1, 0x80, 4, 0, 6, 0, 1]].concat();
    let shorter = [&[0x80, 2, 0, 36][..], &[2; 32], &[0x80, 4, 0, 6, 0, 3]].concat();
    let made = Authentication::new(b"secret", &own, &peer).unwrap();
    assert_eq!(made.key[..], [&b"secret"[..], &shorter, &longer].concat());
    assert_eq!((made.algorithm, &made.required[..]), (HmacId::SHA256, &[][..]));
    // Of one length, the random number decides.
    let peer = Offer { random: [0; 32].into(), ..own.clone() };
    let made = Authentication::new(b"", &own, &peer).unwrap();
    assert_eq!(made.key[..], [peer.key_vector(), own.key_vector()].concat());
}

/// RFC 2202 §3 case 2 and RFC 4231 §4.3.
#[test]
fn codes_are_those_of_the_standards() {
    let covered = b"what do ya want for nothing?";
    let sha1 = mac::<Hmac<Sha1>>(b"Jefe", covered).finalize().into_bytes();
    assert_eq!(sha1[..4], [0xef, 0xfc, 0xdf, 0x6a]);
    let sha256 = mac::<Hmac<Sha256>>(b"Jefe", covered).finalize().into_bytes();
    assert_eq!(sha256[..4], [0x5b, 0xdc, 0xc1, 0x46]);
}

#[test]
fn what_one_end_makes_the_other_believes_and_nobody_changes() {
    let [one, other] = pair([b"", b""]);
    let chunks = one.protect(request());
    assert_eq!(chunks.len(), 2);
    let genuine = auth(&chunks);
    assert_eq!(other.verify(&genuine), Verdict::Genuine);
    for at in 0..genuine.covered.len() {
        let mut covered = genuine.covered.clone();
        covered[at] ^= 1;
        assert_eq!(other.verify(&Auth { covered, ..genuine.clone() }), Verdict::Forged);
    }
    assert_eq!(other.verify(&Auth { key: 1, ..genuine.clone() }), Verdict::Forged);
    assert_eq!(other.verify(&Auth { code: Box::default(), ..genuine.clone() }), Verdict::Forged);
    assert_eq!(other.verify(&Auth { algorithm: HmacId(2), ..genuine }), Verdict::Unsupported);
    // What the peer does not ask for goes out as it is.
    let plain = vec![Chunk::Shutdown(Shutdown { cumulative_tsn: Serial(3) })];
    assert_eq!(one.protect(plain.clone()), plain);
}

#[test]
fn different_secrets_do_not_go_together() {
    let [one, other] = pair([b"this", b"that"]);
    assert_eq!(other.verify(&auth(&one.protect(request()))), Verdict::Forged);
    let [one, other] = pair([b"this", b"this"]);
    assert_eq!(other.verify(&auth(&one.protect(request()))), Verdict::Genuine);
}

/// RFC 4895 §3: a random number of 32 bytes and a known algorithm must be there; user data cannot be authenticated here.
#[test]
fn offers_that_cannot_be_met_are_none() {
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
        (1, Parameter::ChunkList([kind::ASCONF, kind::DATA].into())),
        (2, Parameter::HmacAlgorithms([HmacId(2)].into())),
    ] {
        let mut other = whole.clone();
        other[at] = parameter;
        assert_eq!(Offer::of(&init(other)), None);
    }
}
