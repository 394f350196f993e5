use super::*;

fn mistake(text: &str) -> String {
    Config::parse(text, "proxy.toml").expect_err("a mistake").to_string()
}

#[test]
fn missing_settings_have_defaults() {
    let socks = Config::parse("[socks]", "proxy.toml").unwrap().socks.expect("it is there");
    assert_eq!(socks.listen[0].as_ref(), &"127.0.0.1:1080".parse().unwrap());
    let text = "[limits]\nconnect_timeout = \"1500 ms\"\nmax_connections = 5";
    let Config { limits, socks, reverse, router, watch, .. } = Config::parse(text, "proxy.toml").unwrap();
    assert!(socks.is_none() && reverse.is_empty() && router.is_none() && watch.is_none());
    assert_eq!(limits.handshake_timeout, Seconds::of(10));
    assert_eq!((limits.connect_timeout.duration().as_millis(), limits.max_connections), (1500, 5));
}

/// The shipped file has every setting, with its default.
#[test]
fn the_file_that_is_shipped_has_every_setting() {
    let text = include_str!("../../dist/proxy.toml");
    let Config { socks, reverse, router, limits, watch, .. } = Config::parse(text, "proxy.toml").unwrap();
    let socks = socks.expect("it is there");
    assert!(router.is_none(), "that is another machine's");
    assert_eq!((socks.users.len(), limits), (1, Limits::default()));
    assert_eq!(reverse[0].health_interval, health_interval());
    let watch = watch.expect("it is there");
    let default = Watch::default();
    assert_eq!(
        (watch.listen.as_ref(), watch.beyond_loopback),
        (default.listen.as_ref(), default.beyond_loopback)
    );
    for key in [
        "proxy_protocol",
        "health_interval",
        "max_per_source",
        "listen",
        "multipath_upstream",
        "allow",
        "deny",
        "[[socks.user]]",
    ] {
        assert!(text.contains(key), "{key}");
    }
}

#[test]
fn shipped_router_file_equals_defaults() {
    let text = include_str!("../../dist/router.toml");
    let of = |text| Config::parse(text, "router.toml").expect("no mistake");
    let shipped = of(text);
    let bare = of("[router]\ninterfaces = [\"lan0\"]\nvia = { proxy = \"proxy.example.org:1080\" }");
    let settings = |config: &Config| {
        let Router { port, mark, table, install, bypass, .. } = config.router.clone().expect("it is there");
        (
            port,
            mark.into_inner(),
            table.into_inner(),
            install,
            bypass.networks,
            bypass.ports,
            bypass.names.len(),
        )
    };
    assert_eq!(settings(&shipped), settings(&bare));
    assert_eq!(shipped.limits, bare.limits);
}

#[test]
fn shipped_converter_file_has_every_setting() {
    let text = include_str!("../../dist/convert.toml");
    let Config { convert, limits, .. } = Config::parse(text, "convert.toml").unwrap();
    let convert = convert.expect("it is there");
    let bare = Config::parse("[convert]", "convert.toml").unwrap().convert.expect("it is there");
    assert_eq!((convert.users.len(), limits), (1, Limits::default()));
    assert_eq!((convert.cookies, convert.multipath_upstream), (bare.cookies, bare.multipath_upstream));
    assert_eq!((convert.clients.len(), bare.clients.len()), (0, 0));
    assert_eq!(bare.listen[0].as_ref(), &"127.0.0.1:1082".parse().unwrap());
    for key in ["listen", "clients", "cookies", "multipath_upstream", "allow", "deny", "[[convert.user]]"] {
        assert!(text.contains(key), "{key}");
    }
}

