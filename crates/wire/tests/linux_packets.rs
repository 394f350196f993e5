//! Packets that Linux sent: this crate parses them, encodes them in the same layout, and reads the values that Linux
//! wrote.

mod vectors;

use anabranch_wire::tcp::mptcp::{AddAddress, Control, DataChecksum, DataNumber, Join, dss_checksum};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Buffer, Checksum, Ecn, Packet};

fn segment(bytes: &[u8]) -> (Segment, &[u8]) {
    let parsed = Packet::parse(bytes).expect("Linux's packets parse");
    match parsed.body {
        Body::Tcp(segment) => {
            let payload = Buffer(bytes).bytes(segment.payload);
            (segment, payload)
        }
        other => panic!("a TCP segment, not {other:?}"),
    }
}

/// Detects options that are missing, or that have another order or padding than in Linux: the transport's bytes must
/// be equal, checksum included. (The IP headers differ in identification, flow label and service class.)
#[test]
fn encoding_equals_that_of_linux() {
    let packets = vectors::linux();
    assert!(packets.len() > 40);
    for (name, bytes) in packets {
        let parsed = Packet::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut ours = Vec::new();
        parsed.emit_with(&mut ours, |payload, out| out.copy_from_slice(Buffer(&bytes).bytes(payload)));
        let body = if parsed.source.is_ipv4() { 20 } else { 40 };
        assert_eq!(ours.len(), bytes.len(), "{name}");
        if name == "udp4-unchecked" {
            // The encoding always contains a checksum, and parsing refuses a wrong one.
            Packet::parse(&ours).expect("a right checksum");
        } else {
            assert_eq!(ours[body..], bytes[body..], "{name}");
        }
    }
}

#[test]
fn syn_is_parsed() {
    let bytes = vectors::linux_packet("tcp4-S-mss-sackok-ts-ws-capable4");
    let (syn, payload) = segment(&bytes);
    assert_eq!((syn.flags, payload), (Flags::SYN, &[][..]));
    assert_eq!(syn.destination_port, 7000);
    assert_eq!(syn.options.mss, Some(1460));
    assert!(syn.options.sack_permitted && syn.options.timestamps.is_some());
    let [Control::Capable(capable)] = syn.options.mptcp.others[..] else { panic!("MP_CAPABLE") };
    assert_eq!((capable.version, capable.hmac_sha256, capable.checksum_required), (1, true, false));
    assert_eq!((capable.sender_key, capable.receiver_key, capable.data), (None, None, None));
}

#[test]
fn data_with_mp_capable_is_parsed() {
    let bytes = vectors::linux_packet("tcp4-A-ts-capable22-data");
    let (first, payload) = segment(&bytes);
    assert_eq!(payload, b"hello multipath");
    let [Control::Capable(capable)] = first.options.mptcp.others[..] else { panic!("MP_CAPABLE") };
    assert!(capable.sender_key.is_some() && capable.receiver_key.is_some());
    assert_eq!(capable.data.map(|data| (data.len, data.checksum)), Some((15, None)));
}

#[test]
fn mapping_and_its_checksum_are_parsed() {
    for (name, len, ack) in [("tcp4-A-ts-dss24-data", 15, true), ("tcp4-A-ts-dss28-data", 6, true)] {
        let bytes = vectors::linux_packet(name);
        let (data, payload) = segment(&bytes);
        let dss = data.options.mptcp.dss.expect("a DSS");
        let mapping = dss.mapping.expect("a mapping");
        let DataNumber::Long(dsn) = mapping.dsn else { panic!("eight bytes") };
        assert_eq!((mapping.len, mapping.subflow_seq, dss.data_ack.is_some()), (len, 1, ack));
        let sum = Checksum::new().bytes(payload);
        assert_eq!(mapping.checksum, Some(DataChecksum::Known(dss_checksum(dsn, 1, len, sum))), "{name}");
    }
}

#[test]
fn mp_join_is_parsed() {
    let bytes = vectors::linux_packet("tcp4-S-mss-sackok-ts-ws-join12");
    let [Control::Join(Join::Syn { backup: false, .. })] = segment(&bytes).0.options.mptcp.others[..] else {
        panic!("MP_JOIN on a SYN");
    };
    let bytes = vectors::linux_packet("tcp4-SA-mss-sackok-ts-ws-join16");
    let [Control::Join(Join::SynAck { backup: false, .. })] = segment(&bytes).0.options.mptcp.others[..]
    else {
        panic!("MP_JOIN on a SYN/ACK");
    };
    let bytes = vectors::linux_packet("tcp4-A-ts-join24");
    let [Control::Join(Join::Ack { .. })] = segment(&bytes).0.options.mptcp.others[..] else {
        panic!("MP_JOIN on the third segment");
    };
}

#[test]
fn address_options_are_parsed() {
    let add = |name: &str| match segment(&vectors::linux_packet(name)).0.options.mptcp.others[..] {
        [Control::AddAddress(add)] => add,
        ref other => panic!("{name}: {other:?}"),
    };
    let v4 = [10, 77, 2, 2].into();
    let v6 = "fd77:2::2".parse().unwrap();
    let port = Some(7100);
    let AddAddress { address_id, hmac, .. } = add("tcp4-A-ts-add18");
    assert_eq!(add("tcp4-A-ts-add18"), AddAddress { address_id: 5, address: v4, port, hmac });
    assert!(hmac.is_some() && address_id == 5);
    let echo = AddAddress { address_id: 5, address: v4, port, hmac: None };
    assert_eq!(add("tcp4-A-ts-add10"), echo);
    assert_eq!(add("tcp4-A-ts-add28").address, v6);
    assert_eq!(add("tcp4-A-ts-add20"), AddAddress { address_id: 6, address: v6, port: None, hmac: None });
    assert_eq!(add("tcp4-A-ts-add16").port, None);

    let (removal, _) = segment(&vectors::linux_packet("tcp4-A-ts-dss12-remove4"));
    assert_eq!(removal.options.mptcp.others, [Control::RemoveAddress(vec![2])]);
}

#[test]
fn signals_are_parsed() {
    let (priority, _) = segment(&vectors::linux_packet("tcp4-A-ts-dss12-prio3"));
    assert_eq!(priority.options.mptcp.others, [Control::Priority { backup: true }]);
    let (closing, _) = segment(&vectors::linux_packet("tcp6-RA-ts-fastclose12-tcprst4"));
    assert!(matches!(
        closing.options.mptcp.others[..],
        [Control::FastClose { .. }, Control::Reset { flags: 0, .. }]
    ));
    let (fin, _) = segment(&vectors::linux_packet("tcp4-A-ts-dss26"));
    let dss = fin.options.mptcp.dss.expect("a DSS");
    assert!(dss.data_fin && dss.mapping.is_some_and(|mapping| mapping.len == 1 && mapping.subflow_seq == 0));
}

#[test]
fn sack_and_ecn_are_parsed() {
    let (ack, _) = segment(&vectors::linux_packet("tcp4-A-ts-sack3"));
    let blocks = ack.options.sack.as_slice();
    assert_eq!(blocks.len(), 3);
    assert!(blocks.iter().all(|(left, right)| ack.ack.before(*left) && left.before(*right)));
    assert_eq!(ack.options.wire_len(), 40, "the option space is full");

    let (syn, _) = segment(&vectors::linux_packet("tcp4-SEC-mss-sackok-ts-ws"));
    assert!(syn.flags.contains(Flags::ECE | Flags::CWR));
    let data = vectors::linux_packet("tcp4-A-ts-data");
    assert_eq!(Packet::parse(&data).unwrap().ecn, Ecn::Ect0);
}
