//! Loads congestion controls into the kernel of this machine with the program. The tests need root and Linux 6.4. If
//! the machine does not meet these requirements, or if controls are already loaded, the tests are skipped with a
//! message.
#![cfg(target_os = "linux")]

use anabranch_testkit::machine::skip;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch-cc");

/// Lets one test run at a time, because the kernel has a single table of congestion controls.
static EXCLUSIVE: Mutex<()> = Mutex::new(());

/// Permission of a test to run. Dropping it unloads all congestion controls of this project.
struct Exclusive {
    _guard: MutexGuard<'static, ()>,
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        program(&["unload"]);
    }
}

/// Waits for other tests and returns the permission; `None` if this machine cannot run the tests.
fn exclusive() -> Option<Exclusive> {
    let guard = EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner);
    if !able() {
        return None;
    }
    if let Some(name) =
        anabranch_kernel::CONTROLS.iter().map(|control| control.kernel_name).find(|name| known(name))
    {
        skip(format_args!("{name} is loaded already and is not changed"));
        return None;
    }
    Some(Exclusive { _guard: guard })
}

/// True if this machine meets the requirements for loading controls.
fn able() -> bool {
    let lacking = anabranch_kernel::examine().into_iter().find(|finding| !finding.there);
    if let Some(finding) = &lacking {
        skip(format_args!("no {} here; {}", finding.what, finding.remedy));
    }
    lacking.is_none()
}

fn known(name: &str) -> bool {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    std::fs::read_to_string(file).expect("Linux has this file").split_whitespace().any(|other| other == name)
}

fn program(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("the program is built")
}

/// Runs the program, which must succeed, and returns its output.
fn succeeds(arguments: &[&str]) -> String {
    let output = program(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn fails(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs shell commands in a new mount namespace.
fn apart(lines: &str) -> Output {
    Command::new("unshare")
        .args(["-m", "sh", "-ec", lines])
        .env("CC", PROGRAM)
        .output()
        .expect("unshare is installed")
}

/// Counts the congestion controls whose BPF programs are in the kernel: each has one program called `avoid`.
fn programs() -> usize {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| program.name.to_string_lossy() == "avoid")
        .count()
}

/// Waits until at most `most` congestion controls are in the kernel; returns false after a timeout.
fn falls_to(most: usize) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        programs() <= most
    })
}

#[test]
fn controls_are_loaded_replaced_and_unloaded() {
    let Some(_alone) = exclusive() else { return };
    let before = programs();
    for control in anabranch_kernel::CONTROLS {
        assert!(succeeds(&["load", control.name]).contains("loaded "));
        assert!(known(control.kernel_name), "{}", control.name);
    }
    assert!(programs() >= anabranch_kernel::CONTROLS.len());
    assert!(succeeds(&["load", "--floor", "1", "lia"]).contains("replaced "));
    let listed = anabranch_kernel::list().expect("as root");
    assert_eq!(listed.len(), anabranch_kernel::CONTROLS.len());
    let lia = listed.iter().find(|loaded| loaded.name == "lia").expect("lia was loaded");
    assert_eq!((lia.floor, lia.coupled_start, lia.sockets), (1, false, 0));
    assert_eq!(lia.version, env!("CARGO_PKG_VERSION"));
    assert!(succeeds(&["list"]).contains("loaded by"));
    succeeds(&["unload"]);
    for control in anabranch_kernel::CONTROLS {
        assert!(!known(control.kernel_name), "{}", control.name);
    }
    // The kernel frees unused programs with a short delay.
    assert!(falls_to(before));
    assert!(!std::path::Path::new("/sys/fs/bpf/anabranch").exists());
}

/// Opens a socket whose first loss occurs with a window of one packet, and prints the resulting threshold.
const ONE_PACKET_LOSS: &str = r#"
import socket, struct, subprocess, sys, time
server = socket.create_server(("127.0.0.1", 0))
client = socket.socket()
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
# Reset when closed: it would outlive the test, and its control with it.
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
client.connect(server.getsockname())
subprocess.run("ip link set lo down", shell=True, check=True)
client.send(b"lost")
for _ in range(1000):
    # struct tcp_info: tcpi_ca_state is 4 after a timeout.
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    if info[1] == 4:
        sys.exit(print(struct.unpack_from("=I", info, 76)[0]))
    time.sleep(0.01)
