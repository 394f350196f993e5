//! ConSN, confluent sequence numbers (Becke2014 §7.5). The paths send the data of the receive window from both ends of the
//! window towards each other. So the paths of each side reach, and reinject, data that the other side has lost or cannot
//! deliver.
//!
//! The data that may be outstanding is a *block*. Its left part, up to the *mark*, is for the leading path,
//! in ascending order. The right part is for the other paths, in descending order from the end of the block.
//! Paths that have sent their whole part continue with other data, even if their part has not been
//! acknowledged yet:
//!
//! - The leader sends data that acknowledgements have admitted beyond the block (reuse), as often as there is some. If there
//!   is none, it continues with the part for the others, and then reinjects their data in flight. When the leader's part has
//!   been acknowledged, a new block is built; but if all possible data has been reused by then, the rest of the block is sent
//!   first. It also precedes reused data after the descending paths have failed, which the publication does not consider:
//!   otherwise, the receiver would wait for it behind newer data.
//! - The others continue with the leader's part, from the mark downwards: first with unsent data, then with missing data.
//!
//! A new block begins at the left edge of the window. Its mark is the middle of the window, moved by the difference between
//! the acknowledged bytes of the leader and of the others since the last block. If the leader has fewer, and had no data to
//! reuse, the best of the others becomes the leader. Initially, the leader is the path with the smallest round-trip time.
//! In the worst case, the leader sends the whole window alone, so a window never takes longer than on that path alone.
//!
//! With more than two paths, either one path ascends and the others descend, or the path with the fewest acknowledged bytes
//! descends and the others ascend.
//!
//! The publication does not define what happens to data in flight when a new block replaces the old one. Here, such data is
//! reinjected only after the whole block has been sent once, and never on a path that has sent it, since a subflow
//! retransmits its data itself. Also, a path reinjects only data that is overdue, or that it would deliver sooner than the
//! other path according to their round-trip times. Otherwise, two paths over one link would carry all data twice.
//!
//! A descending path skips data that would arrive too late: it waits, or starts again at the end of the window if the
//! window has moved. In the second case the block is divided again. The roles and the acknowledged bytes of each path
//! are kept, because the time between two divisions is too short to compare the paths.

mod due;
mod search;
#[cfg(test)]
mod tests;

use self::due::Dues;
use self::search::{Found, Pass, Search, Stage};
use super::lowest_rtt::fastest;
use super::{Data, Decision, Entry, Offer, PathState, Piece, Scheduler, takes_part};
use crate::PathId;
use crate::buffer::RangeSet;
use anabranch_base::time::{Duration, Time};
use core::cmp::Reverse;

/// The entry of this scheduler in the table of schedulers.
pub(super) const ENTRY: Entry = Entry {
    name: "consn",
    summary: "confluent sequence numbers: the best path ascends through the window, the others descend towards it",
    source: "Becke2014 §7.5",
    wants_rates: false,
    places: true,
    wants_information: false,
    build: &|| Box::new(ConSn::new(Form::OneAscends)),
};

/// The entry of this scheduler in the table of schedulers.
pub(super) const ASCENDING_ENTRY: Entry = Entry {
    name: "consn-ascending",
    summary: "confluent sequence numbers: all paths but the weakest ascend through the window, and the weakest descends",
    build: &|| Box::new(ConSn::new(Form::OneDescends)),
    ..ENTRY
};

/// The form of the algorithm: the direction of the path that is alone in its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    OneAscends,
    OneDescends,
}

/// The part of the stream that the window covered when it was last divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    una: u64,
    /// Offset that divides the left part of the block from the right one.
    mark: u64,
    /// End of the block when it was built.
    end: u64,
    /// End of the window that was handled last. Data after `end` has been added to the block.
    reached: u64,
}

/// The data that a path was given, and its totals.
#[derive(Debug, Default)]
struct Share {
    /// Ranges of the window that the path was given. A range that begins below the left edge of the window is removed
    /// when all of it is below.
    had: RangeSet,
    /// Number of all bytes that the path was ever given.
    total: u64,
    /// Number of bytes that had been acknowledged when the block was built.
    before: u64,
    /// True if the path did not take part at the last check: it was unusable, or a backup that is not needed.
    away: bool,
    /// The situation and the block in which this path last had no data to send.
    idle: Option<(Situation, Block)>,
}

/// The values that determine whether there is data to send for a path.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Situation {
    now: Time,
    una: u64,
    end: u64,
    /// Number of pieces that have been placed.
    pieces: u64,
    /// See [`ConSn::pace`].
    pace: f64,
}

