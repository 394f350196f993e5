//! Reneging (RFC 9260 §6.2): the receiver discards chunks that it has acknowledged after a gap.
//!
//! DATA fragments that have been joined are discarded together, because the lengths of single ones are not kept.

use super::{Fragments, Message, Reassembly};

/// Place of chunks that can only be discarded together.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A run of DATA fragments, by its first TSN.
    Run(u64),
    /// A fragment of an I-DATA message.
    Fragment((u16, bool, u32), u32),
    /// A complete message that waits for earlier ones, by its number.
    Waiting(u16, u64),
}

/// Chunks that can only be discarded together.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// The highest TSN.
    highest: u64,
    chunks: u64,
    place: Place,
}

impl Reassembly {
    /// Discards this share of the held chunks above TSN `cumulative`, rounded up, the highest TSNs first. Returns the
    /// TSNs as runs: first TSN and number.
    pub fn renege(&mut self, cumulative: u64, share: f64) -> Vec<(u64, u32)> {
        let mut units = self.renegable(cumulative);
        units.sort_unstable_by_key(|unit| core::cmp::Reverse(unit.highest));
        let all: u64 = units.iter().map(|unit| unit.chunks).sum();
        let wanted = (share * all as f64).ceil() as u64;
        let (mut discarded, mut runs) = (0, Vec::new());
        for unit in units {
            if discarded >= wanted {
                break;
            }
            discarded += unit.chunks;
            runs.extend(self.discard(unit.place));
        }
        self.given_up.extend_from_slice(&runs);
        runs
    }

    /// The chunks that may be discarded: those of which no part is cumulatively acknowledged.
    fn renegable(&self, cumulative: u64) -> Vec<Unit> {
        let above = |unit: &(u64, Unit)| unit.0 > cumulative;
        let runs = self.runs.iter().filter(|(_, run)| run.len > 0).map(|(&start, run)| {
            (start, Unit { highest: run.end - 1, chunks: run.end - start, place: Place::Run(start) })
        });
        let partials = self.partials.iter().flat_map(|(&key, partial)| {
            partial.fragments.iter().map(move |(&number, &(tsn, _))| {
                (tsn, Unit { highest: tsn, chunks: 1, place: Place::Fragment(key, number) })
            })
        });
        let waiting = self.streams.iter().zip(0..).flat_map(|(stream, id)| {
            stream.waiting.iter().map(move |(&number, message)| unit(message, Place::Waiting(id, number)))
        });
        runs.chain(partials).chain(waiting).filter(above).map(|(_, unit)| unit).collect()
    }

    /// Discards the chunks at a place; returns their TSNs as runs.
    fn discard(&mut self, place: Place) -> Vec<(u64, u32)> {
        match place {
            Place::Run(start) => {
                let Some(run) = self.runs.remove(&start) else { return Vec::new() };
                self.held.remove(run.stream, run.len);
                vec![(start, (run.end - start) as u32)]
            }
            Place::Fragment(key, number) => {
                let Some(partial) = self.partials.get_mut(&key) else { return Vec::new() };
                let Some((tsn, len)) = partial.fragments.remove(&number) else { return Vec::new() };
                partial.last = partial.last.filter(|&last| last != number);
                if partial.fragments.is_empty() && partial.delivered == 0 {
                    self.partials.remove(&key);
                }
                self.held.remove(key.0, len.into());
                vec![(tsn, 1)]
            }
            Place::Waiting(stream, number) => {
                let Some(message) = self.streams[usize::from(stream)].waiting.remove(&number) else {
                    return Vec::new();
                };
                self.held.remove(stream, message.len);
                message.fragments.into_runs()
            }
        }
    }
}

/// The lowest TSN of a message, and its chunks.
fn unit(message: &Message, place: Place) -> (u64, Unit) {
    let runs = match &message.fragments {
        Fragments::Run(first, count) => &[(*first, *count)][..],
        Fragments::Scattered(runs) => runs,
    };
    let lowest = runs.iter().map(|&(first, _)| first).min().unwrap_or(0);
    let highest = runs.iter().map(|&(first, count)| first + u64::from(count) - 1).max().unwrap_or(0);
    let chunks = runs.iter().map(|&(_, count)| u64::from(count)).sum();
    (lowest, Unit { highest, chunks, place })
}
