//! Command line of the program, and a full disk.

use super::program::PROGRAM;
use std::process::{Command, Stdio};

/// Runs the program; returns exit status, standard output and standard error.
fn run(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(PROGRAM).args(words).output().expect("the program can be run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn options_may_have_any_order_and_form() {
    let there = "--config=/none-such/proxy.toml";
    for words in [
        vec!["socks", there],
        vec!["check", there, "--json"],
        vec!["check", "--json", "--config", "/none-such/proxy.toml"],
        vec!["router", there, "--print"],
        vec!["router", "--print", there],
        vec!["uplinks", there, "--print"],
    ] {
        let (status, _, message) = run(&words);
        assert_eq!(status, Some(2), "{words:?}");
        assert_eq!(message, "anabranch-proxy: /none-such/proxy.toml: no such file\n", "{words:?}");
    }
    for words in [&["socks", "--help"][..], &["-h"], &["check", "--help"], &[]] {
        let (status, printed, _) = run(words);
        assert!(
            status == Some(0) && printed.starts_with("Multipath TCP for hosts without it\n"),
            "{words:?}"
        );
    }
    for (words, message) in [
        (&["check", "--to"][..], "--to needs HOST:PORT"),
        (&["check", "--to", "x:1", "--config", "y"], "--to HOST:PORT or --config FILE, but not both"),
        (&["check", "--config", "y", "--to", "x:1"], "--to HOST:PORT or --config FILE, but not both"),
        (&["socks", "--config", "y", "z"], "unexpected argument \"z\"; remove it"),
        (&["sock"], "unknown command \"sock\"; did you mean \"socks\"?"),
        (&["socks", "--listen=1"], "unknown option \"--listen\"; see anabranch-proxy --help"),
        (&["socks", "--confg", "y"], "unknown option \"--confg\"; did you mean \"--config\"?"),
    ] {
        let (status, _, all) = run(words);
        assert!(status == Some(2) && all.contains(message) && all.lines().count() == 1, "{words:?} {all}");
    }
}

#[test]
fn full_disk_is_reported() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has the file");
    let child = Command::new(PROGRAM).arg("--version").stdout(full).stderr(Stdio::piped()).spawn();
    let output = child.and_then(std::process::Child::wait_with_output).expect("the program can be run");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && message.starts_with("anabranch-proxy: cannot print: "),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
}
