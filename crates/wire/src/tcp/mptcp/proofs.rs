//! Theorems about the Multipath TCP options ([method](anabranch_proof)).

use super::{Control, DataChecksum, DataNumber, Dss, Mapping, Options};
use anabranch_proof::theorem;

/// A data sequence number of either length.
fn data_number(long: bool, number: u64) -> DataNumber {
    if long { DataNumber::Long(number) } else { DataNumber::Short(number as u32) }
}

theorem! {
    /// For all data sequence signals, the encoding has the announced length, and parsing it returns the signal.
    fn data_sequence_signal_survives_encoding(
        ack: Option<u64>,
        dsn: Option<u64>,
        long: [bool; 2],
        seq: u32,
        len: u16,
        checksum: Option<u16>,
        data_fin: bool,
    ) {
        let mapping = dsn.map(|dsn| Mapping {
            dsn: data_number(long[0], dsn),
            subflow_seq: seq,
            len,
            checksum: checksum.map(DataChecksum::Known),
        });
        let signal = Dss { data_ack: ack.map(|ack| data_number(long[1], ack)), mapping, data_fin };
        let mut out = Vec::with_capacity(64);
        signal.emit(&mut out);
        assert!(out.len() == signal.wire_len() as usize && usize::from(out[1]) == out.len());
        assert!(Dss::parse(&out) == Ok(signal));
    }
}

theorem! {
    /// For all data sequence signals of 12 bytes, parsing returns, and a parsed signal has the length of the bytes.
    fn parsed_data_sequence_signal_has_the_parsed_length(bytes: [u8; 12]) {
        if let Ok(signal) = Dss::parse(&bytes) {
            assert!(signal.wire_len() == 12);
        }
    }
}

theorem! {
    /// For all numbers, a data sequence number is unwrapped to the nearest with its low bits; a long one is unchanged.
    fn data_sequence_number_is_unwrapped_to_the_nearest(number: u64, near: u64) {
        assert!(DataNumber::Long(number).unwrap_near(near) == number);
        let unwrapped = DataNumber::Short(number as u32).unwrap_near(near);
        assert!(unwrapped as u32 == number as u32);
        assert!(unwrapped.wrapping_sub(near).wrapping_add(1 << 31) < 1 << 32);
    }
}

theorem! {
    /// For all numbers and bits, MP_FAIL, MP_FASTCLOSE and MP_TCPRST survive encoding in the announced length.
    fn signals_survive_encoding(number: u64, which: u8, flags: u8, reason: u8) {
        let control = match which % 3 {
            0 => Control::Fail { dsn: number },
            1 => Control::FastClose { receiver_key: number },
            _ => Control::Reset { flags: flags & 15, reason },
        };
        let options = Options { dss: None, others: vec![control] };
        let mut out = Vec::with_capacity(64);
        options.emit(&mut out, |_| {});
        assert!(out.len() == options.dense_len() as usize && usize::from(out[1]) == out.len());
        let mut parsed = Options::default();
        assert!(parsed.parse_option(&out).is_ok() && parsed.others == options.others);
    }
}
