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

/// Number of scenarios that are drawn at random.
const RANDOM_SCENARIOS: u64 = 50;

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
        for seed in 1..=5 {
            cases.push(json!({ "text": text, "seed": seed, "orders": [], "step_ns": 0 }));
            cases.push(json!({ "text": text, "seed": seed, "orders": orders, "step_ns": 250_000_000 }));
        }
    }
    cases
}

/// Scenarios with protocols, rates, delays, queues and losses that are drawn at random, from a fixed seed.
fn drawn() -> Vec<Value> {
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        // Knuth's constants (MMIX); the high bits have the longest periods.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut cases = Vec::new();
    for seed in 1..=RANDOM_SCENARIOS {
        let mut text = vec!["duration = \"3 s\"\n".to_owned()];
        for link in ["one", "two"] {
            let queue = ["fifo", "codel", "red", "fq-codel"][draw(4) as usize];
            let (rate, delay, loss) = (1 + draw(30), 1 + draw(80), draw(20));
            text.push(format!(
                "[[link]]\nname = \"{link}\"\nbetween = [\"a\", \"b\"]\nrate = \"{rate} Mbit/s\"\n\
                 delay = \"{delay} ms\"\nqueue = {{ kind = \"{queue}\" }}\n\
                 loss = {{ model = \"bernoulli\", rate = 0.0{loss:02} }}\n"
            ));
        }
        let protocol = ["tcp", "mptcp", "sctp", "cmt-sctp"][draw(4) as usize];
        text.push(format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"{protocol}\"\n"));
        let order = json!({ "link": "one", "set": { "rate": format!("{} Mbit/s", 1 + draw(30)) } });
        let orders = json!([[draw(3_000_000_000), order.to_string()]]);
        let step_ns = 10_000_000 * (1 + draw(50));
        cases.push(json!({ "text": text.concat(), "seed": seed, "orders": orders, "step_ns": step_ns }));
    }
    cases
}

/// The digest of a case in the native library, without steps between the orders.
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
    let mut cases = cases();
    cases.extend(drawn());
    assert!(cases.len() >= 200, "{} cases", cases.len());
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
