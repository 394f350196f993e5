//! Variants: a scenario with settings equals the scenario with these values in its text.

use anabranch_lab::Lab;
use anabranch_testkit::scenario_text::{LazyText, ScenarioText};

static SCENARIO: LazyText = LazyText::new(|| {
    ScenarioText::new("duration = '1 s'").link("wire", ["client", "server"], "rate = '8 Mbit/s'").flow(
        "F",
        ["client", "server"],
        "protocol = 'tcp'",
    )
});

fn variant(settings: &[&str]) -> String {
    serde_json::json!({ "scenario": &*SCENARIO, "settings": settings }).to_string()
}

fn digest(lab: &mut Lab, run: u32) -> String {
    lab.step_until(run, f64::INFINITY).expect("an open run");
    lab.digest(run).expect("an open run")
}

#[test]
fn variant_equals_text_with_its_values() {
    let mut lab = Lab::default();
    let settings = variant(&["link.wire.rate=2 Mbit/s", r#"link.wire.queue={ kind = "codel" }"#]);
    let run = lab.open_variant(&settings, Some(3)).expect("a valid variant");
    let text = SCENARIO.replace("\"8 Mbit/s\"", "\"2 Mbit/s\"\nqueue = { kind = \"codel\" }");
    let written = lab.open(&text, Some(3)).expect("a valid scenario");
    let plain = lab.open_variant(&variant(&[]), None).expect("a valid variant");
    let original = lab.open(&SCENARIO, None).expect("a valid scenario");
    assert_eq!(digest(&mut lab, run), digest(&mut lab, written));
    assert_eq!(digest(&mut lab, plain), digest(&mut lab, original));
}

#[test]
fn later_setting_wins() {
    let mut lab = Lab::default();
    let both = variant(&["link.wire.rate=2 Mbit/s", "link.wire.rate=3 Mbit/s"]);
    let both = lab.open_variant(&both, None).expect("a valid variant");
    let last = lab.open_variant(&variant(&["link.wire.rate=3 Mbit/s"]), None).expect("a valid variant");
    assert_eq!(digest(&mut lab, both), digest(&mut lab, last));
}

#[test]
fn invalid_variants_are_refused() {
    let mut lab = Lab::default();
    let mut refusal = |text: &str| lab.open_variant(text, None).expect_err("an invalid variant").message;
    assert_eq!(
        refusal(&variant(&["link.wire.rate"])),
        "link.wire.rate: the value is missing; write KEY=VALUE"
    );
    assert!(refusal(&variant(&["link.wir.rate=2 Mbit/s"])).contains("did you mean \"wire\"?"));
    assert!(refusal(&variant(&["flow.F.scheduler=blest"])).contains("scheduler"));
    assert!(refusal("{}").starts_with("not a scenario with settings: missing field"));
    assert!(refusal(r#"{"scenario": "", "settings": [], "seed": 1}"#).contains("unknown field"));
}

#[test]
fn coupled_controls_are_listed() {
    let names: Vec<String> = serde_json::from_str(&Lab::coupled()).expect("a list of names");
    assert!(names.iter().any(|name| name == "lia") && names.iter().any(|name| name == "olia"), "{names:?}");
    assert!(!names.iter().any(|name| name == "reno" || name == "cubic"), "{names:?}");
}