"#;

/// `TCP_INFINITE_SSTHRESH` of Linux, the threshold before the first loss.
const MAX_THRESHOLD: u32 = 0x7fff_ffff;

/// Returns the threshold in packets after a loss of a socket with this congestion control, or what the script prints if
/// it fails.
fn lose_one(control: &str) -> String {
    let lines = "ip link set lo up\n\
                 ip route change local 127.0.0.1 dev lo table local initcwnd 1\n\
                 python3 -c \"$LOSES\" \"$CONTROL\"";
    let output = Command::new("unshare")
        .args(["--net", "sh", "-ec", lines])
        .env("LOSES", ONE_PACKET_LOSS)
        .env("CONTROL", control)
        .output()
        .expect("unshare is installed");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

#[test]
fn floor_option_of_load_limits_the_threshold() {
    let Some(_alone) = exclusive() else { return };
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("no python3 to open a socket in a network namespace");
    }
    for (floor, control) in
        ["1", "2"].into_iter().flat_map(|floor| ["lia", "balia"].map(|name| (floor, name)))
    {
        succeeds(&["load", "--floor", floor, control]);
        let mut threshold = lose_one(control);
        // Some kernels skip a program and use half of an address as the threshold until the end of the timeout, when
        // the control repairs it (docs/lab-notes/kernel-controls.md, a defect of the measuring machine).
        for _ in 0..2 {
            if threshold.parse::<u32>().is_ok_and(|found| found > MAX_THRESHOLD) {
                eprintln!("{control}: threshold {threshold}, measured again");
                threshold = lose_one(control);
            }
        }
        assert_eq!(threshold, floor, "{control}");
        succeeds(&["unload", control]);
    }
}

#[test]
fn verifier_limits_leave_a_margin() {
    let Some(_alone) = exclusive() else { return };
    succeeds(&["load"]);
    let ours = ["avoid", "ssthresh", "state", "sample", "undo", "init", "release"];
    let programs: Vec<_> = libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| ours.contains(&program.name.to_string_lossy().as_ref()))
        .map(|program| (program.name, program.verified_insns))
        .collect();
    assert!(programs.len() >= 6 * anabranch_kernel::CONTROLS.len());
    // The verifier refuses a program after a million instructions. How many branches it prunes depends on the kernel
    // version.
    for (name, instructions) in programs {
        assert!(instructions < 200_000, "{}: {instructions}", name.to_string_lossy());
    }
}