/// A cookie proves the client's address and not its identity.
#[test]
fn open_converter_is_refused() {
    let of = |more: &str| {
        Config::parse(&format!("[convert]\nlisten = [\"127.0.0.1:1\", \"[::]:1\"]\n{more}"), "proxy.toml")
    };
    for (more, said) in [
        ("", "proxy.toml:2: [::]:1 is open to everyone"),
        ("cookies = true", "proxy.toml:2: [::]:1 is open to everyone"),
        ("clients = [\"10.0.0.0/8\", \"::/0\"]", "proxy.toml:3: ::/0 contains every address"),
        ("[[convert.user]]\nname = \"\"\npassword = \"b\"", "proxy.toml:3: a name has 1 to 255 bytes"),
    ] {
        let refused = of(more).unwrap_err().to_string();
        assert!(refused.contains(said) && !refused.contains('\n'), "{more}: {refused}");
    }
    let user = "[[convert.user]]\nname = \"a\"\npassword = \"b\"";
    assert!(of(user).is_ok() && of("clients = [\"10.0.0.0/8\"]\ncookies = true").is_ok());
    assert!(of(user).unwrap().has_secrets() && !of("clients = [\"10.0.0.0/8\"]").unwrap().has_secrets());
}

#[test]
fn protocol_of_via_defaults_to_socks() {
    let of = |more: &str| {
        let text = format!("[socks.via]\nproxy = \"there:1\"\n{more}");
        let config = Config::parse(&text, "proxy.toml").map_err(|error| error.to_string())?;
        Ok::<_, String>(config.socks.unwrap().via.unwrap().into_inner().protocol)
    };
    assert_eq!(of(""), Ok(Protocol::Socks));
    assert_eq!(of("protocol = \"convert\""), Ok(Protocol::Convert));
    assert!(of("protocol = \"http\"").unwrap_err().starts_with("proxy.toml:3: unknown value \"http\""));
}

#[test]
fn beyond_loopback_permits_any_watch_address() {
    let text = "[watch]\nlisten = \"[::]:9180\"\nbeyond_loopback = true";
    assert!(Config::parse(text, "proxy.toml").is_ok() && Config::parse("[watch]", "proxy.toml").is_ok());
}

#[test]
fn open_relay_is_refused() {
    let open = "[socks]\nallow = []\nlisten = [\"127.0.0.1:1\", \"0.0.0.0:1080\"]";
    assert_eq!(
        mistake(open),
        "proxy.toml:3: 0.0.0.0:1080 is open to everyone; add users in [[socks.user]], or listen on 127.0.0.1"
    );
    let user = "\n[[socks.user]]\nname = \"alice\"\npassword = \"a secret\"";
    assert!(Config::parse(&format!("{open}{user}"), "proxy.toml").is_ok());
    assert!(Config::parse("[socks]\nlisten = [\"127.8.0.1:1\", \"[::1]:1\"]", "proxy.toml").is_ok());
}

