//! `anabranch-proxy`: Multipath TCP for hosts that have none, without Python.

#[cfg(target_os = "linux")]
mod linux {
    use proxy::{
        Error,
        config::{Config, Limits, Socks},
        socks,
    };
    use std::path::Path;
    use std::process::ExitCode;

    const USAGE: &str = "\
Multipath TCP for hosts that have none

anabranch-proxy socks [--config FILE]   SOCKS 5: clients name the server that they want

--config  a TOML file; without one, socks listens on 127.0.0.1:1080
";

    pub fn main() -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match dispatch(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("anabranch-proxy: {error}");
                ExitCode::from(if matches!(error, Error::Input(_)) { 2 } else { 1 })
            }
        }
    }

    fn dispatch(arguments: &[String]) -> Result<(), Error> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["socks", rest @ ..] => {
                let (settings, limits) = match file(rest)? {
                    None => (Socks::default(), Limits::default()),
                    Some(file) => {
                        let Config { socks, limits } = Config::read(file)?;
                        (socks.ok_or_else(|| missing("[socks]", file))?, limits)
                    }
                };
                proxy::run(socks::Proxy::new(settings, limits)?, &limits)
            }
            ["--version" | "-V"] => {
                println!("anabranch-proxy {}", env!("CARGO_PKG_VERSION"));
                Ok(())
            }
            [] | ["--help" | "-h" | "help"] => {
                print!("{USAGE}");
                Ok(())
            }
            [other, ..] => Err(Error::Input(format!("\"{other}\" is none of its commands\n\n{USAGE}"))),
        }
    }

    fn file<'a>(rest: &'a [&str]) -> Result<Option<&'a Path>, Error> {
        match rest {
            [] => Ok(None),
            ["--config", file] => Ok(Some(Path::new(file))),
            ["--config"] => Err(Error::Input("--config takes the name of a file".to_owned())),
            [other, ..] => Err(Error::Input(format!("{other} is no option here"))),
        }
    }

    fn missing(table: &str, file: &Path) -> Error {
        Error::Input(format!("{}: has no {table}", file.display()))
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("anabranch-proxy: the proxies are Linux's");
    std::process::exit(1);
}
