//! Routers that answer network control chunks: a router chooses the route, that is, the outgoing link, of
//! each path, keeps that choice, and adds a record to the chunk. The idea is that of Becke2014 §8.1.2; the
//! rules are our own, and experimental.
//!
//! The carrier of packets (simulator or emulator) passes each packet that a router forwards to
//! [`ControlRouter::forwarded`], and each valid request to [`ControlRouter::choose`] first.

use crate::FlowKey;
use anabranch_base::time::{Duration, Time};
use anabranch_netem::{DropCause, Frame, Interface, Link};
use anabranch_wire::sctp::NetworkControl;
use anabranch_wire::sctp::network_control::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Time for which a path keeps its route after its last request.
const CHOICE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of associations of a router. A new association replaces the one whose path has the oldest request.
const MAX_ASSOCIATIONS: usize = 4096;

/// Time constant of the measured load of a route.
const LOAD_WINDOW_S: f64 = 1.0;

/// A route of a router to a destination: the direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// The interface by which packets leave.
    pub by: Interface,
    /// Rate, bit/s; 0 while the link is down.
    pub rate_bps: f64,
    /// One-way delay.
    pub delay: Duration,
    /// Share of packets that the link has lost since the start.
    pub loss: f64,
    /// Waiting packets.
    pub queue_packets: u64,
}

impl Way {
    /// The present state of one direction of a link. If the rate follows a trace, `rate_bps` is the mean rate since
    /// the start.
    pub fn of<F: Frame>(by: Interface, link: &mut Link<F>, now: Time) -> Self {
        let totals = link.totals(now);
        let elapsed_s = now.since(Time::ZERO).as_secs_f64();
        let mean = || 8.0 * totals.offered_bytes.unwrap_or_default() as f64 / elapsed_s.max(1e-9);
        let rate_bps = link.rate().map_or_else(mean, |rate| rate.bits_per_second() as f64);
        let lost = totals.drops[DropCause::Loss as usize] as f64;
        Self {
            by,
            rate_bps: if link.is_up() { rate_bps } else { 0.0 },
            delay: link.delay(),
            loss: lost / (totals.packets.max(1) as f64),
            queue_packets: link.queued(now).0,
        }
    }

    /// True if the route meets the bounds of a request.
    fn meets(&self, request: &NetworkControl) -> bool {
        let is_within = |value: u16, bound: u16| bound == 0 || value <= bound;
        self.rate_bps > 0.0
            && is_within(units(self.delay.as_secs_f64() * 1e4), request.max_delay_100us)
            && is_within(units(self.loss * 1e5), request.max_loss_milli_percent)
    }
}

/// A value in the units of a record, at most the largest one that the record can contain.
fn units(value: f64) -> u16 {
    value.round() as u16
}

/// The route that a router has chosen for a path.
#[derive(Clone, Copy, Debug)]
struct Choice {
    flow: FlowKey,
    by: Interface,
    wanted_kbit_per_s: u32,
    requested: Time,
}

/// The load of a route.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Sum of the rates that the paths of this route request.
    wanted_kbit_per_s: u64,
    /// Recent load at the time `at` of the route's last packet.
    load_bps: f64,
    at: Time,
}

impl Usage {
    fn load_bps(self, now: Time) -> f64 {
        self.load_bps * libm::exp(-now.since(self.at).as_secs_f64() / LOAD_WINDOW_S)
    }
}

/// A router that answers network control chunks.
#[derive(Clone, Debug)]
pub struct ControlRouter {
    id: u32,
    /// The choices by association and path.
    associations: BTreeMap<u32, BTreeMap<u8, Choice>>,
    /// Association and path of each flow with a route.
    flows: BTreeMap<FlowKey, (u32, u8)>,
    /// All choices by the time of their last request.
    by_age: BTreeSet<(Time, u32, u8)>,
    ways: BTreeMap<Interface, Usage>,
}

impl ControlRouter {
    /// A router that puts `id` into its records.
    pub const fn new(id: u32) -> Self {
        Self {
            id,
            associations: BTreeMap::new(),
            flows: BTreeMap::new(),
            by_age: BTreeSet::new(),
            ways: BTreeMap::new(),
        }
    }

