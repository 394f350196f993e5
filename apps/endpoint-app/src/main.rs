//! The program `anabranch-endpoint`: the protocols of this project in user space, on any network.

#[cfg(target_os = "linux")]
mod arguments;
#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod commands;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod output;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod setup;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let status = commands::main(&arguments).unwrap_or_else(|error| {
        eprintln!("anabranch-endpoint: {}", output::printable(&error.to_string()));
        error.status()
    });
    // Exits without waiting for the thread that reads the standard input.
    std::process::exit(status.into())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("anabranch-endpoint: the program needs Linux");
    std::process::exit(1);
}
