use super::*;
use crate::buffer::RangeSet;
use proptest::prelude::*;
use std::collections::VecDeque;

const MSS: u64 = 1000;

/// Creates a path with more room than the tests need.
fn path(id: u8, cwnd: u64, rtt_ms: u64) -> PathState {
    let state = PathState::new(PathId(id), cwnd, Duration::from_millis(rtt_ms));
    PathState { queueable: 100_000, queued: 1, mss: MSS as u32, ..state }
}

/// Returns the path with a full window.
const fn full(path: PathState) -> PathState {
    PathState { queueable: 0, ..path }
}

/// A scheduler, and its input for a window in which no data has arrived out of order.
struct Window {
    consn: ConSn,
    arrived: RangeSet,
}

impl Window {
    fn new(form: Form) -> Self {
        Self { consn: ConSn::new(form), arrived: RangeSet::new() }
    }

    /// Places pieces at one time until no path gets another. Returns the path and the start of each piece.
    fn all(&mut self, at_ms: u64, (una, end): (u64, u64), paths: &[PathState]) -> Vec<(u8, u64)> {
        let now = Time::ZERO + Duration::from_millis(at_ms);
        let data = Data { now, una, end, more: true, arrived: &self.arrived };
        let consn = &mut self.consn;
        let pieces =
            core::iter::from_fn(|| consn.place(&data, paths)).map(|piece| (piece.path.0, piece.start));
        let pieces = pieces.collect();
        assert!(
            !consn.is_exhausted() || consn.place(&data, paths).is_none(),
            "is_exhausted() although there is a piece"
        );
        pieces
    }
}

#[test]
fn two_paths_send_towards_each_other() {
    // The first path sends 250 kB/s. The second path delivers after 40 ms; in this time the first path sends 10 kB.
    let (fast, slow) = (path(0, 5000, 20), path(1, 5000, 40));
    let mut window = Window::new(Form::OneAscends);
    let given = window.all(0, (0, 10_000), &[full(fast), slow]);
    // A piece that ends at e arrives in time if e plus the window, minus the sent bytes, is at least 10 kB. So the slow
    // path sends pieces down to 4 kB.
    assert_eq!(given, (4..10).rev().map(|n| (1, n * MSS)).collect::<Vec<_>>());
    let given = window.all(0, (0, 10_000), &[fast, full(slow)]);
    // Data in flight on the slower path arrives after 40 ms, but a copy on the fast path arrives after 20 ms. So this
    // data is reinjected last, in ascending order.
    assert_eq!(given, (0..10).map(|n| (0, n * MSS)).collect::<Vec<_>>());
}

#[test]
fn data_is_reinjected_if_faster_or_overdue() {
    let (fast, slow) = (path(0, 5000, 20), path(1, 5000, 40));
    let mut window = Window::new(Form::OneAscends);
    window.all(0, (0, 10_000), &[full(fast), slow]);
    // A copy that is sent at 25 ms would arrive at 45 ms, later than the original, which arrives at 40 ms.
    assert_eq!(window.all(25, (0, 10_000), &[fast, full(slow)]), [0, 1, 2, 3].map(|n| (0, n * MSS)));
    assert_eq!(window.all(60, (0, 10_000), &[fast, full(slow)]), []);
    // The original is now overdue by a round trip, so it is reinjected.
    window.arrived.insert(9000, 10_000);
    let given = window.all(61, (1000, 11_000), &[fast, full(slow)]);
    assert_eq!(given, [4, 5, 6, 7, 8, 10].map(|n| (0, n * MSS)));
}

#[test]
fn leader_reuses_window_until_part_is_acknowledged() {
    let (fast, slow) = (path(0, 5000, 20), full(path(1, 5000, 400)));
    let mut window = Window::new(Form::OneAscends);
    let leader = PathState { queueable: 5000, ..fast };
    let mut given = Vec::new();
    for _ in 0..5 {
        let data = Data { now: Time::ZERO, una: 0, end: 10_000, more: true, arrived: &RangeSet::new() };
        given.extend(window.consn.place(&data, &[leader, slow]).map(|piece| piece.start));
    }
    assert_eq!(given, [0, 1000, 2000, 3000, 4000]);
    // Case B-2: two packets have been acknowledged, so two more fit beyond the block. Then the leader continues with
    // the part for the others.
    let given = window.all(20, (2000, 12_000), &[fast, slow]);
    assert_eq!(given, [10, 11, 5, 6, 7, 8, 9].map(|n| (0, n * MSS)));
    // Case D: the whole part of the leader has been acknowledged, and less data was reused than could be, so a new
    // block is built.
    assert_eq!(window.all(40, (5000, 15_000), &[fast, slow]), [12, 13, 14].map(|n| (0, n * MSS)));
    assert_eq!((window.consn.block.una, window.consn.block.end), (5000, 15_000));
}

