//! The program `anabranch-cc`: loads coupled congestion controls into the kernel. It works without Python.

#[cfg(target_os = "linux")]
mod linux {
    use anabranch_kernel::{CONTROLS, Control, Error, Outcome, Settings};
    use std::process::{Command, ExitCode};

    const USAGE: &str = "\
Coupled congestion controls for Linux's Multipath TCP

anabranch-cc load [--floor 1|2] [--coupled-start] [CONTROL...]   load all or some; replace loaded ones
anabranch-cc unload [CONTROL...]                                 unload all or some; open connections keep them
anabranch-cc list [--json]                                       list available and loaded controls
anabranch-cc status [--json]                                     show statistics and requirements
anabranch-cc run CONTROL -- COMMAND...                           run a command with this control

--floor          smallest slow-start threshold after a loss, packets; 2 as in reno, 1 as in the publications
--coupled-start  lia: couple slow start as well (Becke 2014, eq. 6.11)
";

    pub fn main() -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match dispatch(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("anabranch-cc: {error}");
                ExitCode::from(if matches!(error, Error::Input(_)) { 2 } else { 1 })
            }
        }
    }

    /// Runs the command that the arguments name.
    fn dispatch(arguments: &[String]) -> Result<(), Error> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["load", rest @ ..] => load(rest),
            ["unload", rest @ ..] => unload(rest),
            ["list", rest @ ..] => list(parse_json_option(rest)?),
            ["status", rest @ ..] => status(parse_json_option(rest)?),
            ["run", name, "--", ..] => Err(run(name, &arguments[3..])),
            ["detach", name, process] if process.parse::<u32>().is_ok() => {
                anabranch_kernel::detach(this_program()?.args(["hold", name, process]))
            }
            ["hold", name, process] if process.parse::<u32>().is_ok() => {
                anabranch_kernel::hold(name, process.parse().unwrap_or_default())
            }
            ["--version" | "-V"] => {
                println!("anabranch-cc {}", env!("CARGO_PKG_VERSION"));
                Ok(())
            }
            [] | ["--help" | "-h" | "help"] => {
                print!("{USAGE}");
                Ok(())
            }
            ["run", ..] => Err(Error::Input(
                "wrong arguments of run; write anabranch-cc run CONTROL -- COMMAND...".to_owned(),
            )),
            [other, ..] => Err(Error::Input(format!(
                "unknown command \"{other}\"; the commands are load, unload, list, status and run"
            ))),
        }
    }

    fn parse_json_option(rest: &[&str]) -> Result<bool, Error> {
        match rest {
            [] => Ok(false),
            ["--json"] => Ok(true),
            [other, ..] => Err(Error::Input(format!("unknown option {other}; the only option is --json"))),
        }
    }

    fn load(rest: &[&str]) -> Result<(), Error> {
        let (mut settings, mut controls) = (Settings::default(), Vec::new());
        let mut arguments = rest.iter();
        while let Some(&word) = arguments.next() {
            match word {
                "--floor" => {
                    settings.floor = match arguments.next() {
                        Some(&"1") => 1,
                        Some(&"2") => 2,
                        _ => return Err(Error::Input("--floor must be 1 or 2".to_owned())),
                    };
                }
                "--coupled-start" => settings.coupled_start = true,
                name => controls.push(anabranch_kernel::find(name)?),
            }
        }
        if settings.coupled_start && controls.iter().any(|control| control.name != "lia") {
            return Err(Error::Input(
                "--coupled-start is for lia only; remove it or the other controls".to_owned(),
            ));
        }
        for control in all_if_empty(controls) {
            let settings =
                Settings { coupled_start: settings.coupled_start && control.name == "lia", ..settings };
            match anabranch_kernel::load(control, settings)? {
                Outcome::Loaded => println!("loaded {}", control.name),
                Outcome::Replaced => {
                    println!("replaced {}; open connections keep the old version", control.name);
                }
            }
        }
        Ok(())
    }

    fn all_if_empty(controls: Vec<&'static Control>) -> Vec<&'static Control> {
        if controls.is_empty() { CONTROLS.iter().collect() } else { controls }
    }

    fn unload(rest: &[&str]) -> Result<(), Error> {
        let mut controls =
            rest.iter().map(|name| anabranch_kernel::find(name)).collect::<Result<Vec<_>, _>>()?;
        if controls.is_empty() {
            let loaded = anabranch_kernel::list()?;
            controls = loaded
                .iter()
                .map(|loaded| anabranch_kernel::find(loaded.name))
                .collect::<Result<Vec<_>, _>>()?;
        }
        for control in controls {
            match anabranch_kernel::unload(control)? {
                0 => println!("unloaded {}", control.name),
                open => println!("unloaded {}; {open} open sockets keep it", control.name),
            }
        }
        Ok(())
    }

    fn list(json: bool) -> Result<(), Error> {
        if json {
            // Every user may list the available controls, but only root may list the loaded ones.
            let names: Vec<_> = CONTROLS.iter().map(|control| control.name).collect();
            println!(
                "{}",
                serde_json::json!({ "available": names, "loaded": anabranch_kernel::list().ok() })
            );
            return Ok(());
        }
        let loaded = anabranch_kernel::list()?;
        for control in CONTROLS {
            let state = loaded.iter().find(|loaded| loaded.name == control.name).map_or_else(
                || "not loaded".to_owned(),
                |loaded| format!("loaded by {}, {} sockets", loaded.version, loaded.sockets),
            );
            println!("{:9} {:28} {}", control.name, state, control.summary);
        }
        Ok(())
    }

    fn status(json: bool) -> Result<(), Error> {
        let findings = anabranch_kernel::examine();
        // Every user can list missing requirements, but only root can list the loaded controls.
        let root = findings.iter().all(|finding| finding.there || finding.what != "right to load BPF");
        let loaded = if root { anabranch_kernel::list()? } else { Vec::new() };
        if json {
            println!("{}", serde_json::json!({ "machine": findings, "loaded": loaded }));
            return Ok(());
        }
        for finding in findings {
            let (sign, remedy) =
                if finding.there { ("yes", String::new()) } else { ("no", format!("; {}", finding.remedy)) };
            println!("{:26} {sign:4} {}{remedy}", finding.what, finding.detail);
        }
        for loaded in loaded {
            let statistics = loaded.statistics;
            println!(
                "{:9} {} sockets open, {} opened in total; {} acknowledgements, {} of them with coupled paths; {} losses, {} timeouts; minimum threshold {} packets{}",
                loaded.name,
                loaded.sockets,
                statistics.opened,
                statistics.acknowledgements,
                statistics.coupled,
                statistics.losses,
                statistics.timeouts,
                loaded.floor,
                if loaded.coupled_start { ", coupled slow start" } else { "" },
            );
        }
        Ok(())
    }

    /// Replaces this process by a command whose sockets use the congestion control `name`. Returns only if that fails.
    fn run(name: &str, command: &[String]) -> Error {
        match this_program() {
            Ok(mut this_program) => anabranch_kernel::run(name, command, this_program.arg("detach")),
            Err(error) => error,
        }
    }

    fn this_program() -> Result<Command, Error> {
        std::env::current_exe()
            .map(Command::new)
            .map_err(|error| Error::Refused(format!("cannot determine the path of this program: {error}")))
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("anabranch-cc: this program needs Linux");
    std::process::exit(1);
}
