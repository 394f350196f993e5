//! Unpacking in steps.

use crate::base64;
use crate::lzma::Decoder;

/// Bytes of the length.
const LENGTH_BYTES: usize = 4;
/// Bytes of the output of one step.
const STEP_BYTES: usize = 1 << 15;
/// Largest length. A module of the laboratory has three million bytes.
const MAX_LENGTH: usize = 1 << 26;

/// The text was changed after it was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// Data in the process of being unpacked.
///
/// ```
/// use anabranch_unpack::Unpacking;
///
/// // `python lab/pack.py` of a file that contains "Anabranch".
/// let mut unpacking = Unpacking::new(b"CQAAAAAgnGVNX4trNEgO/5qk//4S4AA=")?;
/// while !unpacking.step()? {}
/// assert_eq!(unpacking.output(), b"Anabranch");
/// # Ok::<(), anabranch_unpack::Damaged>(())
/// ```
pub struct Unpacking {
    packed: Vec<u8>,
    decoder: Decoder,
    output: Vec<u8>,
}

impl Unpacking {
    /// Begins to unpack a text.
    ///
    /// # Errors
    ///
    /// [`Damaged`] if the text is no base64, too short, or has a length above 64 MiB.
    pub fn new(text: &[u8]) -> Result<Self, Damaged> {
        let packed = base64::decode(text).ok_or(Damaged)?;
        let (length, input) = packed.split_first_chunk::<LENGTH_BYTES>().ok_or(Damaged)?;
        let length = u32::from_le_bytes(*length) as usize;
        let decoder = Decoder::new(input).filter(|_| length <= MAX_LENGTH).ok_or(Damaged)?;
        Ok(Self { packed, decoder, output: vec![0; length] })
    }

    /// Unpacks a part, and returns whether all is unpacked.
    ///
    /// # Errors
    ///
    /// [`Damaged`] if a part repeats bytes before the first or behind the last one.
    pub fn step(&mut self) -> Result<bool, Damaged> {
        let limit = self.output.len().min(self.decoder.done + STEP_BYTES);
        let input = self.packed.get(LENGTH_BYTES..).ok_or(Damaged)?;
        self.decoder.step(input, &mut self.output, limit).ok_or(Damaged)?;
        Ok(self.decoder.done == self.output.len())
    }

    /// The unpacked data; zeros behind the part that is unpacked.
    pub fn output(&self) -> &[u8] {
        &self.output
    }
}
