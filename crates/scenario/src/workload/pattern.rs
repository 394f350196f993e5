//! Timing of messages.

use super::Sizes;
use super::exchange::{Client, Lengths, Server};
use super::on_off::{OnOff, Spans};
use super::recorded::Recorded;
use super::relay::Relay;
use super::timing::{Interval, Next};
use crate::model::{Distribution, MessageSize, Workload};
use anabranch_base::rng::Rng;
use anabranch_base::time::Time;
use anabranch_base::units::Rate;

/// More bytes than any buffer holds or any run carries.
const ENDLESS_BYTES: u64 = u64::MAX / 2;

/// The state of a workload.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Saturated { sizes: Option<Sizes> },
    File { left: u64, sizes: Option<Sizes> },
    Paced(Paced),
    OnOff(Box<OnOff>),
    Recorded(Recorded),
    Client(Box<Client>),
    Server(Box<Server>),
    Relay(Relay),
}

/// Messages with their own timing.
#[derive(Clone, Debug)]
pub(super) struct Paced {
    sizes: Sizes,
    gap: Gap,
    next: Time,
    left: Option<u64>,
}

/// The gap between two messages.
#[derive(Clone, Debug)]
enum Gap {
    /// The transmission time of the message at this rate.
    Rate(Rate),
    /// A random or constant time.
    Interval(Interval),
}

impl Pattern {
    pub(super) fn new(workload: &Workload, start: Time, whole: Option<u64>, rng: &Rng) -> Self {
        let sizes = |message: &MessageSize| Sizes::new(message.clone(), rng.fork("sizes"));
        let whole = whole.map(MessageSize::Constant);
        let optional = |message: Option<&MessageSize>| message.or(whole.as_ref()).map(sizes);
        let interval = |mean, exponential, name| {
            Interval::new(mean, Distribution::exponential(exponential), rng.fork(name))
        };
        match workload {
            Workload::Saturated { message } => Self::Saturated { sizes: optional(message.as_ref()) },
            Workload::File { size, message, .. } => Self::File {
                left: Sizes::new(size.clone(), rng.fork("file")).draw(),
                sizes: optional(message.as_ref()),
            },
            Workload::Rate { rate, message } => {
                Self::Paced(Paced { sizes: sizes(message), gap: Gap::Rate(*rate), next: start, left: None })
            }
            Workload::Messages { message, interval: mean, exponential, count, .. } => {
                let gap = Gap::Interval(interval(*mean, *exponential, "interval"));
                Self::Paced(Paced { sizes: sizes(message), gap, next: start, left: *count })
            }
            Workload::Recorded(recording) => Self::Recorded(Recorded::new(recording, start)),
            Workload::OnOff { bursts, rate, message } => {
                let bursts = Spans::new(bursts, start, rng);
                Self::OnOff(Box::new(OnOff::new(bursts, *rate, sizes(message))))
            }
            Workload::RequestResponse { request, response, think, exponential, count } => {
                let lengths = Lengths::new(request, response, rng);
                let think = interval(*think, *exponential, "think");
                Self::Client(Box::new(Client::new(lengths, think, *count, start)))
            }
        }
    }

    /// The pattern that answers the requests of the pattern of the same workload and `rng`; `None` if it has
    /// no requests.
    pub(super) fn answering(workload: &Workload, rng: &Rng) -> Option<Self> {
        let Workload::RequestResponse { request, response, .. } = workload else { return None };
        Some(Self::Server(Box::new(Server::new(Lengths::new(request, response, rng)))))
    }

    pub(super) fn next(&mut self, now: Time) -> Next {
        match self {
            Self::Saturated { sizes } => {
                Next::Message { len: sizes.as_mut().map_or(ENDLESS_BYTES, Sizes::draw), born: None }
            }
            Self::File { left: 0, .. } => Next::End,
            Self::File { left, sizes } => {
                let len = sizes.as_mut().map_or(*left, Sizes::draw).min(*left);
                *left -= len;
                Next::Message { len, born: None }
            }
            Self::Paced(paced) => paced.next(now),
            Self::OnOff(on_off) => on_off.next(now),
            Self::Recorded(recorded) => recorded.next(now),
            Self::Client(client) => client.next(now),
            Self::Server(server) => server.next(now),
            Self::Relay(relay) => relay.next(),
        }
    }
}

impl Paced {
    fn next(&mut self, now: Time) -> Next {
        if self.left == Some(0) {
            return Next::End;
        }
        if self.next > now {
            return Next::At(self.next);
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        let (born, len) = (self.next, self.sizes.draw());
        self.next += match &mut self.gap {
            Gap::Rate(rate) => rate.time_to_send(len),
            Gap::Interval(interval) => interval.draw(),
        };
        Next::Message { len, born: Some(born) }
    }
}
