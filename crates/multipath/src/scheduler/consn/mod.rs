//! ConSN, confluent sequence numbers (Becke2014 §7.5): the paths send the receive window from both of its ends towards each
//! other, so that what one has lost or cannot bring is met, and brought, by the other.
//!
//! What may be outstanding is a *block*. Its left part, up to the *mark*, is for the leading path, in ascending order; the
//! rest is for the others, in descending order from its end. Who is through with its part (sent, acknowledged or not) gets more:
//!
//! - The leader takes what acknowledgements have opened beyond the block, again and again (reuse). Without any, it goes on
//!   through the others' part, and then repeats what they have under way. Once its part is acknowledged a new block is built; if
//!   by then all the reuse that was possible has been used, the rest of the block comes first.
//! - The others go on through the leader's part from the mark downwards, first what nobody has sent, then what is missing.
//!
//! A new block begins at the left edge of the window. Its mark is the middle, moved by what the leader has got acknowledged since
//! the last one more than the others; if it was less, and it could reuse nothing, the best of them leads. In the beginning
//! that is the path with the smallest round-trip time. In the worst case the leader sends all of it by itself: a window is never
//! worse than that path alone.
//!
//! With more than two paths one ascends and the others descend together, or one descends (the one that had least acknowledged)
//! and the others ascend together.
//!
//! The publication leaves open what becomes of data that is under way where a new block takes its place. Here nobody sends it
//! again before all of the block has been sent once, and no path ever gets what it already has: a subflow delivers that
//! itself. And a path repeats only what it brings sooner than the other would, by their round-trip times, or what is overdue:
//! two paths over one link would otherwise carry everything twice.
//!
//! Who descends does not send what would come too late: it waits, or begins again at the end of the window where that has opened
//! further. Then the block is divided anew, but the roles and what each has gained stay as they are: what comes between two such
//! moments is too little to judge the paths by.

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

/// The line of the table.
pub(super) const ENTRY: Entry = Entry {
    name: "consn",
    summary: "confluent sequence numbers: the best path ascends through the window, the others descend towards it",
    source: "Becke2014 §7.5",
    wants_rates: false,
    places: true,
    build: || Box::new(ConSn::new(Form::OneAscends)),
};

/// The line of the table.
pub(super) const ASCENDING_ENTRY: Entry = Entry {
    name: "consn-ascending",
    summary: "confluent sequence numbers: all paths but the weakest ascend through the window, and that descends",
    build: || Box::new(ConSn::new(Form::OneDescends)),
    ..ENTRY
};

/// Which paths ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    OneAscends,
    OneDescends,
}

/// The window when it was last divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    una: u64,
    /// Where the left part ends.
    mark: u64,
    /// Where it ended when it was built, and where it ends with all reuse.
    end: u64,
    reached: u64,
}

/// What a path has had.
#[derive(Debug, Default)]
struct Share {
    /// Of the window; what begins below its left edge is forgotten when all of it is below.
    had: RangeSet,
    /// Bytes in all.
    total: u64,
    /// Bytes acknowledged when the block was built.
    before: u64,
    /// It did not take part when it was last seen.
    away: bool,
    /// There was nothing for it when this was so, with the window divided like this.
    idle: Option<(Situation, Block)>,
}

/// What decides whether there is something for a path.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Situation {
    now: Time,
    una: u64,
    end: u64,
    /// How many have been sent.
    pieces: u64,
    /// See [`ConSn::pace`].
    pace: f64,
}

#[derive(Debug)]
struct ConSn {
    form: Form,
    block: Block,
    /// The path that goes its way alone.
    single: Option<PathId>,
    up: Pass,
    down: Pass,
    /// The block was divided anew with what had opened since it was built.
    reused: bool,
    /// What any path has had of the window; what begins below its left edge is forgotten when all of it is below.
    sent: RangeSet,
    /// When what is under way should be acknowledged.
    dues: Dues,
    shares: Vec<Share>,
    pieces: u64,
    una: u64,
    /// How many bytes those who ascend send in a second.
    pace: f64,
    /// See [`Scheduler::is_exhausted`].
    exhausted: bool,
    /// How many paths there were last, and whether the roles are right for those that take part.
    known: usize,
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

    /// As [`takes_part`] says, which has been asked already.
    fn takes_part(&self, path: &PathState) -> bool {
        !self.shares[path.id.index()].away
    }

    /// Bytes that a path has got acknowledged since the block was built.
    fn gained(&self, path: &PathState) -> u64 {
        let share = &self.shares[path.id.index()];
        share.total.saturating_sub(path.queued).saturating_sub(share.before)
    }

