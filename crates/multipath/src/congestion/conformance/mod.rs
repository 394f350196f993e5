//! Checks the laws that every congestion control must obey: how a window may change with each event. The congestion
//! controls of this crate and of other crates are tested with these functions.
//!
//! ```
//! use anabranch_multipath::congestion::{conformance, Choice};
//!
//! let control = Choice::find("lia").expect("the name is in the table");
//! conformance::check(&|| control.build(), 20).expect("LIA obeys all laws");
//! ```

mod event;
mod random;

pub use event::{Event, Report};
pub use random::sequence;

use super::{CongestionControl, LossKind};
use crate::PathId;
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use core::fmt::{self, Display, Formatter};
use std::error::Error;

/// Number of paths in the events.
pub const PATHS: u8 = 4;

/// The largest window and threshold, bytes.
pub const MAX_WINDOW: u64 = super::group::MAX_WINDOW;

/// Number of events in a random sequence.
const EVENTS: usize = 150;

/// A function that creates the congestion control under test, without paths.
pub type Build<'a> = &'a dyn Fn() -> Box<dyn CongestionControl>;

/// A law that a congestion control broke, with the events that led to this.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The events, of which the last one led to the violation. [`check`] removes events that are not needed for it.
    pub events: Vec<Event>,
    /// The path whose window or threshold is wrong.
    pub path: u8,
    /// Window of this path before the last event, bytes.
    pub before: u64,
    /// Window of this path after the last event, bytes.
    pub after: u64,
    /// The law as a sentence.
    pub law: &'static str,
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { events, path, before, after, law } = self;
        write!(f, "{law}; the window of path {path} went from {before} to {after} bytes, after ")?;
        for (n, event) in events.iter().enumerate() {
            write!(f, "{}{event}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Error for Violation {}

/// Applies random sequences of events to the congestion control, and checks all laws after each event.
///
/// # Errors
///
/// The first violation, with only those events that are needed for it.
pub fn check(build: Build<'_>, sequences: u32) -> Result<(), Violation> {
    let root = Rng::new(1);
    for n in 0..sequences {
        let events = sequence(&mut root.fork(&format!("conformance.{n}")), EVENTS);
        if let Err(violation) = apply(build, &events) {
            return Err(shrink(build, violation));
        }
    }
    Ok(())
}

/// Applies events to the congestion control, and checks all laws after each event. Then checks that a second instance
/// that gets the same events has the same windows.
///
/// # Errors
///
/// The first violation, with all events up to the one that led to it.
pub fn apply(build: Build<'_>, events: &[Event]) -> Result<(), Violation> {
    let mut control = build();
    let mut now = Time::ZERO;
    let mut known = [Known::default(); PATHS as usize];
    for (n, event) in events.iter().enumerate() {
        let (before, was) = (windows(&*control), known);
        event.apply(&mut *control, &mut now);
        Known::apply(&mut known, event);
        for path in 0..PATHS {
            let at = usize::from(path);
            let step = Step { event, path, before: before[at], was: was[at], is: known[at] };
            step.check(&*control).map_err(|law| Violation {
                events: events[..=n].to_vec(),
                path,
                before: before[at],
                after: control.window(PathId(path)),
                law,
            })?;
        }
    }
    let (first, second) = (windows(&*control), windows_after(build, events));
    let differs = (0..PATHS).find(|&path| first[usize::from(path)] != second[usize::from(path)]);
    differs.map_or(Ok(()), |path| {
        let (before, after) = (first[usize::from(path)], second[usize::from(path)]);
        let law = "the same events must give the same windows";
        Err(Violation { events: events.to_vec(), path, before, after, law })
    })
}

fn windows(control: &dyn CongestionControl) -> [u64; PATHS as usize] {
    core::array::from_fn(|path| control.window(PathId(path as u8)))
}

fn windows_after(build: Build<'_>, events: &[Event]) -> [u64; PATHS as usize] {
    let mut control = build();
    let mut now = Time::ZERO;
    for event in events {
        event.apply(&mut *control, &mut now);
    }
    windows(&*control)
}

/// Removes as many events as possible such that the congestion control still breaks the same law.
fn shrink(build: Build<'_>, mut found: Violation) -> Violation {
    let mut size = found.events.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at + size <= found.events.len() {
            let mut fewer = found.events.clone();
            fewer.drain(at..at + size);
            match apply(build, &fewer) {
                Err(smaller) if smaller.law == found.law => found = smaller,
                _ => at += size,
            }
        }
        size /= 2;
    }
    found
}

/// State of a path. It determines how the window of the path may change.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    present: bool,
    mss: u64,
    usable: bool,
    recovering: bool,
}

