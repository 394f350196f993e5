//! Additional delays of frames: jitter and reordering.

use crate::{LinkModel, Reorder};
use anabranch_base::rng::Rng;
use anabranch_base::time::{Duration, Time};
use std::collections::VecDeque;

/// Random additional delays of a link.
///
/// **Jitter.** Each frame draws a time of arrival, uniform over the jitter. Frames keep their order: the
/// drawn times are sorted, and the first frame gets the earliest time. So each frame's delay is at least the link's delay
/// and at most the sum of delay and jitter. The mean delay is the mean of the draws, for any distance between frames. (If
/// each frame waited for the previous one instead, the mean delay would approach the maximum.)
///
/// **Reordering.** Some frames are held back for a fixed time, and later frames overtake them. Held-back
/// frames are not part of the sorting.
#[derive(Clone, Debug)]
pub struct Impairments {
    jitter: Duration,
    jitter_rng: Rng,
    reorder: Option<Reorder>,
    reorder_rng: Rng,
    /// True after a change of the reordering: frames that were held back before may be in flight, although none are
    /// held back now.
    is_reorder_changed: bool,
    /// With jitter: arrival times of the frames that were held back, in order. No other frame arrives at these
    /// times.
    held: VecDeque<Time>,
}

impl Impairments {
    /// The impairments of the model, if it has any.
    pub fn new(model: &LinkModel, rng: &Rng) -> Option<Self> {
        let reorder = model.reorder.filter(|reorder| reorder.rate > 0.0);
        (model.jitter > Duration::ZERO || reorder.is_some())
            .then(|| Self { reorder, ..Self::of_jitter(model.jitter, rng) })
    }

    /// The impairments of a link that has jitter and no other impairment.
    pub(super) fn of_jitter(jitter: Duration, rng: &Rng) -> Self {
        Self {
            jitter,
            jitter_rng: rng.fork("jitter"),
            reorder: None,
            reorder_rng: rng.fork("reorder"),
            is_reorder_changed: false,
            held: VecDeque::new(),
        }
    }

    /// Returns true if frames are delayed. A jitter of zero delays none.
    pub const fn is_active(&self) -> bool {
        self.jitter.as_nanos() > 0 || self.reorder.is_some() || self.is_reorder_changed
    }

    /// Sets the reordering of the frames that leave from now on. Frames that are held back keep their times of arrival.
    pub(super) fn set_reorder(&mut self, reorder: Option<Reorder>) {
        self.reorder = reorder.filter(|reorder| reorder.rate > 0.0);
        self.is_reorder_changed = true;
    }

    /// Sets the jitter, for the frames that leave from now on. `last_arrival` is the latest time of arrival of the
    /// frames that keep the order, jitter excluded; returns this time for the next frame.
    ///
    /// Without jitter, a frame does not overtake frames that were delayed before. With it, only frames that were held
    /// back arrive later than `last_arrival`, and they must not take part in the sorting.
    pub(super) fn set_jitter<F>(
        &mut self,
        jitter: Duration,
        last_arrival: Time,
        flight: &VecDeque<(Time, F)>,
    ) -> Time {
        let had_jitter = self.jitter > Duration::ZERO;
        self.jitter = jitter;
        let later = flight.iter().map(|&(arrival, _)| arrival).filter(|&arrival| arrival > last_arrival);
        match (had_jitter, jitter > Duration::ZERO) {
            (true, false) => {
                let last = later.filter(|&arrival| !self.is_held(arrival)).max();
                self.held.clear();
                last.unwrap_or(last_arrival)
            }
            (false, true) => {
                self.held = later.collect();
                last_arrival
            }
            _ => last_arrival,
        }
    }

    /// Removes held-back frames that have arrived.
    pub(super) fn forget_before(&mut self, now: Time) {
        while self.held.front().is_some_and(|&held| held < now) {
            self.held.pop_front();
        }
    }

    /// Arrival time of the next frame if it is held back; `arrival` is its regular arrival time. `None` for a frame
    /// that is not held back.
    pub(super) fn hold<F>(&mut self, arrival: Time, flight: &VecDeque<(Time, F)>) -> Option<Time> {
        let reorder = self.reorder?;
        if !self.reorder_rng.chance(reorder.rate) {
            return None;
        }
        let mut held = arrival + reorder.delay;
        if self.jitter == Duration::ZERO {
            return Some(held);
        }
        while flight.binary_search_by_key(&held, |&(other, _)| other).is_ok() {
            held = held.just_after();
        }
        let place = self.held.partition_point(|&other| other < held);
        self.held.insert(place, held);
        Some(held)
    }

    /// Puts a frame behind all frames that are not held back. Adds an arrival time, `earliest` or later, to
    /// the sorted times of these frames. Returns the frame's position among the frames in flight.
    pub(super) fn send<F>(&mut self, earliest: Time, frame: F, flight: &mut VecDeque<(Time, F)>) -> usize {
        if self.jitter == Duration::ZERO {
            let place = flight.partition_point(|&(other, _)| other <= earliest);
            flight.insert(place, (earliest, frame));
            return place;
        }
        let mut moment = earliest + Duration::from_nanos(self.jitter_rng.between(0, self.jitter.as_nanos()));
        while self.is_held(moment) {
            moment = moment.just_after();
        }
        // Starting at the last frame, each frame passes its time to the one behind it and takes the earlier time.
        let (mut latest, mut behind) = (moment, None);
        for at in (0..flight.len()).rev() {
            let own = flight[at].0;
            if own <= moment {
                break;
            }
            if self.is_held(own) {
                continue;
            }
            match behind.replace(at) {
                None => latest = own,
                Some(behind) => flight[behind].0 = own,
            }
        }
        if let Some(first) = behind {
            flight[first].0 = moment;
        }
        flight.push_back((latest, frame));
        if !self.held.is_empty() {
            flight.make_contiguous().sort_by_key(|&(moment, _)| moment);
        }
        // No other frame that is not held back has this time, or the sorting kept this frame behind it.
        flight.partition_point(|&(moment, _)| moment <= latest) - 1
    }

    fn is_held(&self, moment: Time) -> bool {
        self.held.binary_search(&moment).is_ok()
    }
}
