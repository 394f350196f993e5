//! Removes options from TCP segments, like middleboxes that do not support these options (Honda et al., "Is it still
//! possible to extend TCP?", IMC 2011, §4.2).

use crate::{Behaviour, Outcome, Transit, segment};
use anabranch_base::time::Time;
use anabranch_netem::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use anabranch_wire::tcp::{Flags, SackBlocks, Segment};

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "strip-options",
    summary: "removes options from TCP segments",
    source: "Honda et al. 2011 §4.2",
    keys: &[
        flag("mptcp", "true", "Remove the options of Multipath TCP (kind 30)."),
        flag("timestamps", "false", "Remove timestamps (RFC 7323)."),
        flag("sack", "false", "Remove SACK-permitted and SACK."),
        flag("window_scale", "false", "Remove the window scale."),
        flag("syn", "true", "Change segments with SYN."),
        flag(
            "data",
            "true",
            "Change all other segments. If options are lost only after the handshake, Multipath TCP falls back or reports a failure.",
        ),
    ],
};

const fn flag(name: &'static str, default: &'static str, doc: &'static str) -> Key {
    Key { name, takes: Takes::Flag, default: Default::Is(default), doc }
}

/// The removed options, and the affected segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Options of Multipath TCP.
    pub mptcp: bool,
    /// Timestamps.
    pub timestamps: bool,
    /// SACK-permitted and SACK.
    pub sack: bool,
    /// Window scale.
    pub window_scale: bool,
    /// Changes segments with SYN.
    pub syn: bool,
    /// Changes all segments without SYN.
    pub data: bool,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        let [mptcp, timestamps, sack, window_scale, syn, data] =
            ["mptcp", "timestamps", "sack", "window_scale", "syn", "data"].map(|key| values.flag(key));
        Ok(Self { mptcp, timestamps, sack, window_scale, syn, data })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("mptcp", Value::Flag(self.mptcp)),
            ("timestamps", Value::Flag(self.timestamps)),
            ("sack", Value::Flag(self.sack)),
            ("window_scale", Value::Flag(self.window_scale)),
            ("syn", Value::Flag(self.syn)),
            ("data", Value::Flag(self.data)),
        ]
    }
}

/// A middlebox without state.
pub type State<R> = crate::Stateless<Settings, R>;

impl<R> State<R> {
    fn strip(&self, segment: &mut Segment) -> bool {
        let Settings { mptcp, timestamps, sack, window_scale, syn, data } = self.settings;
        if !(if segment.flags.intersects(Flags::SYN) { syn } else { data }) {
            return false;
        }
        let before = segment.options.wire_len();
        let options = &mut segment.options;
        if mptcp && !options.mptcp.is_empty() {
            options.mptcp = anabranch_wire::tcp::mptcp::Options::default().into();
        }
        if timestamps {
            options.timestamps = None;
        }
        if sack {
            options.sack_permitted = false;
            options.sack = SackBlocks::default();
        }
        if window_scale {
            options.window_scale = None;
        }
        options.wire_len() != before
    }
}

impl<R> Behaviour<R> for State<R> {
    fn pass(&mut self, _: Time, mut transit: Transit<R>, outcome: &mut Outcome<R>) {
        if let Some(segment) = segment(&mut transit) {
            outcome.changed += u64::from(self.strip(segment));
        }
        outcome.send(transit.packet, transit.onward);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{data, join, pass_all, segment_of};

    const ALL: Settings =
        Settings { mptcp: true, timestamps: false, sack: false, window_scale: false, syn: true, data: true };

    #[test]
    fn only_mptcp_options_are_removed() {
        let mut packets = [join(), data(0, 100)];
        for packet in &mut packets {
            let anabranch_wire::Body::Tcp(segment) = &mut packet.body else { panic!("{packet:?}") };
            segment.options.window_scale = Some(7);
        }
        let outcome = pass_all(crate::Settings::Strip(ALL), packets);
        assert_eq!(outcome.changed, 2);
        for (packet, _) in &outcome.sent {
            let options = &segment_of(packet).options;
            assert!(options.mptcp.is_empty() && options.window_scale == Some(7));
        }
        assert_eq!(segment_of(&outcome.sent[1].0).payload.len, 100);
    }

    #[test]
    fn handshake_options_can_be_kept() {
        let settings = Settings { syn: false, ..ALL };
        let outcome = pass_all(crate::Settings::Strip(settings), [join(), data(0, 100)]);
        assert_eq!(outcome.changed, 1);
        assert!(!segment_of(&outcome.sent[0].0).options.mptcp.is_empty());
        assert!(segment_of(&outcome.sent[1].0).options.mptcp.is_empty());
    }
}
