//! Options of a flow, for its connection and its traffic.

use crate::meter::flow::Transport;
use crate::meter::schedule::Schedule;
use anabranch_base::time::{Duration, Time};
use serde::{Deserialize, Serialize};

/// Latest time of a switch, seconds: a week.
const MAX_SWITCH_S: f64 = 7.0 * 24.0 * 3600.0;

/// Maximum length of the name of a flow, characters.
const MAX_NAME_CHARS: usize = 255;

/// Options of a flow; the default uses the kernels' settings, without Nagle's algorithm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowOptions {
    /// Number of the flow in the results; `None` for the smallest number that no other flow has.
    pub id: Option<u32>,
    /// Name of the flow in the results; `None` for the name in the scenario.
    pub description: Option<String>,
    /// Congestion control at both ends.
    pub congestion: Option<String>,
    /// Send buffer, bytes.
    pub send_buffer: Option<u64>,
    /// Receive buffer, bytes.
    pub receive_buffer: Option<u64>,
    /// Collect small segments (Nagle's algorithm).
    pub nagle: bool,
    /// Maximum segment size (`TCP_MAXSEG`), bytes.
    pub mss: Option<u32>,
    /// Type of service or traffic class of its packets.
    pub type_of_service: Option<u8>,
    /// The scheduler of Multipath TCP that both kernels must have.
    pub scheduler: Option<String>,
    /// The path manager that both kernels must have.
    pub path_manager: Option<String>,
    /// Splits longer messages into ones of at most this length, bytes.
    pub max_message: Option<u64>,
    /// Times at which the flow turns on and off.
    pub on_off: Option<OnOff>,
    /// True if a broken connection does not end the test.
    pub tolerates_abort: bool,
    /// True if the flow writes over the connection of the previous flow, in the other direction.
    pub shares_connection: bool,
    /// Flows with the same number are streams of one association.
    pub association: Option<u32>,
    /// Fraction of the messages that may overtake others, from 0 to 1.
    pub unordered: f64,
    /// Fraction of the messages with a limit on their retransmission, from 0 to 1.
    pub unreliable: f64,
    /// Lifetime of these messages, milliseconds.
    pub rtx_timeout_ms: Option<u32>,
    /// Maximum number of retransmissions of these messages; with neither limit they are sent once.
    pub rtx_trials: Option<u8>,
}

/// Times at which a flow turns on and off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OnOff {
    /// Times in seconds: the flow turns on at the first, off at the second, and so on.
    pub times_s: Vec<f64>,
    /// The times repeat after the last one.
    pub repeats: bool,
}

impl FlowOptions {
    /// Checks the options of a flow with this transport; returns the times at which the flow is on, or `None`
    /// for always.
    ///
    /// # Errors
    ///
    /// If an option is invalid; the text is a sentence.
    pub fn check(&self, transport: Transport) -> Result<Option<Schedule>, String> {
        self.check_protocol(transport)?;
        self.check_delivery()?;
        let is_name = |text: &String| {
            (1..=MAX_NAME_CHARS).contains(&text.chars().count()) && !text.chars().any(char::is_control)
        };
        if self.description.as_ref().is_some_and(|text| !is_name(text)) {
            return Err(format!("a description has 1 to {MAX_NAME_CHARS} printable characters"));
        }
        if self.max_message == Some(0) {
            return Err("a message has at least 1 byte".to_owned());
        }
        let Some(OnOff { times_s, repeats }) = &self.on_off else { return Ok(None) };
        if let Some(time) = times_s.iter().find(|time| !(0.0..=MAX_SWITCH_S).contains(*time)) {
            return Err(format!(
                "a flow turns on and off between 0 and {MAX_SWITCH_S} s, but not at {time} s"
            ));
        }
        let times: Vec<_> = times_s.iter().map(|&time| Time::ZERO + Duration::from_secs_f64(time)).collect();
        Schedule::new(&times, *repeats).map(Some)
    }

    /// Checks that the transport has the options.
    fn check_protocol(&self, transport: Transport) -> Result<(), String> {
        let is_sctp = transport == Transport::Sctp;
        let is_stream = matches!(transport, Transport::Tcp | Transport::Mptcp);
        let of_sctp = self.unordered != 0.0
            || self.unreliable != 0.0
            || self.rtx_timeout_ms.is_some()
            || self.rtx_trials.is_some();
        let foreign = [
            (
                "a congestion control",
                "tcp, mptcp and sctp",
                self.congestion.is_some() && !is_stream && !is_sctp,
            ),
            ("a maximum segment size", "tcp and mptcp", self.mss.is_some() && !is_stream),
            ("an association", "sctp", self.association.is_some() && !is_sctp),
            ("a fraction or limit of retransmitted messages", "sctp", of_sctp && !is_sctp),
        ];
        match foreign.iter().find(|(_, _, is_foreign)| *is_foreign) {
            Some((option, protocols, _)) => {
                Err(format!("{option} is an option of {protocols}; omit it with {}", transport.name()))
            }
            None => Ok(()),
        }
    }

    /// Checks the fractions of messages, and their limits.
    fn check_delivery(&self) -> Result<(), String> {
        for (name, fraction) in [("unordered", self.unordered), ("unreliable", self.unreliable)] {
            if !(0.0..=1.0).contains(&fraction) {
                return Err(format!(
                    "the fraction of {name} messages is {fraction}; write a number from 0 to 1"
                ));
            }
        }
        let limits = [self.rtx_timeout_ms.is_some(), self.rtx_trials.is_some()];
        if limits == [true, true] {
            return Err("rtx_timeout and rtx_trials exclude each other; omit one of them".to_owned());
        }
        if limits != [false, false] && self.unreliable == 0.0 {
            return Err("rtx_timeout and rtx_trials need unreliable messages; add unreliable=1".to_owned());
        }
        Ok(())
    }
}
