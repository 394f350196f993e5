//! User data that is accepted only with authentication (RFC 4895), and the origin of the keys.

use super::pair::{A, App, B, Link, Net, Settings, at_ms, body, ms, secrets};
use crate::association::handshake::Known;
use crate::association::state::State;
use crate::extensions::auth::{AuthCheck, Authentication, Offer, USER_DATA};
use crate::open::Open;
use crate::origin::Origin;
use crate::{Answer, Association, CookieKey, Listener};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::{Endpoint, Event, Reason};
use anabranch_wire::sctp::{
    Auth, Cause, Chunk, Chunks, Data, DataFlags, Init, Parameter, Sack, SackFlags, Shutdown, kind,
};
use anabranch_wire::seq::Serial;
use anabranch_wire::{Body, Packet, Pattern, Payload};
use core::cell::Cell;
use std::rc::Rc;

/// Packets of both endpoints: the number with chunks after an AUTH, and the longest.
type Seen = Rc<Cell<([u32; 2], [u32; 2])>>;

/// An association in which these endpoints accept user data only with authentication, with messages in both directions.
fn transfer(wants: [bool; 2], mut change: impl FnMut(usize, &mut Settings)) -> (Net, Seen) {
    let mut net = Net::new(vec![Link::new(10, 10)], |end, config| {
        (config.authenticate_data, config.asconf) = (wants[end], true);
        (config.nagle, config.streams) = (false, 4);
        change(end, config);
    });
    let seen = Seen::default();
    let log = Rc::clone(&seen);
    net.filter = Some(Box::new(move |_, from, packet| {
        let chunks = &body(packet).chunks;
        let (mut authenticated, mut longest) = log.get();
        let auth = chunks.iter().position(|chunk| matches!(chunk, Chunk::Auth(_)));
        let wanted = |chunk: &Chunk| USER_DATA.contains(&chunk.kind());
        if let Some(first) = chunks.iter().position(wanted) {
            assert_eq!(auth.is_some_and(|at| at < first), wants[1 - from], "{packet:?}");
            authenticated[from] += u32::from(auth.is_some());
        }
        longest[from] = longest[from].max(packet.wire_len());
        log.set((authenticated, longest));
        true
    }));
    net.apps[A] = App::sends((0..60).map(|i| (3_000 + i * 100, (i % 4) as u16, i % 3 == 0)));
    net.apps[B] = App::sends((0..40).map(|i| (700 + i * 100, (i % 4) as u16, false)));
    (net, seen)
}

#[test]
fn packets_have_room_for_the_code_of_user_data() {
    for (wants, i_data) in
        [([true, true], false), ([true, true], true), ([false, true], false), ([false; 2], true)]
    {
        let (mut net, seen) = transfer(wants, |_, config| {
            (config.i_data, config.nr_sack, config.partial_reliability) = (i_data, i_data, true);
        });
        net.links[0].loss = 0.03;
        net.connect();
        net.run_to_end(at_ms(60_000));
        net.check(A);
        net.check(B);
        let (authenticated, longest) = seen.get();
        assert_eq!(authenticated.map(|count| count > 40), [wants[1], wants[0]], "{authenticated:?}");
        assert!(longest.iter().all(|&len| len <= 1500) && longest[A] > 1496, "{longest:?}");
        assert_eq!((net.extra(A, "forgeries"), net.extra(B, "forgeries")), (0, 0));
    }
}

