//! The program `anabranch-proxy`, which gives Multipath TCP to hosts that do not support it. It needs no Python.

#[cfg(target_os = "linux")]
mod linux {
    use anabranch_proxy::{
        Error,
        config::{self, Config, Limits, Router, Socks, Watch},
        convert, reverse, router, socks, uplinks, watch,
    };
    use std::io::{ErrorKind, Write};
    use std::path::Path;
    use std::process::ExitCode;

    const USAGE: &str = "\
Multipath TCP for hosts without it

anabranch-proxy socks [--config FILE]     Serve SOCKS 5 clients
anabranch-proxy reverse --config FILE     Accept Multipath TCP for servers that support only TCP
anabranch-proxy convert --config FILE     Serve clients of Convert (RFC 8803)
anabranch-proxy router --config FILE      Relay the TCP connections of hosts behind this router
                       [--print]          Print the rules and routes as shell commands and exit
anabranch-proxy uplinks --config FILE     Maintain rules, routes and endpoints of the uplinks
                       [--print]          Print the rules and routes as shell commands and exit
anabranch-proxy watch [ADDRESS:PORT]      Show the traffic of a proxy that has [watch] in its file
anabranch-proxy check [--json] [--to HOST:PORT | --config FILE]
                                          Find out why only one link is used

--to      proxy to connect to; with --config, that of [socks.via] or [router.via]
--config  TOML file; without one, socks listens on 127.0.0.1:1080
";

    const COMMANDS: [&str; 7] = ["socks", "reverse", "convert", "router", "uplinks", "watch", "check"];
    const OPTIONS: [&str; 4] = ["--config", "--print", "--json", "--to"];

