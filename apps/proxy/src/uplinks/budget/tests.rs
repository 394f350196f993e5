use super::*;
use jiff::civil::date;

fn uplinks(budget: &str) -> Vec<Uplink> {
    let text = format!("[[uplink]]\ninterface = \"w0\"\n[uplink.budget]\n{budget}");
    crate::config::Config::parse(&text, "test.toml").unwrap().uplink
}

fn link(index: u32, carried: u64) -> [Link; 1] {
    let mut link = Link::test(index, "w0", true, false);
    link.carried = carried;
    [link]
}

/// Creates settings whose folder does not exist yet.
fn common(purpose: &str) -> Uplinks {
    let state = std::env::temp_dir().join(format!("anabranch-budget-{purpose}-{}", std::process::id()));
    Uplinks { state, ..Uplinks::default() }
}

#[test]
fn periods_begin_on_their_days() {
    let first = |budget: &str, today| period_start(uplinks(budget)[0].budget.as_ref().unwrap(), today);
    let month = "bytes = \"1 GB\"\nfirst_day = 31";
    for (budget, today, since) in [
        ("bytes = \"1 GB\"", date(2026, 11, 23), date(2026, 11, 1)),
        ("bytes = \"1 GB\"\nperiod = \"day\"", date(2026, 11, 23), date(2026, 11, 23)),
        // A Monday, and the Sunday before it.
        ("bytes = \"1 GB\"\nperiod = \"week\"", date(2026, 11, 23), date(2026, 11, 23)),
        ("bytes = \"1 GB\"\nperiod = \"week\"", date(2026, 11, 22), date(2026, 11, 16)),
        ("bytes = \"1 GB\"\nfirst_day = 15", date(2026, 11, 15), date(2026, 11, 15)),
        ("bytes = \"1 GB\"\nfirst_day = 15", date(2027, 1, 14), date(2026, 12, 15)),
        (month, date(2027, 2, 28), date(2027, 2, 28)),
        (month, date(2027, 3, 30), date(2027, 2, 28)),
        (month, date(2028, 2, 28), date(2028, 1, 31)),
        (month, date(2026, 12, 30), date(2026, 11, 30)),
    ] {
        assert_eq!(first(budget, today), since, "{budget} {today}");
    }
}

#[test]
fn bytes_are_counted_once_if_the_counter_is_reset() {
    let uplinks = uplinks("bytes = \"1 kB\"");
    let mut budgets = Budgets::read(&uplinks, &common("count")).unwrap();
    let today = date(2026, 11, 23);
    for (index, counter, sum) in [
        // The bytes before the first count belong to an unknown period, so they do not count.
        (3, 5_000, 0),
        (3, 5_400, 400),
        (3, 5_400, 400),
        // The interface was created again, and its driver reset the counter.
        (4, 100, 500),
        (4, 90, 590),
        (4, 499, 999),
        (4, 500, 1_000),
    ] {
        assert_eq!(budgets.usage(&uplinks[0]), Usage::Always);
        budgets.count(&uplinks, &link(index, counter), today);
        assert_eq!(budgets.carried(&uplinks[0]), sum);
    }
    assert_eq!(budgets.usage(&uplinks[0]), Usage::Standby);
    // The interface was removed; its volume is kept.
    budgets.count(&uplinks, &[], date(2026, 11, 30));
    assert_eq!(budgets.usage(&uplinks[0]), Usage::Standby);
    budgets.count(&uplinks, &link(4, 500), date(2026, 12, 1));
    assert_eq!((budgets.usage(&uplinks[0]), budgets.carried(&uplinks[0])), (Usage::Always, 0));
    budgets.count(&uplinks, &link(4, 600), date(1970, 1, 1));
    budgets.count(&uplinks, &link(4, 700), date(2026, 12, 1));
    assert_eq!(budgets.carried(&uplinks[0]), 200);
}

