//! The WebAssembly module gives the digests of the native library, with steps and changes of links.
//!
//! The test needs node and the module. `cargo build --profile lab -p anabranch-lab --target wasm32-unknown-unknown` builds
//! it; the test does not, because that takes minutes.

use anabranch_lab::Lab;
use anabranch_testkit::machine::skip;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The module, if it has been built: next to the folder of this test's profile.
fn module() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let module = target.join("wasm32-unknown-unknown/lab/anabranch_lab.wasm");
    module.is_file().then_some(module)
}

/// Scenarios of the package's examples and of variants, cut to a few seconds.
fn scenarios() -> Vec<String> {
    let folder = Path::new(ROOT).join("python/anabranch/examples");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the examples exist")
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let mut texts = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("the file is text");
        // The module reads no files, so traces of rates are left out. So are events, which are later than the
        // end of the shortened run.
        if !text.contains("trace = ") && !text.contains("[[event]]") {
            texts.push(text);
        }
    }
    texts
}

/// A run for both: scenario, seed, changes of links and the length of a step.
fn cases() -> Vec<Value> {
    let shorter = |text: &str| {
        let lines = text.lines().map(|line| match line.split_once(" = ") {
            Some(("duration", _)) => "duration = \"8 s\"",
            Some(("warmup", _)) => "warmup = \"1 s\"",
            _ => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let mut cases = Vec::new();
    for text in scenarios() {
        let text = shorter(&text);
        let mut lab = Lab::default();
        let Ok(run) = lab.open(&text, None) else {
            panic!("{}", Lab::check(&text));
        };
        let network: Value = serde_json::from_str(&lab.network(run).expect("an open run")).expect("JSON");
        let link = &network["links"][0]["name"];
        let order = |set: Value| json!({ "link": link, "set": set }).to_string();
        let orders = json!([
            [2_000_000_000_u64, order(json!({ "queue": { "kind": "codel" }, "jitter": "1 ms" }))],
            [3_500_000_000_u64, order(json!({ "loss": { "model": "bernoulli", "rate": 0.01 } }))],
            [3_500_000_000_u64, order(json!({ "queue": { "kind": "fq-codel", "limit": "40 packets" } }))],
        ]);
        for seed in 1..=4 {
            cases.push(json!({ "text": text, "seed": seed, "orders": [], "step_ns": 0 }));
            cases.push(json!({ "text": text, "seed": seed, "orders": orders, "step_ns": 250_000_000 }));
        }
    }
    cases
}

/// The digest of a run in the native library, without steps between the changes of links.
fn native(case: &Value) -> String {
    let mut lab = Lab::default();
    let text = case["text"].as_str().expect("a text");
    let run = lab.open(text, case["seed"].as_u64()).expect("a valid scenario");
    for order in case["orders"].as_array().expect("a list") {
        lab.step_until(run, order[0].as_f64().expect("a time")).expect("an open run");
        lab.order(run, order[1].as_str().expect("a text")).expect("a valid order");
    }
    lab.step_until(run, f64::INFINITY).expect("an open run");
    lab.digest(run).expect("an open run")
}

#[test]
fn wasm_digests_equal_native_ones() {
    let Some(module) = module() else {
        return skip("the WebAssembly module is not built");
    };
    if Command::new("node").arg("--version").output().is_err() {
        return skip("node is missing");
    }
    let cases = cases();
    assert!(cases.len() >= 40, "{} cases", cases.len());
    let mut node = Command::new("node")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests.mjs"))
        .arg(module)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let input = serde_json::to_vec(&cases).expect("JSON");
    node.stdin.take().expect("a pipe").write_all(&input).expect("node reads");
    let output = node.wait_with_output().expect("node ends");
    assert!(output.status.success());
    let digests = String::from_utf8(output.stdout).expect("text");
    let digests: Vec<_> = digests.lines().collect();
    let native: Vec<_> = cases.iter().map(native).collect();
    assert_eq!(digests, native);
}