    pub fn main() -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match dispatch(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("anabranch-proxy: {}", anabranch_proxy::printable(&error.to_string()));
                ExitCode::from(if matches!(error, Error::Input(_)) { 2 } else { 1 })
            }
        }
    }

    /// Runs the command that the arguments name.
    fn dispatch(arguments: &[String]) -> Result<(), Error> {
        let words = split_options(arguments);
        if words.iter().any(|word| ["--help", "-h"].contains(word)) {
            return print(USAGE);
        }
        match words.as_slice() {
            ["socks", rest @ ..] => {
                let (settings, limits) = match file(rest)? {
                    None => (Socks::default(), Limits::default()),
                    Some(file) => {
                        let Config { socks, limits, watch, .. } = Config::read(file)?;
                        let socks = socks.ok_or_else(|| missing("[socks]", file))?;
                        watch.map_or(Ok(()), |settings| watch::start(&settings))?;
                        (socks, limits)
                    }
                };
                anabranch_proxy::run(vec![socks::Proxy::new(settings, limits)?], &limits)
            }
            ["reverse", rest @ ..] => {
                let Some(file) = file(rest)? else {
                    return Err(Error::Input("reverse needs --config FILE with the servers".to_owned()));
                };
                let Config { reverse, limits, watch, .. } = Config::read(file)?;
                if reverse.is_empty() {
                    return Err(missing("[[reverse]]", file));
                }
                watch.map_or(Ok(()), |settings| watch::start(&settings))?;
                let proxies = reverse.into_iter().map(|settings| reverse::Proxy::new(settings, limits));
                anabranch_proxy::run(proxies.collect(), &limits)
            }
            ["convert", rest @ ..] => {
                let Some(file) = file(rest)? else {
                    return Err(Error::Input("convert needs --config FILE with the clients".to_owned()));
                };
                let Config { convert, limits, watch, .. } = Config::read(file)?;
                let settings = convert.ok_or_else(|| missing("[convert]", file))?;
                watch.map_or(Ok(()), |settings| watch::start(&settings))?;
                anabranch_proxy::run(vec![convert::Converter::new(settings, limits)?], &limits)
            }
            ["router", rest @ ..] if rest.contains(&"--print") => {
                let (settings, ..) = router_settings(&without("--print", rest))?;
                print(&router::script(&settings)?)
            }
            ["router", rest @ ..] => {
                let (settings, limits, watch) = router_settings(rest)?;
                watch.map_or(Ok(()), |settings| watch::start(&settings))?;
                anabranch_proxy::run(vec![router::Proxy::new(settings, limits)?], &limits)
            }
            ["uplinks", rest @ ..] if rest.contains(&"--print") => {
                let Config { uplink, uplinks, .. } = uplinks_file(&without("--print", rest))?;
                print(&uplinks::script(&uplink, &uplinks)?)
            }
            ["uplinks", rest @ ..] => {
                let config = uplinks_file(rest)?;
                let probe_targets = config.probe_targets();
                uplinks::run(config.uplink, &config.uplinks, probe_targets)
            }
            ["check", rest @ ..] => check(rest),
            ["watch", rest @ ..] => {
                let address = match rest {
                    [] => *Watch::default().listen.as_ref(),
                    [address] => address.parse().map_err(|_| {
                        Error::Input(format!(
                            "\"{address}\" is not an address with a port; write for example 127.0.0.1:9180"
                        ))
                    })?,
                    _ => return Err(Error::Input("watch takes one address with a port".to_owned())),
                };
                watch::terminal::show(address)
            }
            ["--version" | "-V"] => print(concat!("anabranch-proxy ", env!("CARGO_PKG_VERSION"), "\n")),
            [] | ["help"] => print(USAGE),
            [other, ..] => {
                Err(Error::Input(format!("unknown command \"{other}\"; {}", remedy(other, &COMMANDS))))
            }
        }
    }

    /// Suggests the valid word with the nearest spelling, or the help.
    fn remedy(word: &str, valid: &[&str]) -> String {
        config::nearest(word, valid).map_or_else(
            || "see anabranch-proxy --help".to_owned(),
            |near| format!("did you mean \"{near}\"?"),
        )
    }

    /// Splits each argument `--option=value` into the option and its value.
    fn split_options(arguments: &[String]) -> Vec<&str> {
        let mut words = Vec::new();
        for argument in arguments {
            match argument.split_once('=').filter(|(option, _)| option.starts_with("--")) {
                Some((option, value)) => words.extend([option, value]),
                None => words.push(argument.as_str()),
            }
        }
        words
    }

    /// Removes an option from the arguments.
    fn without<'a>(option: &str, words: &[&'a str]) -> Vec<&'a str> {
        words.iter().copied().filter(|word| *word != option).collect()
    }

    /// Prints a text. A broken pipe is not an error: the reader closed its end, as `head` does.
    fn print(text: &str) -> Result<(), Error> {
        let mut stdout = std::io::stdout();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Error::Refused(format!("cannot print: {error}")))
            }
            _ => Ok(()),
        }
    }

    fn check(rest: &[&str]) -> Result<(), Error> {
        let json = rest.contains(&"--json");
        let rest = without("--json", rest);
        let (via, proxy, router) = match rest.as_slice() {
            [] => (None, None, None),
            ["--to", proxy] => (None, Some((*proxy).to_owned()), None),
            ["--to"] => return Err(Error::Input("--to needs HOST:PORT".to_owned())),
            ["--to", ..] | [_, _, "--to", ..] => {
                return Err(Error::Input(
                    "check takes --to HOST:PORT or --config FILE, but not both".to_owned(),
                ));
            }
            rest => {
                let file = file(rest)?
                    .ok_or_else(|| Error::Input("check takes --to HOST:PORT or --config FILE".to_owned()))?;
                let Config { socks, router, .. } = Config::read(file)?;
                let via_of_router = router.as_ref().map(|router| router.via.clone());
                let via = via_of_router.or_else(|| socks.and_then(|socks| socks.via));
                let via = via.ok_or_else(|| missing("[socks.via] or [router.via]", file))?;
                let via = via.into_inner();
                (Some(via.clone()), Some(via.proxy), router)
            }
        };
        let mut findings = router.as_ref().map_or(Ok(Vec::new()), router::findings)?;
        let inner = router.as_ref().map_or(&[][..], |router| router.interfaces.as_ref());
        findings.extend(anabranch_proxy::check::check(proxy.as_deref(), via.as_ref(), inner)?);
        if json {
            print(&format!("{}\n", serde_json::json!({ "findings": findings })))?;
        } else {
            let lines: Vec<_> = findings.iter().map(|finding| format!("{finding}\n")).collect();
            print(&lines.concat())?;
        }
        match findings.iter().filter(|finding| !finding.good).count() {
            0 => Ok(()),
            1 => Err(Error::Refused("1 finding needs a fix".to_owned())),
            many => Err(Error::Refused(format!("{many} findings need a fix; begin with the first"))),
        }
    }

    fn router_settings(rest: &[&str]) -> Result<(Router, Limits, Option<Watch>), Error> {
        let Some(file) = file(rest)? else {
            return Err(Error::Input("router needs --config FILE with the upstream proxy".to_owned()));
        };
        let Config { router, limits, watch, .. } = Config::read(file)?;
        Ok((router.ok_or_else(|| missing("[router]", file))?, limits, watch))
    }

    fn uplinks_file(rest: &[&str]) -> Result<Config, Error> {
        let Some(file) = file(rest)? else {
            return Err(Error::Input("uplinks needs --config FILE with the [[uplink]] tables".to_owned()));
        };
        let config = Config::read(file)?;
        if config.uplink.is_empty() { Err(missing("[[uplink]]", file)) } else { Ok(config) }
    }

    /// Returns the path after `--config`, or `None` if there are no arguments.
    fn file<'a>(rest: &'a [&str]) -> Result<Option<&'a Path>, Error> {
        match rest {
            [] => Ok(None),
            ["--config", file] => Ok(Some(Path::new(file))),
            ["--config"] => Err(Error::Input("--config needs the name of a file".to_owned())),
            ["--config", _, more, ..] => Err(Error::Input(format!(
                "unexpected argument \"{more}\"; remove it, or see anabranch-proxy --help"
            ))),
            [other, ..] => {
                Err(Error::Input(format!("unknown option \"{other}\"; {}", remedy(other, &OPTIONS))))
            }
        }
    }

    /// Creates the error for a configuration file without the table that the command needs.
    fn missing(table: &str, file: &Path) -> Error {
        Error::Input(format!("{}: the table {table} is missing", file.display()))
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("anabranch-proxy: the proxies need Linux");
    std::process::exit(1);
}