/// If authentication is required, data without an AUTH or with a wrong one is ignored.
#[test]
fn unauthenticated_chunks_are_ignored() {
    let (mut net, _) = transfer([true, true], |_, _| {});
    net.connect();
    net.run_until(at_ms(500));
    net.check(A);
    let kept: Rc<Cell<Option<Packet>>> = Rc::default();
    let keep = Rc::clone(&kept);
    net.filter = Some(Box::new(move |_, from, packet| {
        let data = body(packet).chunks.iter().any(|chunk| chunk.payload().is_some());
        if from == A && data {
            keep.set(Some(packet.clone()));
        }
        !(from == A && data)
    }));
    let before = (net.apps[B].read.len(), net.ends[B].report().delivered);
    net.apps[A].outbox.push_back((400, 1, false));
    net.drain();
    let mut genuine = kept.take().expect("the packet was sent");
    genuine.settle(&Pattern);
    let forged = |change: fn(&mut Vec<Chunk>)| {
        let mut packet = genuine.clone();
        let Body::Sctp(body) = &mut packet.body else { panic!("SCTP") };
        change(body.chunks.list());
        // The receiver parses the bytes of the packet.
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        Packet::parse(&bytes).expect("the packet parses")
    };
    let sack = |chunks: &mut Vec<Chunk>| {
        let cumulative_tsn = Serial(77);
        *chunks =
            vec![Chunk::Sack(Sack { cumulative_tsn, a_rwnd: 0, flags: SackFlags::NONE, ..Sack::default() })];
    };
    for packet in [
        forged(|chunks| chunks.retain(|chunk| !matches!(chunk, Chunk::Auth(_)))),
        forged(|chunks| chunks.reverse()),
        forged(|chunks| {
            let Some(Chunk::Data(data)) = chunks.last_mut() else { panic!("DATA") };
            data.ppid ^= 1;
        }),
        forged(sack),
        // The SHUTDOWN also acknowledges data; accepting it would close the association before the data has arrived.
        forged(|chunks| *chunks = vec![Chunk::Shutdown(Shutdown { cumulative_tsn: Serial(77) })]),
    ] {
        net.inject(B, packet);
    }
    assert_eq!((net.apps[B].read.len(), net.ends[B].report().delivered), before);
    assert_eq!((net.extra(B, "forgeries"), net.closed(B)), (2, None));
    net.filter = None;
    net.run_until(net.now + ms(5_000));
    net.check(A);
}

/// The peer may also require authentication of the COOKIE ECHO, and of an ABORT, which is the last packet.
#[test]
fn cookie_and_abort_are_authenticated_on_request() {
    let mut net = Net::new(vec![Link::new(10, 10)], |_, config| config.asconf = true);
    let seen: Rc<Cell<Vec<u8>>> = Rc::default();
    let log = Rc::clone(&seen);
    net.filter = Some(Box::new(move |_, from, packet| {
        let Body::Sctp(body) = &mut packet.body else { panic!("SCTP") };
        let mut all = log.take();
        for chunk in body.chunks.iter_mut().filter(|_| from == B) {
            if let Chunk::InitAck(init) = chunk {
                for parameter in &mut init.parameters {
                    if let Parameter::ChunkList(kinds) = parameter {
                        *kinds = [kind::COOKIE_ECHO, kind::ABORT].into();
                    }
                }
            }
        }
        all.extend(body.chunks.iter().filter(|_| from == A).map(Chunk::kind));
        // The other endpoint does not have this list, and computes other codes.
        body.chunks.list().retain(|chunk| !matches!(chunk, Chunk::Auth(_)));
        log.set(all);
        true
    }));
    net.connect();
    net.run_until(at_ms(500));
    assert!(net.ends[A].established());
    net.ends[A].abort(net.now);
    net.drain();
    assert_eq!(seen.take(), [kind::INIT, kind::AUTH, kind::COOKIE_ECHO, kind::AUTH, kind::ABORT]);
    assert_eq!(net.closed(A), Some(Reason::Aborted));
}

/// An endpoint that accepts user data only with authentication.
fn settings(end: usize, seed: u8) -> Settings {
    let mut settings = Settings::new(end, 1, seed);
    settings.authenticate_data = true;
    settings
}

fn init_of(packet: &Packet) -> &Init {
    match &body(packet).chunks[0] {
        Chunk::Init(init) | Chunk::InitAck(init) => init,
        other => panic!("{other:?}"),
    }
}

/// Keys of the endpoint that sent `own` and received `other`.
fn keys(shared: &[u8], own: &Packet, other: &Packet) -> Authentication {
    let [own, other] =
        [own, other].map(|packet| Offer::of(init_of(packet)).expect("the packet offers authentication"));
    Authentication::new(shared, &own, &other).expect("a known algorithm")
}

