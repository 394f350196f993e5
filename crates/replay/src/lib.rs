//! Recordings of runs on real packets, and their replay into the sans-IO protocol cores.
//!
//! For authors of stacks that drive a [`Host`](anabranch_host::Host), and for developers who examine a run
//! afterwards. A core gives the same output for the same calls at the same times, so a recording contains
//! these calls: arrivals, timers, and those of the applications; and the key of the host's secrets.
//! [`RecordedHost`] is a host that writes one. [`RecordedClock`] records a scenario in real time, in which
//! everything follows from the readings of its clock. [`replay`] repeats either kind and compares the
//! packets.
//!
//! A host answers a packet to a closed port by a reset; the replay sends the same reset:
//!
//! ```
//! use anabranch_base::time::Time;
//! use anabranch_endpoint::{Address, Event, Placement};
//! use anabranch_host::{ConnectionId, HostDriver, Limits};
//! use anabranch_replay::{PayloadDriver, RecordedHost, Recording, replay};
//! use anabranch_wire::tcp::{Flags, Segment};
//! use anabranch_wire::{Body, Buffer, Ecn, Packet, Payload};
//!
//! /// A driver that counts packets.
//! #[derive(Default)]
//! struct Counter(u32);
//!
//! impl HostDriver for Counter {
//!     fn place(&mut self, _: ConnectionId, _: Placement) {}
//!     fn transmit(&mut self, _: Option<ConnectionId>, _: Packet) {
//!         self.0 += 1;
//!     }
//!     fn event(&mut self, _: ConnectionId, _: Event) {}
//! }
//!
//! impl PayloadDriver for Counter {
//!     fn fill(&self, _: Option<ConnectionId>, _: Payload, _: &mut [u8]) {}
//! }
//!
//! let file = std::env::temp_dir().join(format!("anabranch-replay-{}", std::process::id()));
//! let out = Box::new(std::fs::File::create(&file)?);
//! let addresses = vec![Address::new([10, 0, 0, 1].into(), 1500)];
//! let recording = Recording { out, has_data: false };
//! let mut host = RecordedHost::recorded(addresses, Limits::default(), [7; 32], recording)?;
//! let segment = Segment { source_port: 5000, destination_port: 80, flags: Flags::SYN, ..Segment::default() };
//! let (source, destination) = ([10, 0, 0, 2].into(), [10, 0, 0, 1].into());
//! let syn = Packet { source, destination, ecn: Ecn::NotEct, body: Body::Tcp(segment) };
//! host.handle_packet(Time::ZERO, syn, Buffer(&[]));
//! let mut counter = Counter::default();
//! host.drive(Time::ZERO, &mut counter);
//! host.finish_recording()?;
//!
//! let outcome = replay(std::fs::File::open(&file)?)?;
//! assert_eq!((counter.0, outcome.counts.sent, outcome.difference), (1, 1, None));
//! # std::fs::remove_file(file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod coder;
mod difference;
mod endpoint;
mod error;
mod fields;
mod host;
mod image;
mod outcome;
mod record;
mod replayed_host;
mod scenario;
mod settings;
mod stream;
mod tape;

pub use difference::{Difference, Place};
pub use error::ReplayError;
pub use host::{PayloadDriver, RecordedHost};
pub use outcome::Outcome;
pub use record::Counts;
pub use scenario::{RecordedClock, ScenarioRecording, recordable};
pub use tape::Recording;

use record::Subject;
use replayed_host::ReplayedHost;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use stream::Reader;

/// Repeats a recording and compares the packets, until its end or the first difference. The memory is that of
/// the recorded host or scenario; the recording itself is read record by record. A panic of a protocol core
/// is a difference.
///
/// # Errors
/// If the input is no recording, is damaged, or ends too early.
pub fn replay(input: impl Read) -> Result<Outcome, ReplayError> {
    let (mut reader, head) = Reader::new(input)?;
    let version = head.version;
    let (subject, has_data) = match &head.subject {
        Subject::Host { has_data, .. } => ("endpoint", *has_data),
        Subject::Scenario { .. } => ("user", false),
    };
    // After a panic, only the position of the reader is used.
    let replayed = catch_unwind(AssertUnwindSafe(|| match head.subject {
        Subject::Host { has_data, key, addresses, limits } => {
            ReplayedHost::new(has_data, key, addresses, limits).replay(&mut reader)
        }
        Subject::Scenario { seed, text } => scenario::replay(&mut reader, seed, &text),
    }));
    let (counts, duration) = (reader.counts(), reader.now());
    let difference = replayed.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref().copied()).unwrap_or("without a message");
        let place = Place::Panic { packets: counts.sent };
        let (recorded, replayed) = ("unknown".to_owned(), text.to_owned());
        Ok(Some(Difference { at: duration, place, recorded, replayed }))
    })?;
    Ok(Outcome { subject, version, has_data, counts, duration, difference })
}