#[test]
fn errors_name_their_line() {
    for (text, said) in [
        ("[socks]\nlisten = [\"here\"]", "proxy.toml:2: "),
        ("[socks]\n\nlisten = []", "has no address to listen on"),
        ("[socks]\nlsten = []", "proxy.toml:2: unknown key \"lsten\""),
        ("[limits]\nhandshake = \"1 s\"", "proxy.toml:2: unknown key \"handshake\""),
        ("[sock]", "proxy.toml:1: unknown key \"sock\""),
        ("[socks]\ndeny = [\"10.0.0.0/40\"]", "proxy.toml:2: \"10.0.0.0/40\" is no network"),
        ("[limits]\nhandshake_timeout = \"10\"", "\"10\" is no time; write one as \"10 s\""),
        ("[limits]\nhandshake_timeout = \"0 s\"", "is no time"),
        ("[socks\n", "proxy.toml:1: "),
        ("[[reverse]]\nname = \"web\"\nlisten = []\nto = []", "web has no address to listen on"),
        ("[[reverse]]\nname = \"web\"\nlisten = [\"[::]:1\"]\nto = []", "web has no server"),
        ("[router]\ninterfaces = []\nvia = { proxy = \"a:1\" }", "proxy.toml:2: interfaces is empty"),
        (
            "[router]\ninterfaces = [\"a\\\" }\"]\nvia = { proxy = \"a:1\" }",
            "is not the name of an interface",
        ),
        ("[router]\ninterfaces = [\"a\"]", "proxy.toml:1: the key \"via\" is missing"),
        (
            "[router]\ninterfaces = [\"a\"]\nvia = { proxy = \"a\" }",
            "proxy.toml:3: \"a\" is no host and port",
        ),
        (
            "[router]\ninterfaces = [\"a\"]\nvia = { proxy = \"a:1\" }\nmark = 0",
            "proxy.toml:4: mark must have at least one bit",
        ),
        (
            "[router]\ninterfaces = [\"a\"]\nvia = { proxy = \"a:1\" }\ntable = 254",
            "proxy.toml:4: table 254 belongs to the kernel",
        ),
        (
            "[router]\ninterfaces = [\"a\"]\nvia = { proxy = \"a:1\" }\nbypass = { names = [\"a b\"] }",
            "proxy.toml:4: \"a b\" is not the name of a host",
        ),
        (
            "[watch]\nlisten = \"0.0.0.0:9180\"",
            "proxy.toml:2: 0.0.0.0:9180 shows other machines all connections",
        ),
        ("[limits]\n\nmax_connections = 0", "proxy.toml:3: must be at least 1, but is 0"),
        ("[limits]\nmax_per_source = 0", "proxy.toml:2: must be at least 1, but is 0"),
        ("[socks.via]\nproxy = \"there\"", "proxy.toml:1: \"there\" is no host and port"),
        (
            "[socks]\ndeny = [\"1.1.1.1\"]\nvia = { proxy = \"there:1\" }",
            "proxy.toml:3: with via the other proxy",
        ),
        (
            "[[socks.user]]\nname = \"a\"\npassword = \"\"",
            "proxy.toml:1: a password has 1 to 255 bytes, this one 0",
        ),
        (
            "[[socks.user]]\nname = \"a\"\npassword = \"b\"\n[[socks.user]]\nname = \"a\"\npassword = \"c\"",
            "proxy.toml:4: the user a is given twice",
        ),
    ] {
        let sentence = mistake(text);
        assert!(sentence.contains(said) && !sentence.contains('\n'), "{text}: {sentence}");
    }
}