    /// Chooses one of `ways` for the path of a request, and adds a record to the request. A path keeps its
    /// route while that route is listed and up. Otherwise it gets the route with the largest free rate among
    /// those that meet the request's bounds and carry none of the paths with which the request asks to share
    /// no route. If there is no such route, the path gets the least loaded one. A request whose route does
    /// not meet these conditions is marked as shared.
    ///
    /// # Panics
    ///
    /// If `ways` is empty.
    pub fn choose(
        &mut self,
        now: Time,
        flow: FlowKey,
        request: &mut NetworkControl,
        ways: &[Way],
    ) -> Interface {
        self.forget_expired(now);
        let used = self.ways_to_avoid(request);
        let fits = |way: &Way| way.meets(request) && !used.contains(&way.by);
        let free: Vec<f64> = ways.iter().map(|way| self.free_bps(now, way, &flow)).collect();
        let kept = self.kept(&flow, request);
        let kept = ways.iter().position(|way| Some(way.by) == kept && way.rate_bps > 0.0);
        let candidates = (0..ways.len()).filter(|&at| fits(&ways[at]));
        let largest = |best: usize, at: usize| if free[at] > free[best] { at } else { best };
        let load = |at: usize| 1.0 - free[at] / ways[at].rate_bps.max(1.0);
        let least_loaded = |best: usize, at: usize| if load(at) < load(best) { at } else { best };
        let at = kept
            .or_else(|| candidates.reduce(largest))
            .or_else(|| (0..ways.len()).reduce(least_loaded))
            .expect("a router forwards to the destination");
        let way = &ways[at];
        let is_shared = !fits(way);
        request.is_shared |= is_shared;
        self.keep(now, flow, request, way.by);
        request.push(Record {
            router: self.id,
            rate_kbit_per_s: (way.rate_bps / 1e3).round() as u32,
            free_kbit_per_s: (free[at] / 1e3).round() as u32,
            delay_100us: units(way.delay.as_secs_f64() * 1e4),
            loss_milli_percent: units(way.loss * 1e5),
            queue_packets: u16::try_from(way.queue_packets).unwrap_or(u16::MAX),
            flags: if is_shared { Record::SHARED } else { 0 },
        });
        way.by
    }

    /// The route of a flow, if the router has chosen one for a request of the flow.
    pub fn way_of(&mut self, now: Time, flow: &FlowKey) -> Option<Interface> {
        if self.flows.is_empty() {
            return None;
        }
        self.forget_expired(now);
        self.choice(flow).map(|choice| choice.by)
    }

    /// Counts a packet that leaves by an interface.
    pub fn forwarded(&mut self, now: Time, by: Interface, bytes: u32) {
        let way = self.ways.entry(by).or_default();
        way.load_bps = way.load_bps(now) + 8.0 * f64::from(bytes) / LOAD_WINDOW_S;
        way.at = now;
    }

    /// The router's choice for a flow.
    fn choice(&self, flow: &FlowKey) -> Option<&Choice> {
        let (association, path) = self.flows.get(flow)?;
        self.associations.get(association)?.get(path)
    }

    /// The rate of a route that is neither in use nor requested by other paths.
    fn free_bps(&self, now: Time, way: &Way, flow: &FlowKey) -> f64 {
        let usage = self.ways.get(&way.by).copied().unwrap_or_default();
        let own = self.choice(flow).filter(|choice| choice.by == way.by);
        let own = own.map_or(0, |choice| u64::from(choice.wanted_kbit_per_s));
        let wanted_bps = 1e3 * (usage.wanted_kbit_per_s - own) as f64;
        (way.rate_bps - usage.load_bps(now).max(wanted_bps)).max(0.0)
    }

    /// The routes of those paths with which the request asks to share no route.
    fn ways_to_avoid(&self, request: &NetworkControl) -> Vec<Interface> {
        let Some(paths) = self.associations.get(&request.association) else { return Vec::new() };
        let is_other = |path: u8| path != request.path && request.apart_from & (1 << path) != 0;
        paths.iter().filter(|&(&path, _)| is_other(path)).map(|(_, choice)| choice.by).collect()
    }

    /// The route of the request's path, if the router has chosen one for the same addresses and ports.
    fn kept(&self, flow: &FlowKey, request: &NetworkControl) -> Option<Interface> {
        let is_same = self.flows.get(flow) == Some(&(request.association, request.path));
        self.choice(flow).filter(|_| is_same).map(|choice| choice.by)
    }

