//! The programs `nft` and `ip`, which configure the kernel.

use crate::error::Error;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

/// Hands a text to `nft -f`, all of which is done or nothing.
///
/// # Errors
/// If there is no such program, or what it says.
pub fn nft(text: &str) -> Result<(), Error> {
    run("nft", &["-f", "-"], text).map(drop)
}

/// Runs `nft` with these arguments, and returns what it prints.
///
/// # Errors
/// If there is no such program, or what it says.
pub fn nft_list(arguments: &str) -> Result<String, Error> {
    run("nft", &arguments.split(' ').collect::<Vec<_>>(), "")
}

/// Whether `nft` and the kernel would take a text, which is not done.
///
/// # Errors
/// If there is no such program, or what it says.
pub fn nft_would_take(text: &str) -> Result<(), Error> {
    run("nft", &["-c", "-f", "-"], text).map(drop)
}

/// Runs `ip` with these arguments, and returns what it prints.
///
/// # Errors
/// If there is no such program, or what it says.
pub fn ip(arguments: &str) -> Result<String, Error> {
    run("ip", &arguments.split(' ').collect::<Vec<_>>(), "")
}

fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
    let failed = |error: std::io::Error| {
        let package = if program == "ip" { "iproute2" } else { "nftables" };
        Error::Refused(match error.kind() {
            ErrorKind::NotFound => format!("the program {program} (package {package}) is missing"),
            _ => format!("the program {program} cannot be run: {error}"),
        })
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it reads no more, it says why.
        drop(stdin.write_all(input.as_bytes()));
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("it says nothing");
    Err(Error::Refused(format!("{program} {}: {said}", arguments.join(" "))))
}