#[test]
fn world_readable_password_is_refused_and_not_shown() {
    let text = "[[socks.user]]\nname = \"alice\"\npassword = \"hunter2\"";
    let path = std::env::temp_dir().join(format!("anabranch-proxy-{}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let read_with = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Config::read(&path)
    };
    let (open, closed) = (read_with(0o644), read_with(0o640));
    std::fs::remove_file(&path).unwrap();
    assert!(open.expect_err("others may read it").to_string().contains("chmod o= "));
    assert!(!format!("{:?}", closed.expect("only its group may")).contains("hunter2"));
    assert!(Config::read(&path).expect_err("it has gone").to_string().ends_with("no such file"));
}

#[test]
fn uplinks_probe_the_other_proxy_by_default() {
    let probed = |text: &str| {
        let text = format!("[[uplink]]\ninterface = \"w0\"\n{text}");
        Config::parse(&text, "uplinks.toml")
            .unwrap()
            .probed()
            .into_iter()
            .map(|target| target.address.to_string())
            .collect::<Vec<_>>()
    };
    let router = "[router]\ninterfaces = [\"lan0\"]\nvia = { proxy = \"192.0.2.9:1080\" }\n";
    assert!(probed("").is_empty());
    assert_eq!(probed(router), ["192.0.2.9:1080"]);
    assert!(probed("[socks.via]\nproxy = \"proxy.example.org:1080\"\n").is_empty());
    let named = "[uplinks]\nprobe = [\"198.51.100.7:443\", \"[2001:db8::7]:443\"]\n";
    assert_eq!(probed(&format!("{router}{named}")), ["198.51.100.7:443", "[2001:db8::7]:443"]);
    assert!(probed(&format!("{router}[uplinks]\nprobe = []\n")).is_empty());
}

#[test]
fn uplinks_are_read_and_mistakes_are_reported() {
    let text = include_str!("../../dist/uplinks.toml");
    let Config { uplink, uplinks, .. } = Config::parse(text, "uplinks.toml").unwrap();
    assert_eq!((uplink.len(), uplinks.table.as_ref()), (2, Uplinks::default().table.as_ref()));
    assert_eq!((uplink[0].usage, uplink[1].usage), (Usage::default(), Usage::Backup));
    let budget = uplink[1].budget.as_ref().unwrap();
    assert_eq!(
        (budget.bytes.number(), budget.period, *budget.then.as_ref()),
        (20_000_000_000, Period::Month, Usage::Standby)
    );
    assert_eq!(uplinks.state, Uplinks::default().state);
    assert_eq!(uplinks.dead_after.as_ref(), Uplinks::default().dead_after.as_ref());
    for (text, said) in [
        ("[[uplink]]\ninterface = \"a b\"", "uplinks.toml:2: \"a b\" is not the name of an interface"),
        ("[[uplink]]\ninterface = \"lo\"", "lo cannot be an uplink"),
        (
            "[[uplink]]\ninterface = \"w0\"\n[[uplink]]\ninterface = \"w0\"",
            "uplinks.toml:4: the uplink w0 is given twice",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\ngateway = \"0.0.0.0\"",
            "uplinks.toml:3: 0.0.0.0 cannot be a gateway",
        ),
        ("[[uplink]]\ninterface = \"w0\"\nuse = \"standby\"", "use = \"standby\""),
        ("[[uplink]]\ninterface = \"w0\"\nuse = \"often\"", "unknown value"),
        (
            "[[uplink]]\ninterface = \"w0\"\n[uplinks]\ntable = 252",
            "uplinks.toml:4: [uplinks] table = 252: 2 tables",
        ),
        ("[[uplink]]\ninterface = \"w0\"\n[uplinks]\ntable = 4294967295", "are not to be had"),
        (
            "[[uplink]]\ninterface = \"w0\"\n[uplinks]\nprobe = [\"127.0.0.1:1080\"]",
            "uplinks.toml:4: 127.0.0.1:1080 cannot be reached over an uplink",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\n[uplinks]\ndead_after = \"100 ms\"",
            "uplinks.toml:4: dead_after is at least 300 ms",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\nbudget = { bytes = \"20\" }",
            "uplinks.toml:3: \"20\" is no amount of data; write one as \"20 GB\"",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\nbudget = { bytes = \"1 GB\", period = \"day\", first_day = 2 }",
            "uplinks.toml:3: first_day needs period = \"month\", but the period is a day",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\nbudget = { bytes = \"1 GB\", first_day = 32 }",
            "uplinks.toml:3: first_day must be from 1 to 31, but is 32",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\nbudget = { bytes = \"1 GB\", then = \"always\" }",
            "uplinks.toml:3: a budget of w0 changes nothing",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\n[[uplink]]\ninterface = \"w1\"\nuse = \"standby\"\nbudget = { bytes = \"1 GB\" }",
            "uplinks.toml:4: a budget of w1 changes nothing",
        ),
    ] {
        let refused = Config::parse(text, "uplinks.toml").unwrap_err().to_string();
        assert!(refused.contains(said), "{said}: {refused}");
    }
}

#[test]
fn two_cannot_listen_at_one_address() {
    let both = |first: &str, second: &str| {
        let one = |name: &str, listen: &str| {
            format!("[[reverse]]\nname = \"{name}\"\nlisten = [\"{listen}\"]\nto = [\"192.0.2.1:80\"]\n")
        };
        one("web", first) + &one("mail", second)
    };
    assert_eq!(
        mistake(&both("127.0.0.1:80", "127.0.0.1:80")),
        "proxy.toml: [[reverse]] mail listens on 127.0.0.1:80, as [[reverse]] web does already"
    );
    for second in ["127.0.0.2:80", "127.0.0.1:81"] {
        Config::parse(&both("127.0.0.1:80", second), "proxy.toml").expect(second);
    }
    Config::parse(&both("127.0.0.1:0", "127.0.0.1:0"), "proxy.toml").expect("the kernel chooses two");
}
