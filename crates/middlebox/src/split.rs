//! Splits segments into smaller ones, each with the options of the original, as network cards do (Honda et
//! al., "Is it still possible to extend TCP?", IMC 2011, §4.5; RFC 8684 §3.3.1 requires that mappings
//! tolerate it).

use crate::{Behaviour, Outcome, Transit, segment};
use anabranch_base::time::Time;
use anabranch_netem::keys::{Default, InvalidValues, Key, Keyed, Kind, Takes, Value, Values};
use anabranch_wire::tcp::{Flags, Segment};
use anabranch_wire::{Body, Packet, Pattern};

/// The kind in scenarios.
pub static KIND: Kind = Kind {
    name: "split",
    summary: "splits TCP segments into smaller ones, each with the options of the original",
    source: "Honda et al. 2011 §4.5",
    keys: &[Key {
        name: "size",
        takes: Takes::Octets { min: 1, max: 65_535 },
        default: Default::Is("536"),
        doc: "Maximum payload of a segment.",
    }],
};

/// Size of the resulting segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum payload of a segment, bytes.
    pub size: u32,
}

impl Keyed for Settings {
    fn read(values: Values<'_>) -> Result<Self, InvalidValues> {
        Ok(Self { size: values.integer("size") as u32 })
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![("size", Value::Integer(self.size.into()))]
    }
}

/// A middlebox without state.
pub type State<R> = crate::Stateless<Settings, R>;

impl<R: Copy> Behaviour<R> for State<R> {
    fn pass(&mut self, _: Time, mut transit: Transit<R>, outcome: &mut Outcome<R>) {
        let size = self.settings.size;
        let Some(whole) = segment(&mut transit).filter(|segment| segment.payload.len > size) else {
            outcome.send(transit.packet, transit.onward);
            return;
        };
        outcome.changed += 1;
        // The checksum covers the whole mapping, so it must be computed before the split.
        whole.settle(&Pattern);
        let pieces: Vec<Segment> = (0..whole.payload.len)
            .step_by(size as usize)
            .map(|from| piece(whole, from, size.min(whole.payload.len - from)))
            .collect();
        let Packet { source, destination, ecn, .. } = transit.packet;
        for piece in pieces {
            outcome.send(Packet { source, destination, ecn, body: Body::Tcp(piece) }, transit.onward);
        }
    }
}

/// The part of `len` bytes of a segment that begins at `from`. CWR stays with the first part, FIN and PSH with the
/// last.
fn piece(whole: &Segment, from: u32, len: u32) -> Segment {
    let mut piece = whole.clone();
    piece.payload = whole.payload.part(from, len);
    piece.seq = whole.seq.add(from);
    if from + len < whole.payload.len {
        piece.flags = Flags(piece.flags.0 & !(Flags::FIN | Flags::PSH).0);
    }
    if from > 0 {
        piece.flags = Flags(piece.flags.0 & !Flags::CWR.0);
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{data, pass_all, segment_of};
    use anabranch_wire::seq::Serial;

    #[test]
    fn parts_are_consecutive_with_the_whole_mapping() {
        let mut whole = data(5_000, 1_000);
        let Body::Tcp(segment) = &mut whole.body else { panic!("{whole:?}") };
        segment.flags = Flags::ACK | Flags::PSH | Flags::FIN | Flags::CWR;
        let mapping = segment.options.mptcp.dss;
        let outcome = pass_all(crate::Settings::Split(Settings { size: 400 }), [whole]);
        assert_eq!(outcome.changed, 1);
        let pieces: Vec<_> = outcome.sent.iter().map(|(packet, _)| segment_of(packet)).collect();
        let places: Vec<_> = pieces.iter().map(|p| (p.seq, p.payload.offset, p.payload.len)).collect();
        let first = Serial(5_001);
        assert_eq!(places, [(first, 5_000, 400), (first.add(400), 5_400, 400), (first.add(800), 5_800, 200)]);
        let flags: Vec<_> = pieces.iter().map(|piece| piece.flags).collect();
        assert_eq!(flags, [Flags::ACK | Flags::CWR, Flags::ACK, Flags::ACK | Flags::PSH | Flags::FIN]);
        assert!(pieces.iter().all(|piece| piece.options.mptcp.dss == mapping));
    }

    #[test]
    fn small_segment_is_not_split() {
        let outcome = pass_all(crate::Settings::Split(Settings { size: 400 }), [data(0, 400)]);
        assert_eq!((outcome.changed, outcome.sent.len()), (0, 1));
    }
}
