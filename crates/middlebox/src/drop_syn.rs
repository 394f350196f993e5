//! Drops SYNs with options unknown to a firewall (Honda et al., "Is it still possible to extend TCP?", IMC
//! 2011, §4.2).

use crate::{Behaviour, Outcome, Transit, segment};
use anabranch_base::time::Time;
use anabranch_netem::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use anabranch_wire::tcp::Flags;
use anabranch_wire::tcp::mptcp::Control;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "drop-syn",
    summary: "drops SYNs with options of Multipath TCP, as some firewalls do",
    source: "Honda et al. 2011 §4.2",
    keys: &[
        Key {
            name: "capable",
            takes: Takes::Flag,
            default: Default::Is("true"),
            doc: "Drop SYNs with MP_CAPABLE: after some retransmissions, the connection falls back to plain TCP.",
        },
        Key {
            name: "join",
            takes: Takes::Flag,
            default: Default::Is("true"),
            doc: "Drop SYNs with MP_JOIN: the connection continues without the path.",
        },
    ],
};

/// The SYNs that are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// SYNs with `MP_CAPABLE`.
    pub capable: bool,
    /// SYNs with `MP_JOIN`.
    pub join: bool,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { capable: values.flag("capable"), join: values.flag("join") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("capable", Value::Flag(self.capable)), ("join", Value::Flag(self.join))]
    }
}

/// A middlebox without state.
pub type State<R> = crate::Stateless<Settings, R>;

impl<R> Behaviour<R> for State<R> {
    fn pass(&mut self, _: Time, mut transit: Transit<R>, outcome: &mut Outcome<R>) {
        let Settings { capable, join } = self.settings;
        let refused = segment(&mut transit).is_some_and(|segment| {
            segment.flags.intersects(Flags::SYN)
                && segment.options.mptcp.others.iter().any(|option| match option {
                    Control::Capable(_) => capable,
                    Control::Join(_) => join,
                    _ => false,
                })
        });
        if refused {
            outcome.drop(transit.packet, transit.onward);
        } else {
            outcome.send(transit.packet, transit.onward);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{back, data, join, pass, pass_all};
    use crate::{Middlebox, fixture};

    #[test]
    fn joins_are_dropped_only_with_the_setting() {
        let both = |join| crate::Settings::DropSyn(Settings { capable: true, join });
        let outcome = pass_all(both(true), [join(), data(0, 100)]);
        assert_eq!((outcome.dropped.len(), outcome.sent.len()), (1, 1));
        let outcome = pass_all(both(false), [join(), data(0, 100)]);
        assert_eq!((outcome.dropped.len(), outcome.sent.len()), (0, 2));
    }

    #[test]
    fn packets_of_other_links_pass_unchanged() {
        let mut middlebox = Middlebox::new(&crate::Settings::DropSyn(Settings { capable: true, join: true }));
        assert_eq!(pass(&mut middlebox, fixture::at(0), back(join(), 1)).sent.len(), 1);
    }
}
