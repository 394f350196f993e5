//! The packets on all links, as a flat JSON list with six numbers for each:
//!
//! 1. Index of the link.
//! 2. Direction: 0 from the first node to the second, 1 the reverse.
//! 3. Index of the flow.
//! 4. Sender: 0 the `from` host, 1 the `to` host, −1 a router.
//! 5. Position: from 0 to 1 the share of the link's length that the packet has travelled; −1, −2, … the first, second, …
//!    position in the queue.
//! 6. Length of the IP packet, bytes.

use anabranch_netem::Interface;
use anabranch_sim::Simulation;
use core::fmt::Write;

/// The packets of a run on all links.
pub(crate) fn list(run: &mut Simulation) -> String {
    let now = run.now();
    let flows = run.scenario().flows_of_connections();
    let delays: Vec<_> = run.scenario().links_after(run.events_done());
    let delays = delays
        .iter()
        .flat_map(|link| [&link.forward, &link.reverse].map(|model| model.delay.min() + model.jitter));
    let mut text = String::from("[");
    for (direction, delay) in delays.enumerate() {
        let mut waiting = 0.0;
        run.datapath().visit_packets(now, Interface(direction as u32), &mut |arrival, bytes, sender| {
            let place = if let Some(arrival) = arrival {
                let left = arrival.since(now).as_nanos() as f64;
                (1.0 - left / delay.as_nanos().max(1) as f64).clamp(0.0, 1.0)
            } else {
                waiting -= 1.0;
                waiting
            };
            let (flow, side) = match sender {
                Some(end) => (flows[end as usize / 2], (end % 2) as i32),
                None => (0, -1),
            };
            let separator = if text.len() > 1 { "," } else { "" };
            let (link, way) = (direction / 2, direction % 2);
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}{link},{way},{flow},{side},{place:.4},{bytes}");
        });
    }
    text.push(']');
    text
}