#[test]
fn rest_precedes_reuse_after_descending_path_failed() {
    let (fast, slow) = (path(0, 5000, 20), path(1, 5000, 400));
    let failed = PathState { usable: false, ..slow };
    let placed = |second: PathState, queueable: u64| {
        let mut window = Window::new(Form::OneAscends);
        let data = Data { now: Time::ZERO, una: 0, end: 10_000, more: true, arrived: &RangeSet::new() };
        // The descending path has sent data, none of this block.
        window.consn.update_paths(&data, &[fast, slow]);
        (window.consn.shares[1].total, window.consn.shares[1].before) = (1000, 1000);
        let leader = PathState { queueable, ..fast };
        for offset in 0..5 {
            let piece = window.consn.place(&data, &[leader, full(second)]).expect("a piece of the left part");
            assert_eq!(piece.start, offset * MSS);
        }
        window.all(20, (2000, 12_000), &[fast, full(second)])
    };
    assert_eq!(placed(slow, 5000), [10, 11, 5, 6, 7, 8, 9].map(|n| (0, n * MSS)));
    assert_eq!(placed(failed, 5000), [5, 6, 7, 8, 9, 10, 11].map(|n| (0, n * MSS)));
}

#[test]
fn better_path_leads_unless_leader_could_reuse() {
    let lead = |first: u64, second: u64, reuse: bool| {
        let mut window = Window::new(Form::OneAscends);
        let paths = [path(0, 5000, 20), path(1, 5000, 20)];
        window.all(0, (0, 10_000), &[PathState { queueable: 0, ..paths[0] }, paths[1]]);
        window.all(0, (0, 10_000), &[paths[0], full(paths[1])]);
        let consn = &mut window.consn;
        assert_eq!(consn.single, Some(PathId(0)), "the first of equal paths");
        consn.block.reached += u64::from(reuse);
        let total = [consn.shares[0].total, consn.shares[1].total];
        let gained = [
            PathState { queued: total[0] - first, ..paths[0] },
            PathState { queued: total[1] - second, ..paths[1] },
        ];
        let data = Data { now: Time::ZERO, una: 4000, end: 14_000, more: true, arrived: &RangeSet::new() };
        consn.build(&data, &gained);
        (consn.single, consn.block.mark)
    };
    // The mark is the middle of the window, 9000, moved by the difference of the acknowledged bytes. A difference of 10
    // kB would move it out of the block.
    assert_eq!(lead(0, 0, false), (Some(PathId(0)), 9000));
    assert_eq!(lead(0, 2000, true), (Some(PathId(0)), 7000));
    assert_eq!(lead(0, 2000, false), (Some(PathId(1)), 11_000));
}

#[test]
fn one_of_several_paths_sends_in_another_direction() {
    let paths = [path(0, 5000, 30), path(1, 5000, 20), path(2, 5000, 40)];
    let first = |form: Form, open: usize| {
        let mut window = Window::new(form);
        let mut state = paths.map(full);
        state[open] = paths[open];
        window.all(0, (0, 10_000), &state)[0]
    };
    assert_eq!([0, 1, 2].map(|open| first(Form::OneAscends, open)), [(0, 9000), (1, 0), (2, 9000)]);
    assert_eq!([0, 1, 2].map(|open| first(Form::OneDescends, open)), [(0, 0), (1, 0), (2, 9000)]);
    // The only usable path ascends in either form, and the leader must be usable.
    for form in [Form::OneAscends, Form::OneDescends] {
        assert_eq!(Window::new(form).all(0, (0, 2000), &paths[..1]), [(0, 0), (0, 1000)]);
    }
    let mut window = Window::new(Form::OneAscends);
    window.all(0, (0, 10_000), &paths.map(full));
    let failed = [PathState { usable: false, ..paths[1] }, full(paths[2]), paths[0]];
    assert_eq!(window.all(0, (0, 10_000), &failed)[0], (0, 0));
}