#[derive(Debug)]
struct ConSn {
    form: Form,
    block: Block,
    /// The path that is alone in its direction: ascending or descending, according to `form`.
    single: Option<PathId>,
    up: Pass,
    down: Pass,
    /// True if the block was divided again, with data that the window has admitted since the block was built.
    reused: bool,
    /// Ranges of the window that any path was given. A range that begins below the left edge of the window is removed
    /// when all of it is below.
    sent: RangeSet,
    /// The times at which acknowledgements of the data in flight are expected.
    dues: Dues,
    shares: Vec<Share>,
    pieces: u64,
    una: u64,
    /// Rate at which the ascending paths send together, bytes per second.
    pace: f64,
    /// See [`Scheduler::is_exhausted`].
    exhausted: bool,
    /// Number of paths at the last call.
    known: usize,
    /// True if the roles of the paths match the usable paths.
    settled: bool,
}

impl ConSn {
    fn new(form: Form) -> Self {
        Self {
            form,
            block: Block { una: 0, mark: 0, end: 0, reached: 0 },
            single: None,
            reused: false,
            up: Pass::ascending(Stage::Own, 0, 0),
            down: Pass::descending(Stage::Own, 0, 0),
            sent: RangeSet::new(),
            dues: Dues::default(),
            shares: Vec::new(),
            pieces: 0,
            una: 0,
            pace: 0.0,
            exhausted: false,
            known: 0,
            settled: false,
        }
    }

    fn ascends(&self, path: PathId) -> bool {
        (Some(path) == self.single) == (self.form == Form::OneAscends)
    }

    /// Returns the result of [`takes_part`] for a path at the last call of [`update_paths`](Self::update_paths).
    fn takes_part(&self, path: &PathState) -> bool {
        !self.shares[path.id.index()].away
    }

    /// Returns the number of bytes of a path that have been acknowledged since the block was built.
    fn gained(&self, path: &PathState) -> u64 {
        let share = &self.shares[path.id.index()];
        share.total.saturating_sub(path.queued).saturating_sub(share.before)
    }

    /// Removes data below the window. Resets the acknowledged bytes of paths that take part again.
    fn update_paths(&mut self, data: &Data<'_>, paths: &[PathState]) {
        if self.known != paths.len() {
            (self.known, self.settled) = (paths.len(), false);
            self.shares.resize_with(paths.len().max(self.shares.len()), Share::default);
        }
        if data.una > self.una {
            self.una = data.una;
            self.sent.forget_below(data.una);
            self.dues.forget_below(data.una);
            for share in &mut self.shares {
                share.had.forget_below(data.una);
            }
        }
        for path in paths {
            let share = &mut self.shares[path.id.index()];
            if path.queued == 0 {
                // All data of the path has been acknowledged, or a new subflow has replaced the path.
                share.had.clear();
            }
            let away = !takes_part(path, paths);
            if share.away && !away {
                share.before = share.total.saturating_sub(path.queued);
            }
            self.settled &= share.away == away;
            share.away = away;
        }
    }

    /// Builds a new block.
    fn build(&mut self, data: &Data<'_>, paths: &[PathState]) {
        self.choose_roles(paths);
        let (left, right) = self.gains(paths);
        for path in paths {
            self.shares[path.id.index()].before += self.gained(path);
        }
        self.reused = false;
        self.divide(data, (left, right));
    }

    /// True if the block covers the current window.
    fn is_current(&self, data: &Data<'_>) -> bool {
        (self.block.una, self.block.reached) == (data.una, data.end)
    }

    /// Divides the window at its middle, moved by the difference between the acknowledged bytes of the ascending and of
    /// the descending paths.
    fn divide(&mut self, data: &Data<'_>, (left, right): (u64, u64)) {
        let (una, end) = (data.una, data.end);
        let middle = una + (end - una) / 2;
        let mark = (middle + left).saturating_sub(right).clamp(una, end);
        self.block = Block { una, mark, end, reached: end };
        self.up = Pass::ascending(Stage::Own, una, mark);
        self.down = Pass::descending(Stage::Own, mark, end);
    }

    /// Returns the numbers of bytes of the ascending and of the descending paths that have been acknowledged since the
    /// block was built.
    fn gains(&self, paths: &[PathState]) -> (u64, u64) {
        let (mut left, mut right) = (0, 0);
        for path in paths {
            *(if self.ascends(path.id) { &mut left } else { &mut right }) += self.gained(path);
        }
        (left, right)
    }

