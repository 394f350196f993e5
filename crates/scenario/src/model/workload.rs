//! Workloads of applications.

use anabranch_base::time::{Duration, Time};
use anabranch_base::units::Rate;
use anabranch_settings::policy::Reliability;
use std::sync::Arc;

/// The workload of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Writes whenever there is room.
    Saturated {
        /// Message sizes; `None` for a byte stream with boundaries chosen by the protocol.
        message: Option<MessageSize>,
    },
    /// Writes a number of bytes, then closes.
    File {
        /// Its size.
        size: MessageSize,
        /// Message sizes.
        message: Option<MessageSize>,
        /// Connections that begin during the run, each with its own file; `None` for one connection.
        arrivals: Option<Arrivals>,
    },
    /// Writes messages at a constant rate.
    Rate {
        /// Application bytes offered, as a rate.
        rate: Rate,
        /// Message sizes.
        message: MessageSize,
    },
    /// Writes recorded messages at their times, then closes.
    Recorded(Arc<Recording>),
    /// Alternates between bursts (saturated, or at a rate) and silence.
    OnOff {
        /// Times of the bursts.
        bursts: Bursts,
        /// Rate within a burst; `None` for saturated.
        rate: Option<Rate>,
        /// Message sizes.
        message: MessageSize,
    },
    /// Writes messages at random intervals.
    Messages {
        /// Message sizes.
        message: MessageSize,
        /// Mean time between messages.
        interval: Duration,
        /// Exponentially distributed instead of constant gaps.
        exponential: bool,
        /// Number of messages; `None` until the end.
        count: Option<u64>,
        /// Limits of the retransmission of each message.
        reliability: Reliability,
    },
    /// One host sends requests, the other answers; the next request follows when the response to the last one
    /// has been read.
    RequestResponse {
        /// Sizes of the requests.
        request: MessageSize,
        /// Sizes of the answers.
        response: MessageSize,
        /// Mean time from a response to the next request.
        think: Duration,
        /// Exponentially distributed instead of constant times.
        exponential: bool,
        /// Number of requests; `None` until the end.
        count: Option<u64>,
    },
}

impl Workload {
    /// Limits of the retransmission of the written data.
    pub const fn reliability(&self) -> Reliability {
        match self {
            Self::Messages { reliability, .. } => *reliability,
            _ => Reliability::Full,
        }
    }

    /// The arrivals of its connections, if there are several.
    pub const fn arrivals(&self) -> Option<Arrivals> {
        match self {
            Self::File { arrivals, .. } => *arrivals,
            _ => None,
        }
    }
}

/// Times of the bursts of an on-off workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Bursts {
    /// Bursts and silences with random or constant lengths.
    Drawn {
        /// Mean length of a burst.
        on: Duration,
        /// Mean length of a silence.
        off: Duration,
        /// Distribution of the lengths of bursts and of silences.
        distribution: Distribution,
    },
    /// Start and end of each burst; ascending, without overlaps.
    Periods(Arc<[[Time; 2]]>),
}

/// A distribution of lengths of time with a given mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the mean.
    Constant,
    /// Exponential.
    Exponential,
    /// Pareto: P(length > x) = (m / x)^shape above the minimum m = mean · (shape − 1) / shape.
    Pareto {
        /// Shape, above 1.
        shape: f64,
    },
}

impl Distribution {
    /// Exponential or constant.
    pub const fn exponential(is_exponential: bool) -> Self {
        if is_exponential { Self::Exponential } else { Self::Constant }
    }
}

/// Connections that begin during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// Mean time from one arrival to the next.
    pub mean_interval: Duration,
    /// Exponentially distributed instead of constant intervals.
    pub exponential: bool,
    /// Number of arrivals; `None` until the end.
    pub count: Option<u64>,
    /// Largest number of connections open at the same time; at least one.
    pub max_open: u32,
}

/// A distribution of message sizes, bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageSize {
    /// The sizes in a file, one after the other.
    Listed(Arc<SizeList>),
    /// Always the same.
    Constant(u64),
    /// Uniform, both ends included.
    Uniform {
        /// Smallest.
        low: u64,
        /// Largest.
        high: u64,
    },
    /// Exponential, at least one byte.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Pareto, at most `max`.
    Pareto {
        /// Smallest.
        min: u64,
        /// Shape.
        shape: f64,
        /// Largest.
        max: u64,
    },
}

impl MessageSize {
    /// The smallest and the largest size, if there is one.
    pub fn range(&self) -> (u64, Option<u64>) {
        match self {
            Self::Listed(list) => {
                let sizes = || list.sizes.iter().copied();
                (sizes().min().unwrap_or(1), sizes().max())
            }
            Self::Constant(size) => (*size, Some(*size)),
            Self::Uniform { low, high } => (*low, Some(*high)),
            Self::Exponential { .. } => (1, None),
            Self::Pareto { min, max, .. } => (*min, Some(*max)),
        }
    }
}

/// Message sizes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeList {
    /// Its path, relative to the scenario file.
    pub file: String,
    /// The sizes, at least one; each at least one byte.
    pub sizes: Vec<u64>,
}

/// Messages of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Its path, relative to the scenario file.
    pub file: String,
    /// Times since the start of the flow, which do not fall, and sizes; at least one.
    pub messages: Vec<(Duration, u64)>,
}
