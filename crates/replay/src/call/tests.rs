use super::*;
use anabranch_settings::protocol::Protocol as Settings;
use anabranch_settings::protocols::Protocols;

/// Each kind of calls, and every form of its fields.
fn calls() -> Vec<Call> {
    let id = ConnectionId::from_number(3 << 32 | 7).expect("a generation");
    let v6: IpAddr = [0xfd00, 0, 0, 0, 0, 0, 0, 1].into();
    let local = vec![Address { ip: [10, 0, 0, 1].into(), mtu: 1500, backup: true }, Address::new(v6, 1280)];
    let ends = Ends { local, local_port: 9, remote: vec![[10, 0, 0, 2].into(), v6], remote_port: 443 };
    let protocol = || Protocol::from(Settings::new(Protocols::MPTCP));
    let backlog = Backlog { complete: 1, incomplete: 300 };
    let sctp = Protocol::from(Settings::new(Protocols::CMT_SCTP));
    let write = |reliability| {
        let write = Write { len: 70_000, stream: 5, unordered: true, ppid: u32::MAX, reliability };
        Call::Write { id, write, accepted: 1 }
    };
    let change = |change| Call::ChangeStreams { id, change, accepted: true };
    vec![
        Call::Connect { protocol: protocol(), between: RequestedEnds::Remote(vec![v6], 80), got: None },
        Call::Connect { protocol: protocol(), between: RequestedEnds::Ends(ends), got: Some(id) },
        Call::Listen { listening: Listening { protocol: sctp, port: 7, backlog }, accepted: true },
        Call::StopListening(Transport::Udp, 65_535),
        Call::Accept { at: (Transport::Tcp, 80), got: id },
        Call::Touch(id),
        write(Reliability::Full),
        write(Reliability::Lifetime(Duration::from_millis(3))),
        write(Reliability::Retransmissions(255)),
        write(Reliability::Priority(9)),
        Call::Read { id, max: u64::MAX, got: None },
        Call::Read { id, max: 1, got: Some(0) },
        Call::Close(id),
        Call::Abort(id),
        change(StreamChange::ResetOutgoing([1, 65_535].into())),
        change(StreamChange::ResetIncoming([].into())),
        change(StreamChange::ResetAll),
        change(StreamChange::AddOutgoing(4)),
        change(StreamChange::AddIncoming(5)),
        Call::Forget(id),
        Call::SetPrimary { id, path: PathId(3), done: false },
        Call::SetBackup { id, path: PathId(255), backup: true, done: true },
        Call::AddAddress(Address::new(v6, 9000)),
        Call::RemoveAddress([10, 0, 0, 9].into()),
        Call::Timeout,
        Call::Drive,
    ]
}

#[test]
fn every_call_is_read_back() {
    let mut kinds = Vec::new();
    for call in calls() {
        let mut out = Vec::new();
        assert!(call.put(&mut out), "{call:?}");
        let mut fields = Fields(&out);
        let read = fields.byte().and_then(|kind| Call::read(kind, &mut fields)).expect("just written");
        assert_eq!((format!("{read:?}"), fields.end()), (format!("{call:?}"), Ok(())));
        kinds.push(call.kind());
    }
    kinds.dedup();
    assert_eq!(kinds, (1..=Call::LAST_KIND).collect::<Vec<_>>());
}

#[test]
fn every_cut_call_is_malformed() {
    for call in calls() {
        let mut out = Vec::new();
        call.put(&mut out);
        for len in 1..out.len() {
            assert!(Call::read(out[0], &mut Fields(&out[1..len])).is_err(), "{call:?} cut at {len}");
        }
    }
}

#[test]
fn impossible_addresses_are_malformed() {
    let mut out = Vec::new();
    put_address(Address::new([10, 0, 0, 1].into(), 20), &mut out);
    assert!(read_address(&mut Fields(&out)).is_err());
    out.clear();
    let local = vec![Address::new([10, 0, 0, 1].into(), 1500)];
    let remote = vec![[0xfd00, 0, 0, 0, 0, 0, 0, 1].into()];
    put_between(&RequestedEnds::Ends(Ends { local, local_port: 0, remote, remote_port: 1 }), &mut out);
    assert!(read_between(&mut Fields(&out)).is_err());
}
