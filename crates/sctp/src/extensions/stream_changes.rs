//! Pending re-configuration requests (RFC 6525), in both directions.

use crate::requests::{Pending, Requests};
use anabranch_base::time::Time;
use anabranch_endpoint::endpoint::StreamChange;
use anabranch_wire::sctp::{Outcome, Reconfiguration};
use anabranch_wire::seq::Serial;
use std::collections::VecDeque;

/// A request as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub request: Reconfiguration,
    /// True if the peer has responded "in progress".
    pub heard: bool,
    /// Number of responses "in progress" since the peer had acknowledged all data sent before the request.
    pub put_off: u32,
}

/// The peer's reset of its outgoing streams, which waits for data sent before it (RFC 6525 §5.2.2, deferred
/// reset).
#[derive(Clone, Debug)]
pub(crate) struct Deferred {
    pub serial: Serial,
    /// The last TSN before the reset.
    pub last: u64,
    pub streams: Box<[u16]>,
}

/// Pending requests in both directions.
#[derive(Debug)]
pub(crate) struct StreamChanges {
    /// A local request waits until all data written before it has been sent or (for a reset of the TSNs) acknowledged.
    pub requests: Requests<StreamChange, Asked>,
    /// Responses to the peer's last two requests, which may have been in one chunk; sent again if a request is received
    /// again.
    answers: VecDeque<Reconfiguration>,
    pub deferred: Option<Deferred>,
    /// Time until which a request to reset all TSNs and streams waits for its repetition, and the number of requests
    /// sent.
    pub rest_until: Option<Time>,
    pub attempts: u32,
    /// Time until which no new data is sent, so that a reset of the TSNs that the peer has requested finds no
    /// data in flight.
    pub quiet_until: Option<Time>,
}

impl StreamChanges {
    pub const fn new(local: Serial, peer: Serial) -> Self {
        Self {
            requests: Requests::new(local, peer),
            answers: VecDeque::new(),
            deferred: None,
            rest_until: None,
            attempts: 0,
            quiet_until: None,
        }
    }

    /// The response to a recent request of the peer.
    pub fn answer_to(&self, serial: Serial) -> Option<&Reconfiguration> {
        self.answers.iter().find(
            |answer| matches!(answer, Reconfiguration::Response { response, .. } if *response == serial),
        )
    }

    /// Stores the response to a request, and replaces an earlier one.
    pub fn keep(
        &mut self,
        serial: Serial,
        outcome: Outcome,
        next_tsns: Option<(Serial, Serial)>,
    ) -> Reconfiguration {
        self.answers.retain(
            |answer| !matches!(answer, Reconfiguration::Response { response, .. } if *response == serial),
        );
        if self.answers.len() == 2 {
            self.answers.pop_front();
        }
        let answer = Reconfiguration::Response { response: serial, outcome, next_tsns };
        self.answers.push_back(answer.clone());
        answer
    }

    /// True while the response to a request to reset all TSNs and streams is outstanding and the peer may have
    /// performed the reset. Data that arrives now may have been sent before or after the reset; the two cannot be
    /// distinguished.
    pub fn awaits_numbers(&self) -> bool {
        let Some(Pending { change, sent: Some(sent), .. }) = &self.requests.pending else { return false };
        *change == StreamChange::ResetAll && !sent.what.heard
    }

    /// Time of the next timer event.
    pub fn due(&self) -> Time {
        let rest = self.rest_until.unwrap_or(Time::MAX);
        self.requests.due().min(rest).min(self.quiet_until.unwrap_or(Time::MAX))
    }
}
