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
        let is_stream = matches!(transport, Transport::Tcp | Transport::Mptcp);
        let of_streams = [
            ("a congestion control", self.congestion.is_some()),
            ("a maximum segment size", self.mss.is_some()),
        ];
        if let Some((option, _)) = of_streams.iter().find(|(_, given)| *given && !is_stream) {
            return Err(format!("{option} is an option of tcp and mptcp; omit it with {}", transport.name()));
        }
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
}
