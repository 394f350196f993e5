use super::*;

fn config_error(text: &str) -> String {
    Config::parse(text, "proxy.toml").expect_err("an error").to_string()
}

#[test]
fn missing_settings_have_defaults() {
    let socks = Config::parse("[socks]", "proxy.toml").unwrap().socks.expect("the table exists");
    assert_eq!(socks.listen[0].as_ref(), &"127.0.0.1:1080".parse().unwrap());
    let text = "[limits]\nconnect_timeout = \"1500 ms\"\nmax_connections = 5";
    let Config { limits, socks, reverse, router, watch, .. } = Config::parse(text, "proxy.toml").unwrap();
    assert!(socks.is_none() && reverse.is_empty() && router.is_none() && watch.is_none());
    assert_eq!(limits.handshake_timeout, Seconds::of(10));
    assert_eq!((limits.connect_timeout.duration().as_millis(), limits.max_connections), (1500, 5));
}

/// The shipped file has every setting, with its default.
#[test]
fn shipped_file_has_every_setting() {
    let text = include_str!("../../dist/proxy.toml");
    let Config { socks, reverse, router, limits, watch, .. } = Config::parse(text, "proxy.toml").unwrap();
    let socks = socks.expect("the table exists");
    assert!(router.is_none(), "the router runs on another machine");
    assert_eq!((socks.users.len(), limits), (1, Limits::default()));
    assert_eq!((reverse[0].health_interval, reverse[0].balance), (Seconds::of(5), Balance::First));
    let watch = watch.expect("the table exists");
    let default = Watch::default();
    assert_eq!(
        (watch.listen.as_ref(), watch.beyond_loopback),
        (default.listen.as_ref(), default.beyond_loopback)
    );
    for key in [
        "proxy_protocol",
        "accept_proxy",
        "balance",
        "weight",
        "[[reverse.host]]",
        "names",
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
    let parse = |text| Config::parse(text, "router.toml").expect("a valid file");
    let shipped = parse(text);
    let bare = parse("[router]\ninterfaces = [\"lan0\"]\nvia = { proxy = \"proxy.example.org:1080\" }");
    let settings = |config: &Config| {
        let Router { port, mark, table, install, bypass, .. } =
            config.router.clone().expect("the table exists");
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
    let convert = convert.expect("the table exists");
    let bare = Config::parse("[convert]", "convert.toml").unwrap().convert.expect("the table exists");
    assert_eq!((convert.users.len(), limits), (1, Limits::default()));
    assert_eq!((convert.cookies, convert.multipath_upstream), (bare.cookies, bare.multipath_upstream));
    assert_eq!((convert.clients.len(), bare.clients.len()), (0, 0));
    assert_eq!(bare.listen[0].as_ref(), &"127.0.0.1:1082".parse().unwrap());
    for key in ["listen", "clients", "cookies", "multipath_upstream", "allow", "deny", "[[convert.user]]"] {
        assert!(text.contains(key), "{key}");
    }
}

/// A cookie proves the address of a client, but not that the client is permitted.
#[test]
fn open_converter_is_refused() {
    let parse = |more: &str| {
        Config::parse(&format!("[convert]\nlisten = [\"127.0.0.1:1\", \"[::]:1\"]\n{more}"), "proxy.toml")
    };
    for (more, message) in [
        ("", "proxy.toml:2: [::]:1 is open to everyone"),
        ("cookies = true", "proxy.toml:2: [::]:1 is open to everyone"),
        ("clients = [\"10.0.0.0/8\", \"::/0\"]", "proxy.toml:3: ::/0 contains every address"),
        ("[[convert.user]]\nname = \"\"\npassword = \"b\"", "proxy.toml:3: a name must have 1 to 255 bytes"),
    ] {
        let refused = parse(more).unwrap_err().to_string();
        assert!(refused.contains(message) && !refused.contains('\n'), "{more}: {refused}");
    }
    let user = "[[convert.user]]\nname = \"a\"\npassword = \"b\"";
    assert!(parse(user).is_ok() && parse("clients = [\"10.0.0.0/8\"]\ncookies = true").is_ok());
    assert!(
        parse(user).unwrap().has_secrets() && !parse("clients = [\"10.0.0.0/8\"]").unwrap().has_secrets()
    );
}

#[test]
fn protocol_of_via_defaults_to_socks() {
    let parse = |more: &str| {
        let text = format!("[socks.via]\nproxy = \"there:1\"\n{more}");
        let config = Config::parse(&text, "proxy.toml").map_err(|error| error.to_string())?;
        Ok::<_, String>(config.socks.unwrap().via.unwrap().into_inner().protocol)
    };
    assert_eq!(parse(""), Ok(Protocol::Socks));
    assert_eq!(parse("protocol = \"convert\""), Ok(Protocol::Convert));
    assert!(
        parse("protocol = \"http\"")
            .unwrap_err()
            .starts_with("proxy.toml:3: protocol: unknown value \"http\"")
    );
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
        config_error(open),
        "proxy.toml:3: 0.0.0.0:1080 is open to everyone; add users in [[socks.user]], or listen on 127.0.0.1"
    );
    let user = "\n[[socks.user]]\nname = \"alice\"\npassword = \"a secret\"";
    assert!(Config::parse(&format!("{open}{user}"), "proxy.toml").is_ok());
    assert!(Config::parse("[socks]\nlisten = [\"127.8.0.1:1\", \"[::1]:1\"]", "proxy.toml").is_ok());
}

#[test]
fn errors_name_their_line() {
    for (text, message) in [
        ("[socks]\nlisten = [\"here\"]", "proxy.toml:2: "),
        ("[socks]\n\nlisten = []", "has no address to listen on"),
        ("[socks]\nlsten = []", "proxy.toml:2: unknown key \"lsten\""),
        ("[limits]\nhandshake = \"1 s\"", "proxy.toml:2: unknown key \"handshake\""),
        ("[sock]", "proxy.toml:1: unknown key \"sock\""),
        ("[socks]\ndeny = [\"10.0.0.0/40\"]", "proxy.toml:2: \"10.0.0.0/40\" is not a network"),
        ("[limits]\nhandshake_timeout = \"10\"", "\"10\" is not a duration; write for example \"10 s\""),
        ("[limits]\nhandshake_timeout = \"0 s\"", "is not a duration"),
        ("[socks\n", "proxy.toml:1: "),
        ("[[reverse]]\nname = \"web\"\nlisten = []\nto = []", "web has no address to listen on"),
        ("[[reverse]]\nname = \"web\"\nlisten = [\"[::]:1\"]\nto = []", "web has no server"),
        ("[router]\ninterfaces = []\nvia = { proxy = \"a:1\" }", "proxy.toml:2: interfaces is empty"),
        (
            "[router]\ninterfaces = [\"a\\\" }\"]\nvia = { proxy = \"a:1\" }",
            "is not the name of an interface",
        ),
        ("[router]\ninterfaces = [\"a\"]", "proxy.toml:1: the key \"via\" is missing"),
        ("[router]\ninterfaces = [\"a\"]\nvia = { proxy = \"a\" }", "proxy.toml:3: \"a\" is not HOST:PORT"),
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
            "proxy.toml:4: \"a b\" is not a host name",
        ),
        (
            "[watch]\nlisten = \"0.0.0.0:9180\"",
            "proxy.toml:2: 0.0.0.0:9180 lets other machines see all connections",
        ),
        ("[limits]\n\nmax_connections = 0", "proxy.toml:3: must be at least 1, but is 0"),
        ("[limits]\nmax_per_source = 0", "proxy.toml:2: must be at least 1, but is 0"),
        ("[socks.via]\nproxy = \"there\"", "proxy.toml:1: \"there\" is not HOST:PORT"),
        (
            "[socks]\ndeny = [\"1.1.1.1\"]\nvia = { proxy = \"there:1\" }",
            "proxy.toml:3: with via, the upstream proxy",
        ),
        (
            "[[socks.user]]\nname = \"a\"\npassword = \"\"",
            "proxy.toml:1: a password must have 1 to 255 bytes, but this one has 0",
        ),
        (
            "[[socks.user]]\nname = \"a\"\npassword = \"b\"\n[[socks.user]]\nname = \"a\"\npassword = \"c\"",
            "proxy.toml:4: the user a is given twice",
        ),
    ] {
        let sentence = config_error(text);
        assert!(sentence.contains(message) && !sentence.contains('\n'), "{text}: {sentence}");
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
    assert!(!format!("{:?}", closed.expect("only owner and group may read the file")).contains("hunter2"));
    assert!(Config::read(&path).expect_err("the file was removed").to_string().ends_with("no such file"));
}

#[test]
fn uplinks_probe_the_upstream_proxy_by_default() {
    let probe_targets = |text: &str| {
        let text = format!("[[uplink]]\ninterface = \"w0\"\n{text}");
        Config::parse(&text, "uplinks.toml")
            .unwrap()
            .probe_targets()
            .into_iter()
            .map(|target| target.address.to_string())
            .collect::<Vec<_>>()
    };
    let router = "[router]\ninterfaces = [\"lan0\"]\nvia = { proxy = \"192.0.2.9:1080\" }\n";
    assert!(probe_targets("").is_empty());
    assert_eq!(probe_targets(router), ["192.0.2.9:1080"]);
    assert!(probe_targets("[socks.via]\nproxy = \"proxy.example.org:1080\"\n").is_empty());
    let named = "[uplinks]\nprobe = [\"198.51.100.7:443\", \"[2001:db8::7]:443\"]\n";
    assert_eq!(probe_targets(&format!("{router}{named}")), ["198.51.100.7:443", "[2001:db8::7]:443"]);
    assert!(probe_targets(&format!("{router}[uplinks]\nprobe = []\n")).is_empty());
}

#[test]
fn uplinks_are_read_and_errors_reported() {
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
    for (text, message) in [
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
            "uplinks.toml:4: [uplinks] needs 2 free routing tables from 252 on",
        ),
        ("[[uplink]]\ninterface = \"w0\"\n[uplinks]\ntable = 4294967295", "free routing tables"),
        (
            "[[uplink]]\ninterface = \"w0\"\n[uplinks]\nprobe = [\"127.0.0.1:1080\"]",
            "uplinks.toml:4: 127.0.0.1:1080 cannot be reached over an uplink",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\n[uplinks]\ndead_after = \"100 ms\"",
            "uplinks.toml:4: dead_after must be at least 300 ms",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\nbudget = { bytes = \"20\" }",
            "uplinks.toml:3: \"20\" is not an amount of data; write for example \"20 GB\"",
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
            "uplinks.toml:3: the budget of w0 has no effect",
        ),
        (
            "[[uplink]]\ninterface = \"w0\"\n[[uplink]]\ninterface = \"w1\"\nuse = \"standby\"\nbudget = { bytes = \"1 GB\" }",
            "uplinks.toml:4: the budget of w1 has no effect",
        ),
    ] {
        let refused = Config::parse(text, "uplinks.toml").unwrap_err().to_string();
        assert!(refused.contains(message), "{message}: {refused}");
    }
}

#[test]
fn listening_address_is_used_once() {
    let both = |first: &str, second: &str| {
        let one = |name: &str, listen: &str| {
            format!("[[reverse]]\nname = \"{name}\"\nlisten = [\"{listen}\"]\nto = [\"192.0.2.1:80\"]\n")
        };
        one("web", first) + &one("mail", second)
    };
    assert_eq!(
        config_error(&both("127.0.0.1:80", "127.0.0.1:80")),
        "proxy.toml: [[reverse]] mail listens on 127.0.0.1:80, which [[reverse]] web already uses; change one of the addresses"
    );
    for second in ["127.0.0.2:80", "127.0.0.1:81"] {
        Config::parse(&both("127.0.0.1:80", second), "proxy.toml").expect(second);
    }
    Config::parse(&both("127.0.0.1:0", "127.0.0.1:0"), "proxy.toml").expect("the kernel chooses two ports");
}

#[test]
fn only_and_bypass_of_the_same_server_are_refused() {
    let router = "[router]\ninterfaces = [\"lan0\"]\nvia = { proxy = \"192.0.2.1:1080\" }\n";
    for (more, message) in [
        (
            "only = {}",
            "4: [router.only] is empty, so nothing would go through the proxy; add networks or names",
        ),
        (
            "only = { networks = [\"192.0.2.0/24\"] }\nbypass = { networks = [\"192.0.2.0/24\"] }",
            "4: 192.0.2.0/24 is in [router.only], but 192.0.2.0/24 in [router.bypass] contains it; remove one of the two; \
             without networks in [router.bypass], private networks are bypassed",
        ),
        (
            "only = { networks = [\"10.1.0.0/16\"] }",
            "4: 10.1.0.0/16 is in [router.only], but 10.0.0.0/8 in [router.bypass] contains it; remove one of the two; \
             without networks in [router.bypass], private networks are bypassed",
        ),
        (
            "only = { names = [\"A.example\"] }\nbypass = { names = [\"a.example\"] }",
            "4: A.example is in [router.only] and in [router.bypass]; remove one of the two",
        ),
        (
            "only = { names = [\"a b\"] }",
            "4: \"a b\" is not a host name; write for example \"intranet.example.org\"",
        ),
        ("only = { ports = [25] }", "4: unknown key \"ports\"; valid keys: networks, names"),
    ] {
        assert_eq!(config_error(&format!("{router}{more}")), format!("proxy.toml:{message}"));
    }
    // A part of the listed network may be bypassed.
    for more in [
        "only = { networks = [\"192.0.2.0/24\"] }\nbypass = { networks = [\"192.0.2.128/25\"] }",
        "only = { networks = [\"10.1.0.0/16\"] }\nbypass = { networks = [] }",
    ] {
        Config::parse(&format!("{router}{more}"), "proxy.toml").expect(more);
    }
}

#[test]
fn converter_and_unknown_udp_modes_are_refused() {
    let error = |via: &str| config_error(&format!("[socks]\nvia = {{ proxy = \"192.0.2.1:1080\", {via} }}"));
    assert_eq!(
        error("udp = \"stream\", protocol = \"convert\""),
        "proxy.toml:2: a converter (RFC 8803) does not relay UDP; remove udp, or write protocol = \"socks\""
    );
    assert!(error("udp = \"streams\"").contains("unknown value \"streams\"; did you mean \"stream\"?"));
}

#[test]
fn paths_need_links_and_a_user() {
    let parse = |more: &str| {
        let text = format!("[socks]\nvia = {{ proxy = \"192.0.2.1:1080\", udp = \"paths\"{more} }}");
        Config::parse(&text, "proxy.toml").map_err(|error| error.to_string())
    };
    let (from, user) = (", from = [\"wlan0\"]", ", user = { name = \"a\", password = \"b\" }");
    for incomplete in ["", from, user] {
        let message = parse(incomplete).expect_err(incomplete);
        assert!(message.starts_with("proxy.toml:2: udp = \"paths\" needs from, the interfaces"), "{message}");
    }
    parse(&format!("{from}{user}")).expect("a valid file");
}
