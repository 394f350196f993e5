//! Access to payload bytes, for the few mechanisms of a core that depend on them.

use crate::Payload;
use crate::checksum::Checksum;

/// The bytes of a packet that is being passed to a core.
///
/// A core gets the lengths of payloads and not their bytes. A mechanism that depends on the bytes (the
/// checksum of Multipath TCP's mappings, RFC 8684 §3.3.1) reads them through this trait.
pub trait Content {
    /// The checksum state over the bytes of `payload`: a payload of the packet, or a part of one that
    /// [`Payload::part`] returned.
    fn sum(&self, payload: Payload) -> Checksum;

    /// Copies the bytes of such a payload to `out`, which has the payload's length (SCTP's authentication,
    /// RFC 4895 §6.2).
    fn copy(&self, payload: Payload, out: &mut [u8]);
}

/// Payloads whose bytes are the pattern of their offset: [`Payload::fill`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Pattern;

impl Content for Pattern {
    fn sum(&self, payload: Payload) -> Checksum {
        Checksum::new().pattern(payload)
    }

    fn copy(&self, payload: Payload, out: &mut [u8]) {
        payload.fill(out);
    }
}

/// The buffer that a packet was parsed from: the offset of a parsed payload is an index into it.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a>(pub &'a [u8]);

impl<'a> Buffer<'a> {
    /// The bytes of a payload, or of a part of one.
    ///
    /// # Panics
    /// If the payload was not parsed from this buffer.
    pub fn bytes(&self, payload: Payload) -> &'a [u8] {
        let range = usize::try_from(payload.offset).ok().and_then(|start| {
            let end = start.checked_add(payload.len as usize)?;
            self.0.get(start..end)
        });
        range.expect("the payload was parsed from this buffer")
    }
}

impl Content for Buffer<'_> {
    fn sum(&self, payload: Payload) -> Checksum {
        Checksum::new().bytes(self.bytes(payload))
    }

    fn copy(&self, payload: Payload, out: &mut [u8]) {
        out.copy_from_slice(self.bytes(payload));
    }
}