#[test]
fn clock_far_in_the_future_delays_no_period() {
    let uplinks = uplinks("bytes = \"1 kB\"");
    let mut budgets = Budgets::read(&uplinks, &common("ahead")).unwrap();
    budgets.count(&uplinks, &link(4, 0), date(2026, 11, 20));
    budgets.count(&uplinks, &link(4, 300), date(2026, 11, 21));
    // In 2106, the clock starts a period. Its volume belongs to the current period once the clock is right.
    for (day, counter, carried) in [
        (date(2106, 2, 7), 500, 200),
        (date(2026, 11, 22), 600, 300),
        (date(1970, 1, 1), 700, 400),
        (date(2026, 11, 30), 800, 500),
        (date(2026, 12, 1), 850, 50),
        // A clock that is one day ahead at the end of a month starts the new period a day early, but only once.
        (date(2027, 1, 1), 860, 10),
        (date(2026, 12, 31), 870, 20),
        (date(2027, 1, 1), 880, 30),
    ] {
        budgets.count(&uplinks, &link(4, counter), day);
        assert_eq!(budgets.carried(&uplinks[0]), carried, "{day}");
    }
}

#[test]
fn later_interface_is_counted_from_its_creation() {
    let uplinks = uplinks("bytes = \"1 kB\"\nthen = \"backup\"");
    let mut budgets = Budgets::read(&uplinks, &common("later")).unwrap();
    budgets.count(&uplinks, &[], date(2026, 11, 23));
    assert_eq!(budgets.describe(&uplinks[0]).unwrap(), "w0: 0 B of 1.00 kB a month");
    budgets.count(&uplinks, &link(5, 1_500), date(2026, 11, 23));
    assert_eq!(budgets.usage(&uplinks[0]), Usage::Backup);
    let message = "w0: 1.50 kB of 1.00 kB a month since 2026-11-01; used up";
    assert_eq!(budgets.describe(&uplinks[0]).unwrap(), message);
}

#[test]
fn counts_survive_restart_and_broken_file_is_reported() {
    let (uplinks, common, today) = (uplinks("bytes = \"1 kB\""), common("keep"), date(2026, 11, 23));
    let mut budgets = Budgets::read(&uplinks, &common).unwrap();
    budgets.count(&uplinks, &link(3, 100), today);
    budgets.count(&uplinks, &link(3, 300), today);
    budgets.store(false);
    // Traffic while this program does not run is counted, because the kernel's counter continues.
    let mut budgets = Budgets::read(&uplinks, &common).unwrap();
    budgets.count(&uplinks, &link(3, 450), today);
    assert_eq!(budgets.carried(&uplinks[0]), 350);
    budgets.store(true);
    // After another boot, the interface happens to have the same number, and a higher counter.
    let file = common.state.join(FILE);
    let text = std::fs::read_to_string(&file).unwrap();
    let boot = &budgets.stored.boot;
    assert!(!boot.is_empty());
    std::fs::write(&file, text.replace(boot, "another")).unwrap();
    let mut budgets = Budgets::read(&uplinks, &common).unwrap();
    budgets.count(&uplinks, &link(3, 460), today);
    assert_eq!(budgets.carried(&uplinks[0]), 810);
    std::fs::write(&file, "{").unwrap();
    let message = Budgets::read(&uplinks, &common).unwrap_err().to_string();
    assert!(message.contains("uplinks.json") && message.contains("remove the file"), "{message}");
    // If no uplink has a budget, no file is read.
    let none = crate::config::Config::parse("[[uplink]]\ninterface = \"w0\"", "test.toml").unwrap().uplink;
    assert!(Budgets::read(&none, &common).is_ok());
    std::fs::remove_dir_all(&common.state).unwrap();
}

#[test]
fn failed_writes_are_repeated() {
    let (uplinks, common, today) = (uplinks("bytes = \"1 kB\""), common("full"), date(2026, 11, 23));
    let mut budgets = Budgets::read(&uplinks, &common).unwrap();
    budgets.count(&uplinks, &link(3, 100), today);
    // The path of the folder is a file, so the write fails.
    std::fs::write(&common.state, "").unwrap();
    budgets.store(true);
    std::fs::remove_file(&common.state).unwrap();
    budgets.store(true);
    assert!(common.state.join(FILE).exists());
    std::fs::remove_dir_all(&common.state).unwrap();
}
