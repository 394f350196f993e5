//! Prints the connections of captures as JSON: `connections FILE...`.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let report = anabranch_capture::read(&files, &mut |_, _| true)?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
