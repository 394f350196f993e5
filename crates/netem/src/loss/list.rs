//! Loss of listed packets, for cases that have to be repeated exactly.

use super::{Departure, LossModel};
use crate::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use anabranch_base::rng::Rng;
use std::sync::Arc;

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "list",
    summary: "the packets with the numbers in `packets` are lost, and no other",
    source: "",
    keys: &[
        Key {
            name: "packets",
            takes: Takes::Ascending,
            default: Default::Required("[1, 7]"),
            doc: "Numbers of the lost packets, ascending. The first packet that leaves in this direction has number 1.",
        },
        Key {
            name: "data_only",
            takes: Takes::Flag,
            default: Default::Is("false"),
            doc: "Count only packets that carry data of an application: no pure acknowledgements, handshakes and probes.",
        },
    ],
};

/// Settings of the loss of given packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Numbers of the lost packets from 1 on, ascending.
    pub packets: Arc<[u64]>,
    /// Count only packets with data of an application.
    pub data_only: bool,
}

impl Keyed for List {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        let packets = values.ascending("packets");
        if let Some(pair) = packets.windows(2).find(|pair| pair[0] >= pair[1]) {
            let [before, next] = [pair[0], pair[1]];
            let problem =
                format!("must ascend, but {next} follows {before}; sort the numbers and write each once");
            return Err(InvalidValues { keys: &["packets"], problem });
        }
        Ok(Self { packets, data_only: values.flag("data_only") })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("packets", Value::Ascending(self.packets.clone())), ("data_only", Value::Flag(self.data_only))]
    }
}

/// Counts the packets.
#[derive(Clone, Debug)]
pub struct State {
    settings: List,
    /// Number of packets that have been transmitted.
    count: u64,
    /// Index of the next lost packet.
    next: usize,
}

impl State {
    /// A model with these settings; it has no randomness.
    pub const fn new(settings: List, _: Rng) -> Self {
        Self { settings, count: 0, next: 0 }
    }
}

impl LossModel for State {
    fn is_next_lost(&mut self, packet: &Departure) -> bool {
        if self.settings.data_only && !packet.has_data {
            return false;
        }
        self.count += 1;
        let lost = self.settings.packets.get(self.next) == Some(&self.count);
        self.next += usize::from(lost);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::testing::DATA;

    /// The packets, alternately with and without data, that are lost.
    fn lost(data_only: bool) -> Vec<u32> {
        let list = List { packets: Arc::from([1, 2, 5].as_slice()), data_only };
        let mut model = State::new(list, Rng::new(1));
        let packet = |number: u32| Departure { has_data: number % 2 == 1, ..DATA };
        (1..=20).filter(|&number| model.is_next_lost(&packet(number))).collect()
    }

    #[test]
    fn listed_packets_are_lost() {
        assert_eq!(lost(false), [1, 2, 5]);
        // The first, second and fifth packet with data have the numbers 1, 3 and 9.
        assert_eq!(lost(true), [1, 3, 9]);
    }
}
