//! Body of the fuzz target for recordings: reading a hostile one ends with an outcome, or with an error of one sentence.

use super::hosts::{Task, run};
use anabranch_replay::{Outcome, Place, replay};
use anabranch_settings::protocol::Protocol;
use anabranch_settings::protocols::Protocols;
use std::sync::OnceLock;

/// The first bytes of a recording of the present format.
const MARK: &[u8] = b"anabrec\x01";

/// Reads a recording that is derived from the input. The first byte selects a valid recording. Each three
/// further bytes change it: two are the position of a byte, one is its new value. If no recording has this
/// number, the input follows the mark and is read as a recording.
pub fn recording(program: &[u8]) {
    let Some((&first, rest)) = program.split_first() else { return };
    let Some(valid) = valid().get(usize::from(first)) else {
        read(&[MARK, rest].concat());
        return;
    };
    let mut changed = valid.clone();
    for change in rest.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[place] = change[2];
    }
    read(&changed);
}

/// Reads a recording; the protocol cores do not panic.
fn read(recording: &[u8]) {
    match replay(recording) {
        Ok(Outcome { difference: Some(difference), .. }) => {
            assert!(!matches!(difference.place, Place::Panic { .. }), "{difference}");
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
}

/// Recordings of both ends of short transfers, each with payload and without.
fn valid() -> &'static [Vec<u8>] {
    static VALID: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    VALID.get_or_init(|| {
        let kinds = [Protocols::TCP, Protocols::MPTCP, Protocols::SCTP, Protocols::CMT_SCTP];
        let tasks = kinds.into_iter().flat_map(|kind| {
            [false, true].map(|has_data| Task {
                protocol: Protocol::new(kind).into(),
                bytes: [3_000, 1_000],
                loss: 0.02,
                outage: None,
                abort: None,
                seed: 1,
                has_data,
            })
        });
        tasks.flat_map(|task| run(&task).recordings).collect()
    })
}