    /// Selects the single path: the one with the most acknowledged bytes, or with [`Form::OneDescends`] the one with
    /// the fewest.
    fn choose_roles(&mut self, paths: &[PathState]) {
        let merit = |path: &&PathState| {
            (self.gained(path), Reverse(path.srtt.unwrap_or(Duration::MAX)), Reverse(path.id))
        };
        let part = || paths.iter().filter(|path| takes_part(path, paths));
        let reused = self.reused || self.block.reached > self.block.end;
        if reused && !self.is_outdated(paths) {
            return;
        }
        let best = match self.form {
            Form::OneAscends => part().max_by_key(merit),
            // The only usable path ascends.
            Form::OneDescends => part().min_by_key(merit).filter(|_| part().nth(1).is_some()),
        };
        // Between paths with equally many acknowledged bytes, the role stays where it is.
        let gained = |path: Option<&PathState>| path.map(|path| self.gained(path));
        let current = part().find(|path| Some(path.id) == self.single);
        if current.is_none() || gained(current) != gained(best) {
            self.single = best.map(|path| path.id);
        }
    }

    /// True if the roles must be assigned again: because the single path is no longer usable, because a second path has
    /// joined the only one, or because the only path descends.
    fn is_outdated(&self, paths: &[PathState]) -> bool {
        let mut part = paths.iter().filter(|path| takes_part(path, paths)).map(|path| path.id);
        match (self.single, self.form) {
            (Some(single), Form::OneAscends) => part.all(|id| id != single),
            (Some(single), Form::OneDescends) => {
                let (mut count, mut held) = (0, false);
                part.for_each(|id| (count, held) = (count + 1, held || id == single));
                count < 2 || !held
            }
            (None, Form::OneAscends) => true,
            (None, Form::OneDescends) => part.nth(1).is_some(),
        }
    }

    fn situation(&self, data: &Data<'_>) -> Situation {
        Situation { now: data.now, una: data.una, end: data.end, pieces: self.pieces, pace: self.pace }
    }

    /// True if a path had no data to send, and the situation has not changed since. For ascending paths, a change of
    /// the pace counts only if the window has been divided again.
    fn is_idle(&self, path: &PathState, situation: &Situation) -> bool {
        self.shares[path.id.index()].idle.as_ref().is_some_and(|(before, block)| {
            let pace =
                if self.ascends(path.id) && *block == self.block { before.pace } else { situation.pace };
            *before == Situation { pace, ..*situation }
        })
    }

    /// Returns the next piece for a path.
    fn piece_for(&mut self, path: &PathState, data: &Data<'_>, paths: &[PathState]) -> Option<Piece> {
        let mut divided = false;
        loop {
            let ascends = self.ascends(path.id);
            let Self { up, down, sent, dues, shares, pace, .. } = self;
            let search = Search { path, data, sent, had: &shares[path.id.index()].had, dues, pace: *pace };
            let found = if ascends { search.ascend(up) } else { search.descend(down) };
            match found {
                Found::Piece(start, end) => return Some(self.record_piece(path, (start, end), data.now)),
                Found::NoRoom => return None,
                // Data further down would arrive even later. But further up, the window may have admitted new data.
                Found::NotNow if !ascends => {
                    if divided || self.is_current(data) {
                        return None;
                    }
                    self.reused |= data.end > self.block.end;
                    self.divide(data, self.gains(paths));
                    divided = true;
                    continue;
                }
                // Ascending paths may continue with other data: with the others' part while the window does not admit a
                // whole packet, or with newly admitted data while no data is worth reinjecting.
                Found::NotNow | Found::Through => {}
            }
            let went_on =
                if ascends { self.go_on_ascending(data, paths) } else { self.go_on_descending(data) };
            if !went_on {
                if divided || self.is_current(data) {
                    return None;
                }
                self.build(data, paths);
                divided = true;
            }
        }
    }

    /// Computes [`pace`](Self::pace) from all ascending paths that are not in recovery.
    fn pace_of_ascent(&self, paths: &[PathState]) -> f64 {
        let up = |path: &&PathState| self.takes_part(path) && self.ascends(path.id) && !path.recovering;
        let rate = |path: &PathState| path.srtt.map(|srtt| path.cwnd as f64 / srtt.as_secs_f64().max(1e-6));
        paths.iter().filter(up).filter_map(rate).sum()
    }

    /// Records a piece that a path was given.
    fn record_piece(&mut self, path: &PathState, (start, end): (u64, u64), now: Time) -> Piece {
        let repeated = self.sent.insert(start, end) == 0;
        self.dues.set(path.id, (start, end), now + path.srtt.unwrap_or(Duration::ZERO));
        let share = &mut self.shares[path.id.index()];
        share.had.insert(start, end);
        share.total += end - start;
        self.pieces += 1;
        Piece { path: path.id, start, end, repeated }
    }

