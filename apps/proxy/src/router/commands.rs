//! Runs the programs `nft` and `ip`, which configure the kernel.

use crate::error::Error;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

/// Runs `nft -f` with a text. The kernel applies the whole text or nothing.
///
/// # Errors
/// If the program is missing or fails; the error contains its message.
pub fn nft(text: &str) -> Result<(), Error> {
    run("nft", &["-f", "-"], text).map(drop)
}

/// Runs `nft` with these arguments and returns its output.
///
/// # Errors
/// If the program is missing or fails; the error contains its message.
pub fn nft_list(arguments: &str) -> Result<String, Error> {
    run("nft", &arguments.split(' ').collect::<Vec<_>>(), "")
}

/// Checks with `nft -c` that the kernel would accept a text, without applying it.
///
/// # Errors
/// If the program is missing or fails; the error contains its message.
pub fn nft_check(text: &str) -> Result<(), Error> {
    run("nft", &["-c", "-f", "-"], text).map(drop)
}

/// Runs `ip` with these arguments and returns its output.
///
/// # Errors
/// If the program is missing or fails; the error contains its message.
pub fn ip(arguments: &str) -> Result<String, Error> {
    run("ip", &arguments.split(' ').collect::<Vec<_>>(), "")
}

fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
    let failed = |error: std::io::Error| {
        let package = if program == "ip" { "iproute2" } else { "nftables" };
        Error::Refused(match error.kind() {
            ErrorKind::NotFound => format!("the program {program} is missing; install the package {package}"),
            _ => format!("cannot run the program {program}: {error}"),
        })
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // Ignore errors: if the program stops reading, its error output contains the reason.
        drop(stdin.write_all(input.as_bytes()));
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.lines().next().unwrap_or("failed without a message");
    Err(Error::Refused(format!("{program} {}: {message}", arguments.join(" "))))
}
