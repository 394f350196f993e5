//! Shares of a buffer by the needs of the paths: faster paths come first, because each byte of the buffer carries more data
//! per second on a path with a shorter round trip.
//!
//! A path P with congestion window W, smoothed round trip S and shortest round trip D has the rate R = W/S and needs
//! N = 1.25 · R · D plus two packets: the data in flight that fills its link, without the queue. The paths are
//! ordered by D. A buffer of B bytes has room for P as follows:
//!
//! - If data leaves the buffer as it is acknowledged, faster paths keep the sum of their shares.
//! - If data waits for all data before it, a packet on P keeps it waiting for max(D, x/R), where x is the data
//!   of P in the buffer. Faster paths need R_j · max(D, x/R) bytes each meanwhile (compare BLEST, Ferlin et al. 2016).
//!
//! The share of P is the smaller of N and the rest of B. The bytes in no share are divided equally among the paths with a
//! share, so that a long queue of one path cannot fill the whole buffer. A path that is not in use or not measured needs
//! nothing, and has an equal part of B.

#[cfg(test)]
mod tests;

use anabranch_base::time::Duration;

/// Factor by which a share exceeds the data in flight that fills a link.
const MARGIN: f64 = 1.25;

/// A buffer that is divided.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Bytes.
    pub size: u64,
    /// Number of paths that may use it.
    pub paths: u32,
    /// Data stays in it until all data before it has been acknowledged.
    pub in_order: bool,
}

/// State of a path that determines its share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    /// Bytes of the buffer that the path occupies with the next packet.
    pub held: u64,
    /// Congestion window, bytes.
    pub window: u64,
    /// Smoothed round-trip time; `None` for a path that is not in use or not measured.
    pub smoothed: Option<Duration>,
    /// Shortest round-trip time.
    pub shortest: Duration,
    /// Largest payload of a packet, bytes.
    pub mss: u32,
}

impl Demand {
    /// Bytes per second; a window larger than the buffer cannot be used.
    fn rate(&self, size: f64) -> f64 {
        let smoothed = self.smoothed.map_or(0.0, Duration::as_secs_f64);
        if smoothed > 0.0 { (self.window as f64).min(size) / smoothed } else { 0.0 }
    }
}

/// The share of each path in one buffer.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// Paths in the order of their shortest round-trip times. It rarely changes, so that it is sorted in linear time.
    order: Vec<usize>,
    parts: Vec<Part>,
}

/// Result for one path.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Bytes that faster paths leave.
    free: f64,
    /// The path's share of them.
    share: f64,
    /// Bytes that the path may occupy.
    limit: u64,
}

impl Shares {
    /// Divides a buffer among paths with these demands.
    pub fn divide(&mut self, demands: &[Demand], buffer: Buffer) {
        self.sort(demands);
        let equal = Part { limit: buffer.size / u64::from(buffer.paths.max(1)), ..Part::default() };
        self.parts.clear();
        self.parts.resize(demands.len(), equal);
        let size = buffer.size as f64;
        let (mut rates, mut shares, mut sharing) = (0.0, 0.0, 0_u32);
        for &at in &self.order {
            let demand = &demands[at];
            let rate = demand.rate(size);
            if rate <= 0.0 {
                continue;
            }
            let shortest = demand.shortest.as_secs_f64();
            let kept = if buffer.in_order { rates * shortest.max(demand.held as f64 / rate) } else { shares };
            let free = (size - kept).max(0.0);
            let share = (MARGIN * rate * shortest + 2.0 * f64::from(demand.mss)).min(free);
            self.parts[at] = Part { free, share, limit: 0 };
            rates += rate;
            shares += share;
            sharing += u32::from(share > 0.0);
        }
        for &at in &self.order {
            if demands[at].rate(size) <= 0.0 {
                continue;
            }
            let part = &mut self.parts[at];
            shares -= part.share;
            let spare = (part.free - part.share - shares).max(0.0) / f64::from(sharing.max(1));
            part.limit = (part.share + spare) as u64;
        }
    }

    /// Makes all limits infinite.
    pub fn clear(&mut self) {
        self.parts.clear();
    }

    /// Bytes that a path may occupy.
    pub fn limit(&self, at: usize) -> u64 {
        self.parts.get(at).map_or(u64::MAX, |part| part.limit)
    }

    fn sort(&mut self, demands: &[Demand]) {
        if self.order.len() != demands.len() {
            self.order = (0..demands.len()).collect();
        }
        let key = |at: usize| (demands[at].shortest, at);
        for end in 1..self.order.len() {
            let mut place = end;
            while place > 0 && key(self.order[place]) < key(self.order[place - 1]) {
                self.order.swap(place, place - 1);
                place -= 1;
            }
        }
    }
}