    /// Forgets what is no longer of the window, and what those had gained who were away.
    fn follow(&mut self, data: &Data<'_>, paths: &[PathState]) {
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
                // All that it had has arrived, or there is another path in its place.
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

    /// Divides the window anew.
    fn build(&mut self, data: &Data<'_>, paths: &[PathState]) {
        self.choose_roles(paths);
        let (left, right) = self.gains(paths);
        for path in paths {
            self.shares[path.id.index()].before += self.gained(path);
        }
        self.reused = false;
        self.divide(data, (left, right));
    }

    /// The block is the window as it is now.
    fn is_current(&self, data: &Data<'_>) -> bool {
        (self.block.una, self.block.reached) == (data.una, data.end)
    }

    /// The middle of the window, moved by what those who ascend have got acknowledged more than the others, is where they meet.
    fn divide(&mut self, data: &Data<'_>, (left, right): (u64, u64)) {
        let (una, end) = (data.una, data.end);
        let middle = una + (end - una) / 2;
        let mark = (middle + left).saturating_sub(right).clamp(una, end);
        self.block = Block { una, mark, end, reached: end };
        self.up = Pass::ascending(Stage::Own, una, mark);
        self.down = Pass::descending(Stage::Own, mark, end);
    }

    /// What those who ascend and those who descend have got acknowledged since the block was built.
    fn gains(&self, paths: &[PathState]) -> (u64, u64) {
        let (mut left, mut right) = (0, 0);
        for path in paths {
            *(if self.ascends(path.id) { &mut left } else { &mut right }) += self.gained(path);
        }
        (left, right)
    }

    /// Which path goes its way alone: the one that did best, or with [`Form::OneDescends`] worst.
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
            // A path that is alone ascends.
            Form::OneDescends => part().min_by_key(merit).filter(|_| part().nth(1).is_some()),
        };
        // Between equals everything stays as it is.
        let gained = |path: Option<&PathState>| path.map(|path| self.gained(path));
        let current = part().find(|path| Some(path.id) == self.single);
        if current.is_none() || gained(current) != gained(best) {
            self.single = best.map(|path| path.id);
        }
    }

    /// The path that goes its way alone does not take part (any longer), or another has come to the one that there was, or
    /// the one that descends is the only one.
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

    /// There was nothing for a path, and nothing has happened since. To those who ascend the pace is no news, unless the window has
    /// been divided anew.
    fn is_idle(&self, path: &PathState, situation: &Situation) -> bool {
        self.shares[path.id.index()].idle.as_ref().is_some_and(|(before, block)| {
            let pace =
                if self.ascends(path.id) && *block == self.block { before.pace } else { situation.pace };
            *before == Situation { pace, ..*situation }
        })
    }

    /// The piece that a path gets.
    fn piece_for(&mut self, path: &PathState, data: &Data<'_>, paths: &[PathState]) -> Option<Piece> {
        let mut divided = false;
        loop {
            let ascends = self.ascends(path.id);
            let Self { up, down, sent, dues, shares, pace, .. } = self;
            let search = Search { path, data, sent, had: &shares[path.id.index()].had, dues, pace: *pace };
            let found = if ascends { search.ascend(up) } else { search.descend(down) };
            match found {
                Found::Piece(start, end) => return Some(self.give(path, (start, end), data.now)),
                Found::NoRoom => return None,
                // Further down it would come later still, and further up there is what has opened since.
                Found::NotNow if !ascends => {
                    if divided || self.is_current(data) {
                        return None;
                    }
                    self.reused |= data.end > self.block.end;
                    self.divide(data, self.gains(paths));
                    divided = true;
                    continue;
                }
                // Those who ascend have what follows: the others' part while the window does not open for a packet, and what
                // opens while nothing is worth repeating.
                Found::NotNow | Found::Through => {}
            }
            let went_on = if ascends { self.go_on_ascending(data) } else { self.go_on_descending(data) };
            if !went_on {
                if divided || self.is_current(data) {
                    return None;
                }
                self.build(data, paths);
                divided = true;
            }
        }
    }

    /// See [`pace`](Self::pace). Who repairs a loss does not count.
    fn pace_of_ascent(&self, paths: &[PathState]) -> f64 {
        let up = |path: &&PathState| self.takes_part(path) && self.ascends(path.id) && !path.recovering;
        let rate = |path: &PathState| path.srtt.map(|srtt| path.cwnd as f64 / srtt.as_secs_f64().max(1e-6));
        paths.iter().filter(up).filter_map(rate).sum()
    }

    /// Remembers what a path gets.
    fn give(&mut self, path: &PathState, (start, end): (u64, u64), now: Time) -> Piece {
        let repeated = self.sent.insert(start, end) == 0;
        self.dues.set(path.id, (start, end), now + path.srtt.unwrap_or(Duration::ZERO));
        let share = &mut self.shares[path.id.index()];
        share.had.insert(start, end);
        share.total += end - start;
        self.pieces += 1;
        Piece { path: path.id, start, end, repeated }
    }

    /// Those who ascend are through: what they do then, or false for a new block.
    fn go_on_ascending(&mut self, data: &Data<'_>) -> bool {
        let Block { una, mark, end, reached } = self.block;
        let acknowledged = data.una >= mark;
        self.up = match self.up.stage {
            // Case B-2 of the publication: what nobody has sent comes before what others have under way.
            _ if data.end > reached && !acknowledged => {
                self.block.reached = data.end;
                Pass::ascending(Stage::Reuse, reached, data.end)
            }
            // Cases D, C and B-1.
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

    /// Those who descend are through: what they do then, or false for a new block (case E).
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
        self.follow(data, paths);
        if !self.settled {
            if self.is_outdated(paths) {
                self.build(data, paths);
            }
            self.settled = !self.is_outdated(paths);
        }
        debug_assert!(!self.settled || !self.is_outdated(paths), "roles for other paths");
        // With nothing on its way nobody would ask again: whoever has room takes what there is.
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
        // Who came later may have divided the window anew, or changed the roles.
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
        self.give(path, range, now);
    }
}
