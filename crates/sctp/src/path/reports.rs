//! Missing reports (RFC 9260 §7.2.4), without a counter for each chunk.

/// The `n` highest newly acknowledged transmission numbers on a path, one per SACK that reported missing chunks below.
///
/// A chunk has `n` missing reports if and only if the n-th largest of these numbers is above its own. The reason: a
/// SACK is a missing report for all chunks sent before the highest one that it newly acknowledges (HTNA, RFC 9260
/// §7.2.4; per path with split fast retransmit). Chunks therefore need no counters, and the lost ones are always at the
/// front of the path's queue.
#[derive(Debug)]
pub(crate) struct Reports {
    largest: Vec<u64>,
}

impl Reports {
    pub fn new(threshold: u32) -> Self {
        Self { largest: vec![0; threshold.max(1) as usize] }
    }

    pub fn push(&mut self, mut sent_as: u64) {
        // The list is descending: the new number is inserted before the first smaller one.
        for known in &mut self.largest {
            if *known < sent_as {
                core::mem::swap(known, &mut sent_as);
            }
        }
    }

    /// Chunks with a transmission number below this one have enough missing reports.
    pub fn lost_below(&self) -> u64 {
        self.largest.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_below_three_reports_are_lost() {
        let mut reports = Reports::new(3);
        reports.push(5);
        reports.push(9);
        assert_eq!(reports.lost_below(), 0);
        reports.push(7);
        assert_eq!(reports.lost_below(), 5); // 1..=4 were below all three
        reports.push(3); // below the third largest, so the result stays
        assert_eq!(reports.lost_below(), 5);
        reports.push(8);
        assert_eq!(reports.lost_below(), 7);
    }
}