#[test]
fn partial_packet_at_window_end_waits() {
    let mut window = Window::new(Form::OneAscends);
    assert_eq!(window.all(0, (0, 1500), &[path(0, 5000, 20)]), [(0, 0)]);
    let data = Data { now: Time::ZERO, una: 0, end: 1500, more: false, arrived: &RangeSet::new() };
    let mut consn = ConSn::new(Form::OneAscends);
    let pieces = core::iter::from_fn(|| consn.place(&data, &[path(0, 5000, 20)]));
    assert_eq!(pieces.map(|piece| (piece.start, piece.end)).collect::<Vec<_>>(), [(0, 1000), (1000, 1500)]);
}

#[test]
fn reinjected_data_is_recorded() {
    let (fast, slow) = (path(0, 5000, 20), path(1, 5000, 40));
    let mut window = Window::new(Form::OneAscends);
    window.all(0, (0, 10_000), &[full(fast), slow]);
    assert_eq!(window.all(25, (0, 10_000), &[fast, full(slow)]), [0, 1, 2, 3].map(|n| (0, n * MSS)));
    window.consn.on_reinjection(Time::ZERO + Duration::from_millis(25), &fast, (4000, 5000));
    // The slow path has sent the first part itself, so when that is overdue only the data after it is reinjected on
    // this path. The acknowledged bytes of the path are kept.
    assert_eq!(window.all(61, (0, 10_000), &[fast, full(slow)]), [5, 6, 7, 8, 9].map(|n| (0, n * MSS)));
    assert_eq!(window.consn.gained(&PathState { queued: 9000, ..fast }), 1000);
}

#[test]
fn recovered_path_starts_with_an_amount_of_zero() {
    let (fast, slow) = (path(0, 5000, 20), path(1, 5000, 40));
    let mut window = Window::new(Form::OneAscends);
    window.all(0, (0, 10_000), &[full(fast), slow]);
    window.all(0, (0, 10_000), &[fast, full(slow)]);
    window.all(10, (0, 10_000), &[full(fast), PathState { usable: false, ..slow }]);
    // Of the 10 kB of the fast path, 2 kB have been acknowledged. A new subflow has replaced a path of which 6 kB had
    // been acknowledged.
    let (fast, slow) = (PathState { queued: 8000, ..fast }, PathState { queued: 0, ..slow });
    window.all(20, (10_000, 20_000), &[fast, full(slow)]);
    assert_eq!((window.consn.block.una, window.consn.single), (10_000, Some(PathId(0))));
}

#[test]
fn last_usable_path_ascends() {
    let paths = [path(0, 5000, 20), path(1, 5000, 40)];
    for form in [Form::OneAscends, Form::OneDescends] {
        let mut window = Window::new(form);
        window.all(0, (0, 10_000), &paths.map(full));
        // Path 0 has failed, so path 1 leads. It does not matter whether a leader could reuse the window.
        window.consn.block.reached += 1;
        let given = window.all(0, (0, 10_000), &[PathState { usable: false, ..paths[0] }, paths[1]]);
        assert_eq!(given[0], (1, 0), "{form:?}");
    }
}

#[test]
fn time_or_pace_change_reactivates_idle_path() {
    let (fast, slow) = (path(0, 5000, 20), path(1, 5000, 40));
    let mut window = Window::new(Form::OneAscends);
    window.all(0, (0, 10_000), &[full(fast), slow]);
    window.all(25, (0, 10_000), &[fast, full(slow)]);
    assert_eq!(window.all(60, (0, 10_000), &[fast, full(slow)]), []);
    assert!(window.consn.is_exhausted());
    assert_eq!(window.all(61, (0, 10_000), &[fast, full(slow)]), [4, 5, 6, 7, 8, 9].map(|n| (0, n * MSS)));
    // If the leader's window is halved, the ascending paths can continue for twice as long.
    let mut window = Window::new(Form::OneAscends);
    assert_eq!(window.all(0, (0, 10_000), &[full(fast), slow]).len(), 6);
    let fast = path(0, 2500, 20);
    assert_eq!(window.all(0, (0, 10_000), &[full(fast), slow]), [(1, 3000), (1, 2000)]);
}

