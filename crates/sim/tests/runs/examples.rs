//! The examples are valid scenarios, and each of their flows delivers data.

use anabranch_sim::RunOptions;
use anabranch_sim::scenario::{self, Scenario};
use std::path::{Path, PathBuf};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

fn read(path: &Path, sets: &[(&str, &str)]) -> Scenario {
    let text = std::fs::read_to_string(path).unwrap();
    let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    scenario::parse(&text, path.to_str().unwrap(), &sets).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn index_names_every_example() {
    let files = examples();
    assert!(files.len() >= 6, "{files:?}");
    let index = std::fs::read_to_string(files[0].with_file_name("README.md")).unwrap();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(index.contains(&format!("({name})")), "examples/README.md does not mention {name}");
    }
}

#[test]
fn every_flow_of_every_example_delivers() {
    for path in examples() {
        let scenario = read(&path, &[]);
        let result = anabranch_sim::run(&scenario, &RunOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for flow in &result.flows {
            let (name, goodput) = (&flow.name, flow.goodput_bps);
            println!("{}: {name} {goodput:.0} bit/s", path.display());
            assert!(goodput > 10_000.0, "{}: {name} got {goodput} bit/s", path.display());
        }
    }
}

/// The settings in the examples' comments.
#[test]
fn settings_in_comments_are_valid() {
    let mut suggestions = 0;
    for path in examples() {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| line.starts_with("#   anabranch run ")) {
            let file = line.split_whitespace().nth(3).unwrap();
            assert!(path.ends_with(file), "{} suggests running {file}", path.display());
            let settings = line.split(" --set ").skip(1).map(|setting| setting.trim_matches('\''));
            let sets: Vec<_> = settings.map(|setting| setting.split_once('=').unwrap()).collect();
            suggestions += sets.len();
            read(&path, &sets);
        }
    }
    assert!(suggestions >= 6);
}
