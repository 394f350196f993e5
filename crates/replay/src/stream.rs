//! A recording as a stream of bytes: a mark, then records, each behind its length.

use super::call::Call;
use super::error::ReplayError;
use super::fields::{Fields, Put as _};
use super::image::Image;
use super::record::{Context, Counts, Head, Record};
use anabranch_base::time::Time;
use anabranch_host::ConnectionId;
use std::io::{self, Read, Write};

/// The first bytes of a recording; the version of the format follows.
const MARK: [u8; 7] = *b"anabrec";
/// The version of the format.
const FORMAT: u8 = 1;
/// Longest record, bytes.
const MAX_RECORD_BYTES: usize = 16 << 20;

/// Writes a recording. After an error it writes no more, and [`finish`](Self::finish) returns the error.
pub struct Writer {
    out: Box<dyn Write + Send>,
    context: Context,
    counts: Counts,
    failure: Option<io::Error>,
    frame: Vec<u8>,
}

impl Writer {
    /// Begins a recording.
    ///
    /// # Errors
    /// If the start of the recording cannot be written.
    pub fn new(out: Box<dyn Write + Send>, head: &Head) -> io::Result<Self> {
        let (context, counts) = (Context::new(), Counts::default());
        let mut writer = Self { out, context, counts, failure: None, frame: Vec::new() };
        writer.out.write_all(&MARK)?;
        writer.out.write_all(&[FORMAT])?;
        writer.record(|_, frame| {
            head.put(frame);
            Ok(())
        });
        writer.failure.take().map_or(Ok(writer), Err)
    }

    /// Records a call.
    pub fn call(&mut self, now: Time, call: &Call) {
        self.counts.calls += 1;
        self.record(|context, frame| {
            if context.put_call(now, call, frame) {
                Ok(())
            } else {
                Err("it has settings of a protocol that a recording cannot contain".to_owned())
            }
        });
    }

    /// Records an arrival.
    pub fn arrival(&mut self, now: Time, image: Result<&Image, &'static str>) {
        self.counts.arrivals += 1;
        self.record(|context, frame| {
            context.put_arrival(now, image?, frame);
            Ok(())
        });
    }

    /// Records the checksums of the last arrival.
    pub fn sums(&mut self, sums: &[u16]) {
        self.record(|_, frame| {
            Context::put_sums(sums, frame);
            Ok(())
        });
    }

    /// Records the bytes of writes.
    pub fn data(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.record(|_, frame| {
            Context::put_data(id, bytes, frame);
            Ok(())
        });
    }

    /// Records a packet that is sent.
    pub fn sent(&mut self, image: &Image, digest: Option<u32>) {
        self.counts.sent += 1;
        self.record(|context, frame| {
            context.put_sent(image, digest, frame);
            Ok(())
        });
    }

    /// Records a reading of the clock.
    pub fn clock(&mut self, now: Time) {
        self.counts.calls += 1;
        self.record(|context, frame| {
            context.put_clock(now, frame);
            Ok(())
        });
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The first error that occurred when the recording was written.
    pub fn finish(mut self) -> io::Result<()> {
        let counts = self.counts;
        self.record(|_, frame| {
            Context::put_end(counts, frame);
            Ok(())
        });
        self.failure.map_or_else(|| self.out.flush(), Err)
    }

    fn record(&mut self, put: impl FnOnce(&mut Context, &mut Vec<u8>) -> Result<(), String>) {
        if self.failure.is_some() {
            return;
        }
        self.frame.clear();
        let written = match put(&mut self.context, &mut self.frame) {
            Ok(()) if self.frame.len() > MAX_RECORD_BYTES => {
                Err(io::Error::other(format!("a record is longer than {MAX_RECORD_BYTES} bytes")))
            }
            Ok(()) => {
                let mut len = Vec::new();
                len.put_number(self.frame.len() as u64);
                self.out.write_all(&len).and_then(|()| self.out.write_all(&self.frame))
            }
            Err(reason) => Err(io::Error::other(reason)),
        };
        self.failure = written.err();
    }
}

/// Reads a recording.
pub struct Reader<R> {
    input: R,
    context: Context,
    counts: Counts,
    frame: Vec<u8>,
    /// Number of bytes read.
    position: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the start of a recording.
    ///
    /// # Errors
    /// If the input is no recording of this format.
    pub fn new(input: R) -> Result<(Self, Head), ReplayError> {
        let (context, counts) = (Context::new(), Counts::default());
        let mut reader = Self { input, context, counts, frame: Vec::new(), position: 0 };
        let mut mark = [0; MARK.len() + 1];
        for at in 0..mark.len() {
            mark[at] = reader.byte()?.ok_or(ReplayError::NoRecording)?;
            if at < MARK.len() && mark[at] != MARK[at] {
                return Err(ReplayError::NoRecording);
            }
        }
        if mark[MARK.len()] != FORMAT {
            return Err(ReplayError::Format { found: mark[MARK.len()], known: FORMAT });
        }
        reader.fill_frame()?;
        let head = Head::read(Fields(&reader.frame)).map_err(|_| reader.damaged())?;
        Ok((reader, head))
    }

    /// The next record; `None` behind the last one.
    ///
    /// # Errors
    /// If the recording ends without its last record, is damaged, or cannot be read.
    pub fn read(&mut self) -> Result<Option<Record>, ReplayError> {
        self.fill_frame()?;
        let record = self.context.read(Fields(&self.frame)).map_err(|_| self.damaged())?;
        match record {
            Record::Call(_) | Record::Clock => self.counts.calls += 1,
            Record::Arrival(..) => self.counts.arrivals += 1,
            Record::Sent(..) => self.counts.sent += 1,
            Record::Data(..) | Record::Sums(_) => {}
            Record::End(counts) => {
                let is_whole = counts == self.counts && self.byte()?.is_none();
                return if is_whole { Ok(None) } else { Err(self.damaged()) };
            }
        }
        Ok(Some(record))
    }

    /// The time of the last record.
    pub const fn now(&self) -> Time {
        self.context.now
    }

    /// The numbers of records until now.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The error of a record without its form.
    pub const fn damaged(&self) -> ReplayError {
        ReplayError::Damaged { position: self.position }
    }

    /// Reads the next record into the frame.
    fn fill_frame(&mut self) -> Result<(), ReplayError> {
        let mut len = Vec::new();
        while len.last().is_none_or(|byte| *byte >= 0x80) && len.len() < 10 {
            len.push(self.byte()?.ok_or(ReplayError::Truncated { packets: self.counts.sent })?);
        }
        let len: usize = Fields(&len).small().map_err(|_| self.damaged())?;
        if len > MAX_RECORD_BYTES {
            return Err(self.damaged());
        }
        self.frame.clear();
        // Memory grows with the bytes that exist, not with the length that the file claims.
        let read =
            (&mut self.input).take(len as u64).read_to_end(&mut self.frame).map_err(ReplayError::Read)?;
        self.position += read as u64;
        if read == len { Ok(()) } else { Err(ReplayError::Truncated { packets: self.counts.sent }) }
    }

    /// The next byte; `None` at the end of the file.
    fn byte(&mut self) -> Result<Option<u8>, ReplayError> {
        let mut byte = [0];
        loop {
            match self.input.read(&mut byte) {
                Ok(read) => {
                    self.position += read as u64;
                    return Ok((read > 0).then_some(byte[0]));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReplayError::Read(error)),
            }
        }
    }
}
