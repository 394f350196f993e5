//! Forged changes of a packet in flight.

use super::Input;
use anabranch_wire::seq::Serial;
use anabranch_wire::tcp::mptcp::{Control, DataChecksum, DataNumber, Dss, Mapping, Options};
use anabranch_wire::tcp::{Flags, SackBlocks, Segment, Timestamps};
use anabranch_wire::{Body, Ecn, Packet, Payload};

/// A small step up or down, or a large one.
fn step(input: &mut Input<'_>) -> u32 {
    let value = u32::from(input.word());
    match input.byte() % 4 {
        0 => value % 3000,
        1 => (value % 3000).wrapping_neg(),
        2 => value << 16,
        _ => value % 3,
    }
}

fn number(number: DataNumber, by: u32) -> DataNumber {
    match number {
        DataNumber::Short(low) => DataNumber::Short(low.wrapping_add(by)),
        DataNumber::Long(number) if by & 1 == 0 => DataNumber::Long(number.wrapping_add(by.into())),
        DataNumber::Long(number) => DataNumber::Long(number.wrapping_sub(u64::from(by) << 8)),
    }
}

fn signals(options: &mut Options, input: &mut Input<'_>) {
    let by = step(input);
    let dss = options.dss.get_or_insert(Dss { data_ack: None, mapping: None, data_fin: false });
    match input.byte() % 10 {
        0 => options.dss = None,
        1 => dss.data_ack = dss.data_ack.map(|ack| number(ack, by)),
        2 => dss.data_fin ^= true,
        3 => {
            let empty =
                Mapping { dsn: DataNumber::Long(by.into()), subflow_seq: by, len: by as u16, checksum: None };
            let mapping = dss.mapping.get_or_insert(empty);
            match by % 4 {
                0 => mapping.dsn = number(mapping.dsn, by),
                1 => mapping.subflow_seq = mapping.subflow_seq.wrapping_add(by),
                2 => mapping.len = (by >> 2) as u16,
                _ => mapping.checksum = mapping.checksum.map(|_| DataChecksum::Known(by as u16)),
            }
        }
        4 => options.others.push(Control::RemoveAddress(vec![by as u8, (by >> 8) as u8 & 1])),
        5 => options.others.push(Control::Priority { backup: by & 1 == 1 }),
        6 => options.others.push(Control::Fail { dsn: by.into() }),
        7 => options.others.push(Control::FastClose { receiver_key: by.into() }),
        8 => drop(options.others.pop()),
        _ => *options = Options::default(),
    }
}

fn sack(segment: &mut Segment, input: &mut Input<'_>) {
    let mut blocks = SackBlocks::default();
    for _ in 0..input.byte() % 4 {
        let left = segment.ack.add(step(input));
        blocks.push(left, left.add(step(input)));
    }
    segment.options.sack = blocks;
}

/// Changes one field or property of a packet.
pub fn mutate(packet: &mut Packet, input: &mut Input<'_>) {
    let Body::Tcp(segment) = &mut packet.body else { return };
    let by = step(input);
    match input.byte() % 14 {
        0 => segment.seq = segment.seq.add(by),
        1 => segment.ack = segment.ack.add(by),
        2 => segment.window = by as u16,
        3 => segment.flags.0 ^= 1 << (by % 8),
        4 => segment.flags = Flags::RST | Flags::ACK,
        5 => segment.payload = Payload::new(segment.payload.offset, by % 1460),
        6 => segment.payload.offset = segment.payload.offset.wrapping_add(by.into()) % (1 << 40),
        7 => sack(segment, input),
        8 => {
            let Timestamps { value, echo } = segment.options.timestamps.unwrap_or_default();
            let value = value.wrapping_add(by);
            segment.options.timestamps = Some(Timestamps { value, echo: echo.wrapping_sub(by >> 4) });
        }
        9 => segment.options.timestamps = None,
        10 => {
            segment.options.mss = Some(by as u16);
            segment.options.window_scale = Some((by >> 8) as u8);
        }
        11 => packet.ecn = Ecn::Ce,
        12 => segment.ack = Serial(by),
        _ => signals(&mut segment.options.mptcp, input),
    }
}
