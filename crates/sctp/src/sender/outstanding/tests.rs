//! Scoreboard under random commands: its totals equal the sums over its chunks, and every state change is allowed.

use super::*;
use crate::path::state::Setup;
use anabranch_base::time::Duration;
use anabranch_multipath::PathId;
use anabranch_multipath::rtt::RtoBounds;
use core::net::{Ipv4Addr, SocketAddr};
use proptest::prelude::*;

const PATHS: usize = 3;

/// One command for the scoreboard; `at` selects a chunk, which may be missing.
#[derive(Clone, Debug)]
enum Command {
    Push { len: u32, path: usize },
    Transmit { at: u64, path: usize },
    Lose { at: u64 },
    Acknowledge { at: u64, kept: bool },
    Free { at: u64 },
    Renege { at: u64 },
    Restore { at: u64 },
    Abandon { at: u64 },
    Pop,
}

fn command() -> impl Strategy<Value = Command> {
    let (at, path) = (|| 0_u64..24, || 0..PATHS);
    prop_oneof![
        (1_u32..2000, path()).prop_map(|(len, path)| Command::Push { len, path }),
        (at(), path()).prop_map(|(at, path)| Command::Transmit { at, path }),
        at().prop_map(|at| Command::Lose { at }),
        (at(), any::<bool>()).prop_map(|(at, kept)| Command::Acknowledge { at, kept }),
        at().prop_map(|at| Command::Free { at }),
        at().prop_map(|at| Command::Renege { at }),
        at().prop_map(|at| Command::Restore { at }),
        at().prop_map(|at| Command::Abandon { at }),
        Just(Command::Pop),
    ]
}

fn chunk(len: u32, path: usize) -> Chunk {
    Chunk {
        offset: 0,
        sent_at: Time::ZERO,
        sent_as: 0,
        len,
        message: 0,
        serial: 0,
        ppid_or_fsn: 0,
        recovery: 0,
        stream: 0,
        flags: DataFlags::WHOLE,
        path: path as u8,
        transmissions: 1,
        state: ChunkState::InFlight,
        moved: false,
        fast: false,
    }
}

fn paths() -> Vec<Path> {
    let end = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1);
    let (initial, min, max) = (Duration::from_secs(1), Duration::from_secs(1), Duration::from_secs(60));
    let rto = RtoBounds { initial, min, max };
    let setup = Setup {
        local: end,
        remote: end,
        mtu: 1500,
        i_data: false,
        auth_len: 0,
        udp: None,
        rto,
        missing_reports: 3,
    };
    (0..PATHS).map(|id| Path::new(PathId(id as u8), &setup)).collect()
}

#[test]
fn chunk_states_change_in_allowed_order() {
    let (mut sent, mut paths) = (Outstanding::new(10), paths());
    sent.push(chunk(100, 0), &mut paths);
    assert_eq!((sent.totals().buffered(), sent.totals().in_flight()), (100, 100));
    assert!(
        sent.transmit(&mut paths, 10, 2, (1, Time::ZERO)).is_none(),
        "a chunk in flight is not retransmitted"
    );
    assert!(sent.lose(&mut paths, 10, RetransmissionReason::Fast).is_some());
    assert_eq!((paths[0].totals.lost_chunks(), sent.totals().lost_chunks()), (1, 1));
    assert!(sent.transmit(&mut paths, 10, 2, (1, Time::ZERO)).is_some());
    assert_eq!((paths[0].totals, paths[1].totals.in_flight()), (ChunkTotals::default(), 100));
    assert!(sent.free(&mut paths, 10).is_none(), "an unacknowledged chunk is not freed");
    assert!(sent.acknowledge(&mut paths, 10, false).is_some());
    assert_eq!((sent.totals().in_flight(), sent.totals().gap_acknowledged()), (0, 100));
    assert!(sent.free(&mut paths, 10).is_some());
    assert_eq!(
        (sent.totals().buffered(), sent.totals().gap_acknowledged(), sent.totals().behind_gap()),
        (0, 0, 100)
    );
    assert!(sent.renege(&mut paths, 10, 3).is_none(), "a freed chunk cannot be reneged on");
    assert!(sent.pop(&mut paths).is_some());
    assert_eq!((*sent.totals(), paths[1].totals), (ChunkTotals::default(), ChunkTotals::default()));
}

#[test]
fn abandoned_chunks_need_no_room_in_a_packet() {
    let (mut sent, mut paths) = (Outstanding::new(10), paths());
    for len in [1_400, 300] {
        sent.push(chunk(len, 0), &mut paths);
    }
    assert_eq!(sent.longest_open(), 1_400);
    assert!(sent.abandon(&mut paths, 10).is_some());
    assert!(sent.abandon(&mut paths, 10).is_none(), "a chunk is abandoned once");
    assert_eq!((sent.longest_open(), sent.totals().abandoned()), (300, 1));
    assert!(sent.pop(&mut paths).is_some());
    assert_eq!(sent.totals().abandoned(), 0);
}

proptest! {
    #[test]
    fn totals_equal_sums_over_chunks(commands in prop::collection::vec(command(), 0..200)) {
        let (mut sent, mut paths) = (Outstanding::new(1 << 32), paths());
        for (number, command) in commands.into_iter().enumerate() {
            let (base, now) = (sent.base(), Time::ZERO);
            match command {
                Command::Push { len, path } => sent.push(chunk(len, path), &mut paths),
                Command::Transmit { at, path } => {
                    sent.transmit(&mut paths, base + at, number as u64, (path, now));
                }
                Command::Lose { at } => drop(sent.lose(&mut paths, base + at, RetransmissionReason::Timeout)),
                Command::Acknowledge { at, kept } => drop(sent.acknowledge(&mut paths, base + at, kept)),
                Command::Free { at } => drop(sent.free(&mut paths, base + at)),
                Command::Renege { at } => drop(sent.renege(&mut paths, base + at, number as u64)),
                Command::Restore { at } => drop(sent.restore(&mut paths, base + at)),
                Command::Abandon { at } => drop(sent.abandon(&mut paths, base + at)),
                Command::Pop => drop(sent.pop(&mut paths)),
            }
            prop_assert_eq!(sent.recount(&paths), Ok(()));
        }
        while sent.pop(&mut paths).is_some() {}
        prop_assert_eq!(*sent.totals(), ChunkTotals::default());
        prop_assert!(paths.iter().all(|path| path.totals == ChunkTotals::default()));
    }
}