#[test]
fn late_descending_path_restarts_at_window_end() {
    // The ascending path sends 500 kB/s for 40 ms, so a piece arrives in time if the window leaves 20 kB. That is the
    // case at the end of the window.
    let (fast, slow) = (path(0, 10_000, 20), path(1, 5000, 40));
    let mut window = Window::new(Form::OneAscends);
    assert_eq!(window.all(0, (0, 10_000), &[full(fast), slow]), [(1, 9000)]);
    assert_eq!(window.all(10, (1000, 11_000), &[full(fast), slow]), []);
    let (consn, gained) = (&window.consn, [window.consn.gained(&fast), window.consn.gained(&slow)]);
    assert_eq!((consn.single, gained), (Some(PathId(0)), [0, 999]), "roles and acknowledged bytes are kept");
    assert_eq!(window.all(20, (1000, 11_000), &[full(path(0, 5000, 20)), slow])[0], (1, 10_000));
}

#[test]
fn next_path_can_reinject_data_of_another() {
    let paths = [path(0, 5000, 30), path(1, 5000, 20), full(path(2, 5000, 400))];
    let mut window = Window::new(Form::OneDescends);
    let given = window.all(0, (0, 4000), &[paths[0], full(paths[1]), paths[2]]);
    assert_eq!(given, [0, 1, 2, 3].map(|n| (0, n * MSS)));
    assert_eq!(window.all(100, (0, 4000), &paths), [0, 1, 2, 3].map(|n| (1, n * MSS)));
}

#[test]
fn newly_admitted_data_precedes_reinjections() {
    let (fast, slow) = (path(0, 5000, 20), path(1, 5000, 400));
    let mut consn = ConSn::new(Form::OneAscends);
    let nothing = RangeSet::new();
    let mut start = |una, end, paths: [PathState; 2]| {
        let data = Data { now: Time::ZERO, una, end, more: true, arrived: &nothing };
        consn.place(&data, &paths).map(|piece| piece.start)
    };
    // A part of the data in flight on the slow path is at once worth reinjecting on the fast path. The pace is not
    // known at first.
    for n in (7..10).rev() {
        assert_eq!(start(0, 10_000, [PathState { cwnd: 0, ..full(fast) }, slow]), Some(n * MSS));
    }
    for n in 0..6 {
        assert_eq!(start(0, 10_000, [fast, full(slow)]), Some(n * MSS));
    }
    for n in [6, 10, 11, 7] {
        assert_eq!(start(2000, 12_000, [fast, full(slow)]), Some(n * MSS));
    }
}

#[test]
fn piece_is_not_cut_to_remaining_window() {
    let little = PathState { queueable: 300, outstanding: 4000, ..path(0, 5000, 20) };
    let piece = |end, path| {
        let data = Data { now: Time::ZERO, una: 0, end, more: false, arrived: &RangeSet::new() };
        ConSn::new(Form::OneAscends).place(&data, &[path]).map(|piece| (piece.start, piece.end))
    };
    assert_eq!(piece(10_000, little), None);
    // A short piece is sent if it is the last one, or if no data is in flight, because more room will not become
    // available.
    assert_eq!(piece(300, little), Some((0, 300)));
    assert_eq!(piece(10_000, PathState { outstanding: 0, ..little }), Some((0, 300)));
}

#[test]
fn shorter_piece_does_not_hide_the_rest_in_flight() {
    let (slow, slower) = (path(0, 5000, 40), path(1, 5000, 100));
    for part in [(0, 500), (200, 300)] {
        let mut consn = ConSn::new(Form::OneAscends);
        consn.on_reinjection(Time::ZERO, &slow, (0, 1000));
        consn.on_reinjection(Time::ZERO, &slow, part);
        let data = Data { now: Time::ZERO, una: 0, end: 1000, more: false, arrived: &RangeSet::new() };
        let ConSn { sent, dues, .. } = &consn;
        let search = Search { path: &slower, data: &data, sent, had: &RangeSet::new(), dues, pace: 0.0 };
        assert!(!search.is_worth_reinjecting(600), "{part:?}");
    }
}