    /// True if a path has sent data and no longer takes part, and no path descends: nothing else sends the right part of
    /// the block.
    fn has_lost_descent(&self, paths: &[PathState]) -> bool {
        self.shares.iter().any(|share| share.away && share.total > 0)
            && !paths.iter().any(|path| self.takes_part(path) && !self.ascends(path.id))
    }

    /// Starts the next stage of the ascending paths after a pass; returns false if a new block must be built.
    fn go_on_ascending(&mut self, data: &Data<'_>, paths: &[PathState]) -> bool {
        let Block { una, mark, end, reached } = self.block;
        let acknowledged = data.una >= mark;
        self.up = match self.up.stage {
            Stage::Own | Stage::Reuse if !acknowledged && self.has_lost_descent(paths) => {
                Pass::ascending(Stage::Rest, mark, reached)
            }
            // Case B-2 of the publication: unsent data has precedence over the data that the other paths have in
            // flight.
            _ if data.end > reached && !acknowledged => {
                self.block.reached = data.end;
                Pass::ascending(Stage::Reuse, reached, data.end)
            }
            // Cases D, C and B-1 of the publication: the left part has been acknowledged, and the reused data is
            // shorter than it.
            Stage::Own | Stage::Reuse | Stage::Rest if acknowledged && reached - end < mark - una => {
                return false;
            }
            Stage::Own | Stage::Reuse if acknowledged => Pass::ascending(Stage::Rest, mark, end),
            Stage::Own | Stage::Reuse => Pass::ascending(Stage::Rest, mark, reached),
            Stage::Rest => Pass::ascending(Stage::Repeat, data.una, reached),
            Stage::Repeat => return false,
        };
        true
    }

    /// Starts the next stage of the descending paths after a pass; returns false if a new block must be built (case E).
    fn go_on_descending(&mut self, data: &Data<'_>) -> bool {
        let mark = self.block.mark;
        let stage = match self.down.stage {
            _ if data.una >= mark => return false,
            Stage::Own => Stage::Rest,
            Stage::Rest => Stage::Repeat,
            Stage::Repeat | Stage::Reuse => return false,
        };
        self.down = Pass::descending(stage, data.una, mark);
        true
    }
}

impl Scheduler for ConSn {
    fn name(&self) -> &'static str {
        match self.form {
            Form::OneAscends => ENTRY.name,
            Form::OneDescends => ASCENDING_ENTRY.name,
        }
    }

    fn select(&mut self, offer: &Offer, paths: &[PathState]) -> Decision {
        if offer.is_empty() { Decision::Wait } else { fastest(paths) }
    }

    fn place(&mut self, data: &Data<'_>, paths: &[PathState]) -> Option<Piece> {
        self.exhausted = false;
        if data.end <= data.una {
            return None;
        }
        self.update_paths(data, paths);
        if !self.settled {
            if self.is_outdated(paths) {
                self.build(data, paths);
            }
            self.settled = !self.is_outdated(paths);
        }
        debug_assert!(!self.settled || !self.is_outdated(paths), "roles do not match the usable paths");
        // If no data is in flight, no event will cause another call, so any path with room takes the available data
        // now.
        let quiet = paths.iter().all(|path| path.queued == 0);
        let single = self.single;
        for ascends in [true, false] {
            if !ascends {
                self.pace = if quiet { 0.0 } else { self.pace_of_ascent(paths) };
            }
            for path in paths.iter().filter(|path| path.queueable > 0) {
                if self.ascends(path.id) != ascends || !self.takes_part(path) {
                    continue;
                }
                let situation = self.situation(data);
                if !quiet && self.is_idle(path, &situation) {
                    continue;
                }
                let piece = self.piece_for(path, data, paths);
                if piece.is_some() {
                    return piece;
                }
                self.shares[path.id.index()].idle = Some((situation, self.block));
            }
        }
        // A path that comes later in the list may have divided the window again, or may have changed the roles.
        let situation = self.situation(data);
        let mut ascending = paths.iter().filter(|path| path.queueable > 0 && self.ascends(path.id));
        self.exhausted = !quiet
            && self.single == single
            && ascending.all(|path| !self.takes_part(path) || self.is_idle(path, &situation));
        None
    }

    fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    fn on_reinjection(&mut self, now: Time, path: &PathState, range: (u64, u64)) {
        if self.shares.len() <= path.id.index() {
            self.shares.resize_with(path.id.index() + 1, Share::default);
        }
        self.record_piece(path, range, now);
    }
}
