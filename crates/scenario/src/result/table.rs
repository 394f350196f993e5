//! A file of a trace: CSV rows for changed values.

use anabranch_base::time::{Duration, Time};
use core::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Sampling interval of a trace.
pub const INTERVAL: Duration = Duration::from_millis(10);

/// The subject of a row: its number among all subjects of the file, and the columns that identify it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Number.
    pub index: usize,
    /// Columns behind the time.
    pub names: &'a str,
}

/// A destination of bytes: a file, a buffer in memory, or any other.
pub type Sink = Box<dyn Write + Send>;

/// A file with rows for several subjects, written when their values change. Unknown values are empty.
pub struct Table {
    path: PathBuf,
    file: BufWriter<Sink>,
    /// The latest values of each subject.
    latest: Vec<Vec<Option<u64>>>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Table {
    /// Columns of `paths.csv`, behind the time.
    pub const PATHS: &'static str = "flow,path,cwnd_bytes,ssthresh_bytes,srtt_us,outstanding_bytes";
    /// Columns of `queues.csv`, behind the time.
    pub const QUEUES: &'static str = "link,direction,packets,bytes";

    /// Begins a file in a folder.
    ///
    /// # Errors
    ///
    /// The path of the file and the reason.
    pub fn create(folder: &Path, name: &str, columns: &str) -> Result<Self, (PathBuf, io::Error)> {
        let path = folder.join(name);
        match File::create(&path) {
            Ok(file) => Self::begin(path, Box::new(file), columns),
            Err(error) => Err((path, error)),
        }
    }

    /// Begins a file in a sink; `path` is its name in errors.
    ///
    /// # Errors
    ///
    /// The path and the reason.
    pub fn begin(path: PathBuf, sink: Sink, columns: &str) -> Result<Self, (PathBuf, io::Error)> {
        let mut file = BufWriter::new(sink);
        match writeln!(file, "time_s,{columns}") {
            Ok(()) => Ok(Self { path, file, latest: Vec::new() }),
            Err(error) => Err((path, error)),
        }
    }

    /// Writes the values of a subject at a time, if they have changed.
    ///
    /// # Errors
    ///
    /// The path of the file and the reason.
    pub fn row(
        &mut self,
        now: Time,
        subject: Subject<'_>,
        values: &[Option<u64>],
    ) -> Result<(), (PathBuf, io::Error)> {
        let Subject { index, names } = subject;
        if self.latest.len() <= index {
            self.latest.resize(index + 1, Vec::new());
        }
        if self.latest[index] == values {
            return Ok(());
        }
        self.latest[index] = values.to_vec();
        let mut row = format!("{:.9},{names}", now.as_secs_f64());
        for value in values {
            row.push(',');
            row.extend(value.map(|value| value.to_string()));
        }
        self.line(&row)
    }

    /// A whole row, whatever came before.
    ///
    /// # Errors
    ///
    /// The path of the file and the reason.
    pub fn line(&mut self, row: &str) -> Result<(), (PathBuf, io::Error)> {
        writeln!(self.file, "{row}").map_err(|error| (self.path.clone(), error))
    }

    /// Ends the file.
    ///
    /// # Errors
    ///
    /// The path of the file and the reason.
    pub fn finish(&mut self) -> Result<(), (PathBuf, io::Error)> {
        self.file.flush().map_err(|error| (self.path.clone(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_values_are_written_as_a_row() {
        let folder = std::env::temp_dir().join(format!("anabranch-table-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut table = Table::create(&folder, "paths.csv", Table::PATHS).unwrap();
        let subject = |index| Subject { index, names: "F0,A" };
        table.row(Time::ZERO, subject(0), &[Some(1), None]).unwrap();
        table.row(Time::from_secs_f64(0.01), subject(0), &[Some(1), None]).unwrap();
        table.row(Time::from_secs_f64(0.01), subject(1), &[Some(1), None]).unwrap();
        table.row(Time::from_secs_f64(0.02), subject(0), &[Some(1), Some(7)]).unwrap();
        table.finish().unwrap();
        let text = std::fs::read_to_string(folder.join("paths.csv")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let rows: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(rows, ["0.000000000,F0,A,1,", "0.010000000,F0,A,1,", "0.020000000,F0,A,1,7"]);
    }
}