/// A step of the model: a path sends up to this number of pieces, or its oldest piece is acknowledged.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize, usize),
    Acknowledge(usize),
}

/// A connection that carries `total` bytes with a receive window of `window` bytes, and checks each piece.
struct Model {
    consn: ConSn,
    window: u64,
    total: u64,
    una: u64,
    arrived: RangeSet,
    under_way: Vec<VecDeque<(u64, u64)>>,
    rtts: Vec<u64>,
    now: Time,
}

impl Model {
    fn paths(&self, open: Option<usize>) -> Vec<PathState> {
        let state = |(index, flight): (usize, &VecDeque<(u64, u64)>)| {
            let queued = flight.iter().map(|(start, end)| end - start).sum();
            let queueable = if open.is_none_or(|open| open == index) { 100_000 } else { 0 };
            PathState { outstanding: queued, queued, queueable, ..path(index as u8, 5000, self.rtts[index]) }
        };
        self.under_way.iter().enumerate().map(state).collect()
    }

    /// Places a piece on any path with room; if `open` is a path, only that one has room.
    fn send(&mut self, open: Option<usize>) -> Result<bool, TestCaseError> {
        let paths = self.paths(open);
        let end = (self.una + self.window).min(self.total);
        let more = end < self.total && paths.iter().any(|path| path.queued > 0);
        let data = Data { now: self.now, una: self.una, end, more, arrived: &self.arrived };
        let Some(piece) = self.consn.place(&data, &paths) else {
            let again = self.consn.is_exhausted().then(|| self.consn.place(&data, &paths)).flatten();
            prop_assert_eq!(again, None, "is_exhausted() although there is a piece");
            return Ok(false);
        };
        prop_assert!(
            self.una <= piece.start && piece.start < piece.end && piece.end <= end,
            "beyond the window"
        );
        prop_assert!(piece.end - piece.start <= MSS, "more than a packet");
        let flight = &mut self.under_way[piece.path.index()];
        let apart = |&(start, end): &(u64, u64)| end <= piece.start || piece.end <= start;
        prop_assert!(flight.iter().all(apart), "a path never sends data twice");
        flight.push_back((piece.start, piece.end));
        Ok(true)
    }

    fn acknowledge(&mut self, index: usize) {
        if let Some((start, end)) = self.under_way[index].pop_front() {
            self.arrived.insert(start.max(self.una), end.max(self.una));
            if let Some((_, reached)) = self.arrived.range_at(self.una) {
                self.arrived.remove(self.una, reached);
                self.una = reached;
            }
        }
    }
}

fn steps(paths: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..paths, 1_usize..20).prop_map(|(path, most)| Step::Send(path, most)),
        (0..paths).prop_map(Step::Acknowledge),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// No data is sent beyond the window or twice on the same path, and all data arrives, for any behaviour of the
    /// paths.
    #[test]
    fn all_data_is_sent_within_the_window(
        (rtts, steps) in (1_usize..5).prop_flat_map(|n| (proptest::collection::vec(1_u64..400, n), steps(n))),
        (window, total) in (1_u64..30_000, 1_u64..200_000),
        ascending in any::<bool>(),
    ) {
        let form = if ascending { Form::OneDescends } else { Form::OneAscends };
        let under_way = vec![VecDeque::new(); rtts.len()];
        let mut model = Model {
            consn: ConSn::new(form), window, total, una: 0, arrived: RangeSet::new(), under_way, rtts, now: Time::ZERO,
        };
        for step in steps {
            model.now += Duration::from_millis(3);
            match step {
                Step::Send(path, most) => {
                    for _ in 0..most {
                        model.send(Some(path))?;
                    }
                }
                Step::Acknowledge(path) => model.acknowledge(path),
            }
        }
        // From here on, all paths have room, and sent data arrives, first that of one path, then that of the next.
        let mut rounds = 0;
        while model.una < model.total {
            while model.send(None)? {}
            for index in 0..model.under_way.len() {
                model.acknowledge(index);
            }
            model.now += Duration::from_millis(3);
            rounds += 1;
            prop_assert!(rounds < 500_000, "stalled at {} of {}", model.una, model.total);
        }
    }
}
