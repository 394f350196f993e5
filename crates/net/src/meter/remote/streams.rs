//! An SCTP flow of a plan: a stream of an association.

use super::delivery::Delivery;
use super::options::FlowOptions;
use anabranch_base::rng::Rng;
use anabranch_multipath::congestion::{self, Choice};
use anabranch_sctp::Config;

/// Smallest buffer of an association, bytes: that of RFC 9260 §3.3.2 for a receive window, and a few packets.
const MIN_BUFFER_BYTES: u64 = 4096;

/// Largest buffer of an association, bytes. The process allocates it, at the request of any client.
pub const MAX_BUFFER_BYTES: u64 = 64 << 20;

/// An SCTP flow: a stream of an association.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Index of the first flow of the association.
    pub first: usize,
    /// Number of the stream.
    pub stream: u16,
    /// Settings of the association.
    pub config: Box<Config>,
    /// Order and reliability of the messages of client and server.
    pub delivery: [Delivery; 2],
}

impl StreamPlan {
    /// A flow with a separate association, which other flows may join later.
    ///
    /// # Errors
    ///
    /// If an option is invalid; the text is a sentence.
    pub fn new(config: &Config, options: &FlowOptions, rng: &Rng) -> Result<Self, String> {
        let congestion = match &options.congestion {
            None => config.congestion,
            Some(name) => Choice::find(name).ok_or_else(|| unknown_control(name))?,
        };
        let [send_buffer, receive_buffer] = [
            options.send_buffer.unwrap_or(config.send_buffer),
            options.receive_buffer.unwrap_or(config.receive_buffer),
        ];
        let is_valid = |bytes: &u64| (MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES).contains(bytes);
        if let Some(bytes) = [send_buffer, receive_buffer].iter().find(|bytes| !is_valid(bytes)) {
            return Err(format!(
                "a buffer of an association has {MIN_BUFFER_BYTES} to {MAX_BUFFER_BYTES} bytes, but not {bytes}"
            ));
        }
        let config = config
            .clone()
            .congestion(congestion)
            .send_buffer(send_buffer)
            .receive_buffer(receive_buffer)
            .nagle(options.nagle)
            .partial_reliability(true);
        let delivery = ["client", "server"].map(|end| Delivery::new(options, rng.fork("delivery").fork(end)));
        Ok(Self { first: 0, stream: 0, config: Box::new(config), delivery })
    }
}

fn unknown_control(name: &str) -> String {
    let known: Vec<_> = congestion::all().map(|entry| entry.name).collect();
    format!("unknown congestion control {name}; with sctp use one of {}", known.join(", "))
}