#[test]
fn name_of_another_control_is_not_replaced() {
    let Some(_alone) = exclusive() else { return };
    // This program is pinned in another file system, so the loader must not replace it.
    let mut other = Command::new("unshare")
        .args(["-m", "sh", "-ec", "mount -t bpf bpf /sys/fs/bpf; \"$CC\" load wvegas; read end"])
        .env("CC", PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare is installed");
    while !known("wvegas") {
        assert!(other.try_wait().expect("unshare is a child process").is_none(), "unshare ended early");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let output_text = fails(&program(&["load", "wvegas"]));
    other.stdin.take().expect("piped").write_all(b"\n").expect("the process reads");
    other.wait().expect("the process ends");
    assert!(output_text.contains("another congestion control named wvegas"), "{output_text}");
    assert!(fails(&program(&["unload", "wvegas"])).contains("wvegas is not loaded"));
}

/// Runs shell commands as the first process of a new PID namespace, so that its mounts count as those of the machine.
fn apart_as_first(lines: &str) -> Output {
    Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-ec", lines])
        .env("CC", PROGRAM)
        .output()
        .expect("unshare is installed")
}

#[test]
fn missing_file_system_is_mounted() {
    let Some(_alone) = exclusive() else { return };
    let output = apart_as_first(
        "umount /sys/fs/bpf 2> /dev/null || :; \"$CC\" load balia; stat -c %a /sys/fs/bpf; \"$CC\" unload balia",
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\n1700\n"), "{output:?}");
}

#[test]
fn unmountable_file_system_error_names_command() {
    let Some(_alone) = exclusive() else { return };
    let output_text = fails(&apart_as_first("mount -t tmpfs none /sys/fs; \"$CC\" load balia"));
    assert!(
        output_text.contains("is not mounted at /sys/fs/bpf") && output_text.contains("run: mount -t bpf"),
        "{output_text}"
    );
    assert!(!known("balia"));
}

#[test]
fn available_controls_are_public_loaded_ones_not() {
    let Some(_alone) = exclusive() else { return };
    succeeds(&["load", "lia"]);
    let json = |command: &[&str]| -> serde_json::Value {
        let output = Command::new(command[0]).args(&command[1..]).output().expect("the program is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let (listed, status) = (json(&[PROGRAM, "list", "--json"]), json(&[PROGRAM, "status", "--json"]));
    assert_eq!((&listed["loaded"][0]["name"], &listed["loaded"][0]["floor"]), (&"lia".into(), &2.into()));
    assert_eq!(listed["loaded"], status["loaded"]);
    let listed = json(&["unshare", "--user", PROGRAM, "list", "--json"]);
    let status = json(&["unshare", "--user", PROGRAM, "status", "--json"]);
    assert_eq!(listed["available"].as_array().map(Vec::len), Some(anabranch_kernel::CONTROLS.len()));
    assert!(listed["loaded"].is_null());
    assert_eq!(status["loaded"], serde_json::json!([]));
    let lacking =
        status["machine"].as_array().expect("a list").iter().find(|finding| finding["there"] == false);
    assert_eq!(lacking.expect("only root may load")["what"], "right to load BPF");
}

#[test]
fn private_mount_namespaces_are_refused() {
    if !able() {
        return;
    }
    // `ip netns exec` also mounts another /sys, which hides the BPF file system.
    let output =
        apart_as_first("unshare --mount --net sh -ec 'mount -t sysfs sysfs /sys; \"$CC\" load wvegas'");
    let output_text = fails(&output);
    assert!(output_text.contains("load it outside"), "{output_text}");
}

#[test]
fn default_control_is_replaced_and_not_unloaded() {
    let Some(_alone) = exclusive() else { return };
    let before = programs();
    let lines = "\"$CC\" load balia; echo balia > /proc/sys/net/ipv4/tcp_congestion_control; \"$CC\" load balia\n\
                 \"$CC\" unload balia || echo refused; read end";
    let mut namespace = Command::new("unshare")
        .args(["--net", "sh", "-ec", lines])
        .env("CC", PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare is installed");
    let mut output_text = BufReader::new(namespace.stdout.take().expect("piped")).lines();
    let refused = output_text.any(|line| line.is_ok_and(|line| line == "refused"));
    // The kernel frees the first version only if no socket uses it, and no network namespace has it as its default.
    let gone = refused && falls_to(before + 1);
    namespace.stdin.take().expect("piped").write_all(b"\n").expect("the process reads");
    let output = namespace.wait_with_output().expect("the process ends");
    let output_text = String::from_utf8_lossy(&output.stderr);
    assert!(output_text.contains("sysctl net.ipv4.tcp_congestion_control=cubic"), "{output_text}");
    assert!(gone, "{} programs", programs());
}

#[test]
fn files_of_other_users_are_not_trusted() {
    if !able() {
        return;
    }
    for theirs in [
        "mkdir anabranch; chmod 1777 anabranch",
        "mkdir -m 755 anabranch; chown 1 anabranch",
        "mkdir theirs; ln -s theirs anabranch",
        "mkdir -m 755 anabranch anabranch/wvegas; chmod 770 anabranch/wvegas",
    ] {
        for command in ["load wvegas", "unload wvegas", "list"] {
            let output = apart(&format!(
                "mount -t bpf -o mode=1777 bpf /sys/fs/bpf; cd /sys/fs/bpf; {theirs}; \"$CC\" {command}"
            ));
            let output_text = fails(&output);
            assert!(
                output_text.contains("not a folder in which only root can write"),
                "{theirs}, {command}: {output_text}"
            );
        }
    }
}

#[test]
fn missing_requirements_have_a_remedy() {
    let Some(_alone) = exclusive() else { return };
    let cases = [
        (
            "mount --bind /var/empty-of-anabranch /sys/kernel/btf",
            "no kernel types (BTF)",
            "CONFIG_DEBUG_INFO_BTF",
        ),
        ("mount --bind /var/empty-of-anabranch /proc/sys/net/mptcp", "no Multipath TCP", "CONFIG_MPTCP"),
        (
            "mount --bind /var/empty-of-anabranch/release /proc/sys/kernel/osrelease",
            "no Linux 6.4 here (5.15.0)",
            "6.4 or newer",
        ),
    ];
    for (lacking, what, remedy) in cases {
        let output_text = fails(&apart(&format!(
            "mount -t tmpfs none /var; mkdir /var/empty-of-anabranch; echo 5.15.0 > /var/empty-of-anabranch/release\n\
             {lacking}\n\"$CC\" load lia"
        )));
        assert!(output_text.contains(what) && output_text.contains(remedy), "{output_text}");
    }
    let output_text = fails(
        &Command::new("unshare")
            .args(["--user", PROGRAM, "load", "lia"])
            .output()
            .expect("unshare is installed"),
    );
    assert!(output_text.contains("run this as root"), "{output_text}");
    let output_text = fails(
        &Command::new("unshare").args(["--user", PROGRAM, "list"]).output().expect("unshare is installed"),
    );
    assert!(output_text.contains("run this as root"), "{output_text}");
}

#[test]
fn errors_are_one_sentence() {
    for (arguments, says) in [
        (&["load", "cubic"][..], "unknown control cubic"),
        (&["load", "--floor", "3"], "--floor must be 1 or 2"),
        (&["load", "--coupled-start", "olia"], "for lia only"),
        (&["list", "--jso"], "unknown option --jso"),
        (&["lode"], "unknown command \"lode\"; the commands are load, unload, list, status and run"),
        (&["hold", "lia", "x"], "unknown command \"hold\""),
        (&["unload", "cubic"], "unknown control cubic"),
        (&["run", "lia", "true"], "write anabranch-cc run CONTROL -- COMMAND"),
        (&["run", "lia", "--"], "no command to run"),
    ] {
        let output = program(arguments);
        assert_eq!(output.status.code(), Some(2));
        let printed = fails(&output);
        assert!(printed.contains(says) && printed.lines().count() == 1, "{arguments:?}: {printed}");
    }
}

#[test]
fn command_replaces_the_caller() {
    let Some(_alone) = exclusive() else { return };
    assert!(fails(&program(&["run", "lia", "--", "true"])).contains("anabranch cc load lia"));
    succeeds(&["load", "lia"]);
    let seven = program(&["run", "lia", "--", "sh", "-c", "cat /proc/self/cgroup; exit 7"]);
    succeeds(&["unload"]);
    assert_eq!(seven.status.code(), Some(7), "{}", String::from_utf8_lossy(&seven.stderr));
    assert!(String::from_utf8_lossy(&seven.stdout).contains("/anabranch-"));
}

#[test]
fn holder_is_no_child_and_keeps_no_files() {
    if !able() {
        return;
    }
    let lines = "exec 3>&2; exec \"$CC\" run reno -- sh -c \
        'read children < /proc/$$/task/$$/children; echo \"[$children]\"; sleep 60 > /dev/null 2>&1 3>&- & echo $!'";
    let mut command = Command::new("sh")
        .args(["-c", lines])
        .env("CC", PROGRAM)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh is installed");
    let (mut output_text, mut complained) = (String::new(), String::new());
    // Both commands have ended, although the cgroup still has a process and its holder still runs.
    command.stdout.take().expect("piped").read_to_string(&mut output_text).expect("text");
    command.stderr.take().expect("piped").read_to_string(&mut complained).expect("text");
    command.wait().expect("the process ends");
    let (children, sleeper) = output_text.split_once('\n').expect("two lines");
    let ended = Command::new("kill").arg(sleeper.trim()).output().expect("kill is installed");
    assert!(ended.status.success(), "the files stayed open until the last process ended: {}", fails(&ended));
    assert_eq!((children, complained.as_str()), ("[]", ""));
}

#[test]
fn later_choice_overrides_earlier_one() {
    if !able() {
        return;
    }
    let output = program(&["run", "cubic", "--", PROGRAM, "run", "reno", "--", "cat", "/proc/self/cgroup"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("anabranch-").count(), 1);
}