/// An AUTH computed with these keys, independent of the following chunks.
fn auth(by: &Authentication) -> Auth {
    let mut chunks = Chunks::from(Chunk::Data(Data::default()));
    by.authenticate(&mut chunks);
    match chunks.list().swap_remove(0) {
        Chunk::Auth(auth) => *auth,
        other => panic!("{other:?}"),
    }
}

/// Puts an AUTH before a COOKIE ECHO, and a message after it that is accepted only with an AUTH.
fn surround(echo: &mut Packet, by: &Authentication, first: Serial) {
    let Body::Sctp(body) = &mut echo.body else { panic!("SCTP") };
    assert!(matches!(body.chunks[..], [Chunk::CookieEcho(_)]), "{body:?}");
    body.chunks.list().insert(0, Chunk::Auth(Box::new(auth(by))));
    let (flags, payload) = (DataFlags::BEGINNING | DataFlags::END, Payload::new(0, 10));
    body.chunks.push(Chunk::Data(Data { tsn: first, flags, payload, ..Data::default() }));
}

/// The reply of an end to a packet.
fn exchange(end: &mut Association, now: Time, packet: Packet) -> Packet {
    end.handle_packet(now, packet, &Pattern);
    end.poll_transmit(now).expect("an answer")
}

/// §6.3: an AUTH before a COOKIE ECHO authenticates all following chunks, with the keys derived from the cookie.
#[test]
fn a_cookie_needs_an_auth_by_the_peer() {
    for shared in [&b""[..], b"another secret"] {
        let Settings { config, ends, secrets: own, .. } = settings(B, 5);
        let key = CookieKey::new(&secrets(B, 5));
        let mut listener = Listener::new(config, &ends, own, key).expect("works");
        let mut a = settings(A, 7).connecting().expect("works");
        a.connect(at_ms(0));
        let init = a.poll_transmit(at_ms(0)).expect("INIT");
        let Answer::Packet(init_ack) = listener.handle_packet(at_ms(5), init.clone(), &Pattern) else {
            panic!("no INIT ACK")
        };
        let made = keys(shared, &init, &init_ack);
        let mut echo = exchange(&mut a, at_ms(10), init_ack);
        surround(&mut echo, &made, init_of(&init).initial_tsn);
        match listener.handle_packet(at_ms(15), echo, &Pattern) {
            Answer::Accepted(b) => {
                assert!(shared.is_empty() && b.established(), "{shared:?}");
                assert_eq!((b.readable(), b.core.totals.forgeries), (10, 0));
            }
            other => assert!(!shared.is_empty() && matches!(other, Answer::Ignored), "{other:?}"),
        }
    }
}

fn open(end: &Association) -> &Open {
    let State::Open(open) = &end.state else { panic!("{:?}", end.state) };
    open
}

/// An association of two endpoints that accept user data only with authentication.
fn established() -> Net {
    let mut net = Net::new(vec![Link::new(10, 5)], |_, settings| settings.authenticate_data = true);
    net.connect();
    net.run_until(at_ms(500));
    net
}

/// §6.3: if there is an association, its keys are used, although the cookie contains others for later chunks.
#[test]
fn a_restart_needs_the_keys_of_the_old_association() {
    let mut net = established();
    let mut again = settings(A, 12).connecting().expect("works");
    again.connect(net.now);
    let init = again.poll_transmit(net.now).expect("INIT");
    let init_ack = exchange(&mut net.ends[B], net.now, init.clone());
    let new = keys(b"", &init, &init_ack);
    let echo = exchange(&mut again, net.now, init_ack);
    let restarts = |net: &mut Net| {
        let events = core::iter::from_fn(|| net.ends[B].poll_event());
        events.filter(|event| matches!(event, Event::Restarted { .. })).count()
    };
    let mut refused = echo.clone();
    surround(&mut refused, &new, init_of(&init).initial_tsn);
    net.ends[B].handle_packet(net.now, refused, &Pattern);
    assert_eq!((restarts(&mut net), net.extra(B, "forgeries")), (0, 1));
    let mut taken = echo;
    let old = open(&net.ends[A]).auth.as_ref().expect("A authenticates");
    surround(&mut taken, old, init_of(&init).initial_tsn);
    net.ends[B].handle_packet(net.now, taken, &Pattern);
    assert_eq!((restarts(&mut net), net.ends[B].readable(), net.extra(B, "forgeries")), (1, 10, 1));
    let own = open(&net.ends[B]).auth.as_ref().expect("B authenticates");
    assert_eq!(own.verify(&auth(&new)), AuthCheck::Genuine);
}