    /// Stores the route that was chosen for a path.
    fn keep(&mut self, now: Time, flow: FlowKey, request: &NetworkControl, by: Interface) {
        let (association, path) = (request.association, request.path);
        if let Some(&(association, path)) = self.flows.get(&flow) {
            self.forget(association, path);
        }
        self.forget(association, path);
        if !self.associations.contains_key(&association) && self.associations.len() >= MAX_ASSOCIATIONS {
            self.forget_oldest();
        }
        let wanted_kbit_per_s = request.wanted_kbit_per_s;
        let choice = Choice { flow, by, wanted_kbit_per_s, requested: now };
        self.associations.entry(association).or_default().insert(path, choice);
        self.flows.insert(flow, (association, path));
        self.by_age.insert((now, association, path));
        self.ways.entry(by).or_default().wanted_kbit_per_s += u64::from(wanted_kbit_per_s);
    }

    fn forget(&mut self, association: u32, path: u8) {
        let Some(paths) = self.associations.get_mut(&association) else { return };
        if let Some(choice) = paths.remove(&path) {
            self.flows.remove(&choice.flow);
            self.by_age.remove(&(choice.requested, association, path));
            let way = self.ways.entry(choice.by).or_default();
            way.wanted_kbit_per_s -= u64::from(choice.wanted_kbit_per_s);
        }
        if paths.is_empty() {
            self.associations.remove(&association);
        }
    }

    fn forget_expired(&mut self, now: Time) {
        while let Some(&(requested, association, path)) = self.by_age.first()
            && now.since(requested) > CHOICE_TIMEOUT
        {
            self.forget(association, path);
        }
    }