impl Known {
    fn apply(known: &mut [Self; PATHS as usize], event: &Event) {
        let Some(path) = event.path() else { return };
        let path = &mut known[usize::from(path)];
        match *event {
            Event::Add(_, setup) => {
                *path =
                    Self { present: true, mss: u64::from(setup.mss.max(1)), usable: true, recovering: false };
            }
            Event::Remove(_) => path.present = false,
            Event::Usable(_, usable) => path.usable = usable,
            Event::Mss(_, mss) => path.mss = u64::from(mss.max(1)),
            Event::Loss(_, LossKind::FastRetransmit, _) => path.recovering = true,
            Event::Recovered(_) | Event::Timeout(..) => path.recovering = false,
            _ => {}
        }
    }
}

/// An event, and the state of one path before and after the event.
struct Step<'a> {
    event: &'a Event,
    path: u8,
    before: u64,
    was: Known,
    is: Known,
}

impl Step<'_> {
    /// Checks all laws. The error is the law that the congestion control broke.
    fn check(&self, control: &dyn CongestionControl) -> Result<(), &'static str> {
        let obeys = |is_obeyed: bool, law: &'static str| if is_obeyed { Ok(()) } else { Err(law) };
        let id = PathId(self.path);
        let (window, ssthresh) = (control.window(id), control.ssthresh(id));
        if !self.is.present {
            return obeys(
                window == 0 && ssthresh == u64::MAX,
                "an unknown path must have window 0 and no threshold",
            );
        }
        obeys((self.is.mss..=MAX_WINDOW).contains(&window), "a window must have one packet to 2^48 bytes")?;
        obeys(ssthresh >= self.is.mss, "a threshold must have at least one packet")?;
        let is_paced = control.pacing_rate(id).is_none_or(|rate| rate.bits_per_second() > 0);
        obeys(is_paced, "a pacing rate must not be zero")?;
        self.check_change(control, window)
    }

    /// Checks the laws about changes of the window. The error is the law that the congestion control broke.
    fn check_change(&self, control: &dyn CongestionControl, window: u64) -> Result<(), &'static str> {
        let obeys = |is_obeyed: bool, law: &'static str| if is_obeyed { Ok(()) } else { Err(law) };
        let shrinks = window <= self.before;
        let model = control.wants_rate_samples();
        if self.event.path() != Some(self.path) {
            return obeys(window == self.before, "a window must not change without an event of its path");
        }
        match *self.event {
            Event::Ack { acked: 0, .. } | Event::Ack { limited: false, .. } => {
                obeys(shrinks, "a window must not grow if nothing is acknowledged, or it was not fully used")
            }
            Event::Ack { .. } if !self.was.usable || self.was.recovering => {
                obeys(shrinks, "a window must not grow in recovery or while its path is not usable")
            }
            Event::Timeout(..) => obeys(window == self.is.mss, "a timeout must set the window to one packet"),
            Event::Idle(..) | Event::Penalise(..) => {
                obeys(shrinks, "a window must not grow after an idle time or a penalty")
            }
            Event::Spurious(_) => {
                obeys(window >= self.before, "a window must not shrink when a reaction proves spurious")
            }
            Event::Sample(..) if model => {
                obeys(self.was.usable || shrinks, "a window must not grow while its path is not usable")
            }
            Event::Sent { .. } | Event::Lost(..) if model => Ok(()),
            Event::Ack { .. } | Event::Add(..) | Event::Mss(..) | Event::Loss(..) => Ok(()),
            _ => obeys(window == self.before, "a window must not change for an event that is no reason to"),
        }
    }
}