/// §6.1: the random number follows the rules of the tag (RFC 9260 §5.2.4 B). Another tag means other keys, although the
/// TSNs continue.
#[test]
fn a_collision_with_another_tag_changes_the_keys() {
    let mut net = established();
    let (tag, tsn, first) = {
        let open = open(&net.ends[A]);
        (open.local_tag, open.outbound.sent.base() as u32, open.peer_tsn)
    };
    let mut other = settings(B, 9).connecting().expect("works");
    other.connect(net.now);
    let mut init = other.poll_transmit(net.now).expect("INIT");
    if let Body::Sctp(body) = &mut init.body
        && let Chunk::Init(init) = &mut body.chunks[0]
    {
        init.initial_tsn = Serial(first);
    }
    let (origin, _) = Origin::of(&init).expect("SCTP");
    // A has sent its own INIT before it responds to this one.
    let known = Known::Begun { tag, tsn, ties: (0, 0) };
    net.ends[A].core.answer_init(net.now, origin, init_of(&init), known);
    let init_ack = net.ends[A].poll_transmit(net.now).expect("INIT ACK");
    let made = keys(b"", &init, &init_ack);
    let echo = exchange(&mut other, net.now, init_ack);
    net.ends[A].handle_packet(net.now, echo, &Pattern);
    assert_eq!((net.extra(A, "restarts"), open(&net.ends[A]).peer_tag), (0, init_of(&init).initiate_tag));
    let own = open(&net.ends[A]).auth.as_ref().expect("A authenticates");
    assert_eq!(own.verify(&auth(&made)), AuthCheck::Genuine);
}

/// §6.1: an endpoint that supports authentication and sends a random number of other than 32 bytes gets an ABORT.
/// Without authentication, the parameter is skipped as unknown.
#[test]
fn a_random_number_of_wrong_length_aborts() {
    for (culprit, knows, len) in
        [(A, true, 31), (A, true, 33), (A, false, 31), (B, true, 31), (B, true, 0), (B, true, 32)]
    {
        let mut net = Net::new(vec![Link::new(10, 5)], |end, config| config.asconf = knows || end == culprit);
        let aborts: Rc<Cell<[u32; 2]>> = Rc::default();
        let count = Rc::clone(&aborts);
        net.filter = Some(Box::new(move |_, from, packet| {
            let Body::Sctp(body) = &mut packet.body else { panic!("SCTP") };
            match &mut body.chunks[0] {
                Chunk::Init(init) | Chunk::InitAck(init) if from == culprit => {
                    for parameter in &mut init.parameters {
                        if let Parameter::Random(bytes) = parameter {
                            *bytes = vec![7; len].into();
                        }
                    }
                }
                Chunk::Abort(abort) => {
                    assert!(matches!(abort.causes[..], [Cause::ProtocolViolation(_)]), "{abort:?}");
                    let mut all = count.get();
                    all[from] += 1;
                    count.set(all);
                }
                _ => {}
            }
            true
        }));
        net.connect();
        net.run_until(at_ms(500));
        let mut expected = [0; 2];
        expected[1 - culprit] = u32::from(knows && len != 32);
        assert_eq!(aborts.get(), expected, "{culprit} {len}");
        let refused = (knows && len != 32).then_some(Reason::Refused);
        assert_eq!((net.closed(A), net.ends[A].established()), (refused, refused.is_none()));
    }
}