    fn forget_oldest(&mut self) {
        let Some(&(_, association, _)) = self.by_age.first() else { return };
        let paths: Vec<u8> =
            self.associations.get(&association).into_iter().flatten().map(|(&path, _)| path).collect();
        for path in paths {
            self.forget(association, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::ip::protocol;

    const NOW: Time = Time::from_nanos(1_000_000_000);

    fn flow(port: u16) -> FlowKey {
        let end = |host: u8, port| ([10, 0, 0, host], port).into();
        FlowKey { protocol: protocol::SCTP, source: end(1, port), destination: end(2, 9) }
    }

    /// Ways of 10 Mbit/s with these delays in milliseconds, by interfaces 0, 2, 4, ….
    fn ways(delays_ms: &[u64]) -> Vec<Way> {
        let way = |(at, &ms): (usize, &u64)| Way {
            by: Interface(2 * at as u32),
            rate_bps: 10e6,
            delay: Duration::from_millis(ms),
            loss: 0.0,
            queue_packets: 3,
        };
        delays_ms.iter().enumerate().map(way).collect()
    }

    fn request(association: u32, path: u8) -> NetworkControl {
        NetworkControl { association, path, paths: 4, apart_from: u32::MAX, ..NetworkControl::default() }
    }

    /// The interface that the router chooses, and the request with its record.
    fn choose(router: &mut ControlRouter, at: Time, path: u8, ways: &[Way]) -> (u32, NetworkControl) {
        let mut chunk = request(1, path);
        let by = router.choose(at, flow(path.into()), &mut chunk, ways);
        (by.0, chunk)
    }

    #[test]
    fn paths_take_separate_routes() {
        let mut router = ControlRouter::new(7);
        let ways = ways(&[1, 1, 1]);
        router.forwarded(NOW, Interface(0), 1_000_000);
        assert_eq!(choose(&mut router, NOW, 0, &ways).0, 2);
        assert_eq!(choose(&mut router, NOW, 1, &ways).0, 4);
        let (by, chunk) = choose(&mut router, NOW, 2, &ways);
        assert_eq!((by, chunk.is_shared), (0, false));
        let record = Record {
            router: 7,
            rate_kbit_per_s: 10_000,
            free_kbit_per_s: 2_000,
            delay_100us: 10,
            loss_milli_percent: 0,
            queue_packets: 3,
            flags: 0,
        };
        assert_eq!(chunk.records, [record]);
        // Every route carries a path with which path 3 asks to share no route: path 3 gets the least loaded
        // route, and the router sets both flags.
        let (by, chunk) = choose(&mut router, NOW, 3, &ways);
        assert_eq!((by, chunk.is_shared, chunk.records[0].flags), (2, true, Record::SHARED));
    }

    #[test]
    fn bounds_of_a_request_exclude_routes() {
        let mut ways = ways(&[20, 5, 4]);
        ways[2].loss = 0.01;
        let choose = |max_delay_100us, max_loss_milli_percent| {
            let mut chunk = NetworkControl { max_delay_100us, max_loss_milli_percent, ..request(1, 0) };
            let by = ControlRouter::new(1).choose(NOW, flow(1), &mut chunk, &ways);
            (by.0, chunk.is_shared)
        };
        assert_eq!(choose(0, 0), (0, false));
        assert_eq!(choose(50, 0), (2, false));
        assert_eq!(choose(49, 0), (4, false));
        assert_eq!(choose(49, 999), (0, true));
        assert_eq!(choose(49, 1_000), (4, false));
    }

    #[test]
    fn route_is_kept_until_30_s_after_last_request() {
        let mut router = ControlRouter::new(1);
        let mut ways = ways(&[1, 1]);
        let after = |s| NOW + Duration::from_secs(s);
        assert_eq!(choose(&mut router, NOW, 0, &ways).0, 0);
        // Another route has a larger free rate now.
        ways[1].rate_bps = 20e6;
        assert_eq!(choose(&mut router, after(10), 0, &ways).0, 0);
        assert_eq!(router.way_of(after(40), &flow(0)), Some(Interface(0)));
        assert_eq!(router.way_of(after(41), &flow(0)), None);
        assert_eq!(choose(&mut router, after(41), 0, &ways).0, 2);
        // The path leaves a route that is down.
        ways[1].rate_bps = 0.0;
        assert_eq!(choose(&mut router, after(42), 0, &ways).0, 0);
        assert_eq!(router.way_of(after(42), &flow(1)), None);
    }

    #[test]
    fn load_decays_and_wanted_rates_count() {
        let mut router = ControlRouter::new(1);
        let ways = ways(&[1]);
        let free = |router: &mut ControlRouter, at: Time, port: u16| {
            let mut chunk = NetworkControl { wanted_kbit_per_s: 4_000, ..request(port.into(), 0) };
            router.choose(at, flow(port), &mut chunk, &ways);
            chunk.records[0].free_kbit_per_s
        };
        // 10 Mbit/s for 10 s, in packets of 1250 bytes.
        for ms in 0..10_000 {
            router.forwarded(Time::ZERO + Duration::from_millis(ms), Interface(0), 1_250);
        }
        assert!(free(&mut router, Time::ZERO + Duration::from_secs(10), 1) < 10);
        // After 20 time constants the measured load is zero; the rate that the first flow requested remains.
        assert_eq!(free(&mut router, Time::ZERO + Duration::from_secs(30), 2), 6_000);
        assert_eq!(free(&mut router, Time::ZERO + Duration::from_secs(30), 1), 6_000);
        assert_eq!(free(&mut router, Time::ZERO + Duration::from_secs(30), 3), 2_000);
    }

    #[test]
    fn associations_are_limited() {
        let mut router = ControlRouter::new(1);
        let ways = ways(&[1, 1]);
        for association in 0..=MAX_ASSOCIATIONS as u32 {
            let at = NOW + Duration::from_nanos(u64::from(association));
            router.choose(at, flow(association as u16), &mut request(association, 0), &ways);
        }
        assert_eq!(router.associations.len(), MAX_ASSOCIATIONS);
        assert_eq!(router.flows.len(), MAX_ASSOCIATIONS);
        let later = NOW + Duration::from_secs(1);
        assert_eq!(router.way_of(later, &flow(0)), None, "the oldest association");
        assert!(router.way_of(later, &flow(1)).is_some());
        assert!(router.way_of(later, &flow(MAX_ASSOCIATIONS as u16)).is_some());
    }

    #[test]
    fn flow_changes_its_association() {
        let mut router = ControlRouter::new(1);
        let ways = ways(&[1, 1]);
        for (association, path) in [(1, 0), (1, 1), (2, 1)] {
            router.choose(NOW, flow(1), &mut request(association, path), &ways);
            assert_eq!(router.flows.len(), 1);
            assert_eq!(router.by_age.len(), 1);
        }
    }
}
