//! Loading into the kernel of this machine, as whoever calls the program does. Needs root and Linux 6.4; anywhere else, and
//! where somebody has loaded controls, the tests are skipped and say so.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PROGRAM: &str = env!("CARGO_BIN_EXE_anabranch-cc");

/// The kernel has one table of controls.
static ALONE: Mutex<()> = Mutex::new(());

/// One test at a time, after which nothing of ours is loaded, however it ends.
struct Alone {
    _guard: MutexGuard<'static, ()>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        program(&["unload"]);
    }
}

/// Keeps other tests out, unless this machine cannot run them.
fn alone() -> Option<Alone> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !able() {
        return None;
    }
    if let Some(name) =
        anabranch_kernel::CONTROLS.iter().map(|control| control.kernel_name).find(|name| known(name))
    {
        eprintln!("skipped: {name} is loaded already, and stays so");
        return None;
    }
    Some(Alone { _guard: guard })
}

/// Whether this machine could load controls.
fn able() -> bool {
    let lacking = anabranch_kernel::examine().into_iter().find(|finding| !finding.there);
    if let Some(finding) = &lacking {
        eprintln!("skipped: no {} here; {}", finding.what, finding.remedy);
    }
    lacking.is_none()
}

fn known(name: &str) -> bool {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    std::fs::read_to_string(file).expect("Linux has it").split_whitespace().any(|other| other == name)
}

fn program(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("the program is built")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = program(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn fails(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs lines of a shell with file systems of its own to mount.
fn apart(lines: &str) -> Output {
    Command::new("unshare")
        .args(["-m", "sh", "-ec", lines])
        .env("CC", PROGRAM)
        .output()
        .expect("unshare is there")
}

/// Programs of our controls that are in the kernel.
fn programs() -> usize {
    libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| program.name.to_string_lossy() == "avoid")
        .count()
}

/// Whether there are soon no more than so many.
fn falls_to(most: usize) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        programs() <= most
    })
}

#[test]
fn every_control_is_loaded_exchanged_and_unloaded() {
    let Some(_alone) = alone() else { return };
    let before = programs();
    for control in anabranch_kernel::CONTROLS {
        assert!(succeeds(&["load", control.name]).contains("is loaded"));
        assert!(known(control.kernel_name), "{}", control.name);
    }
    assert!(programs() >= anabranch_kernel::CONTROLS.len());
    assert!(succeeds(&["load", "--floor", "1", "lia"]).contains("is exchanged"));
    let listed = anabranch_kernel::list().expect("as root");
    assert_eq!(listed.len(), anabranch_kernel::CONTROLS.len());
    let lia = listed.iter().find(|loaded| loaded.name == "lia").expect("it was loaded");
    assert_eq!((lia.floor, lia.coupled_start, lia.sockets), (1, false, 0));
    assert_eq!(lia.version, env!("CARGO_PKG_VERSION"));
    assert!(succeeds(&["list"]).contains("loaded by"));
    succeeds(&["unload"]);
    for control in anabranch_kernel::CONTROLS {
        assert!(!known(control.kernel_name), "{}", control.name);
    }
    // The kernel frees what nobody has any more a moment later.
    assert!(falls_to(before));
    assert!(!std::path::Path::new("/sys/fs/bpf/anabranch").exists());
}

/// A socket whose first loss comes upon a window of one packet; prints the threshold that is left.
const LOSES_ONE: &str = r#"
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

#[test]
fn the_floor_that_a_load_chooses_is_what_a_loss_leaves() {
    let Some(_alone) = alone() else { return };
    if Command::new("python3").arg("--version").output().is_err() {
        return eprintln!("skipped: no python3 to open a socket in a network namespace");
    }
    for (floor, control) in
        ["1", "2"].into_iter().flat_map(|floor| ["lia", "balia"].map(|name| (floor, name)))
    {
        succeeds(&["load", "--floor", floor, control]);
        let lines = "ip link set lo up\n\
                     ip route change local 127.0.0.1 dev lo table local initcwnd 1\n\
                     python3 -c \"$LOSES\" \"$CONTROL\"";
        let output = Command::new("unshare")
            .args(["--net", "sh", "-ec", lines])
            .env("LOSES", LOSES_ONE)
            .env("CONTROL", control)
            .output()
            .expect("unshare is there");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            floor,
            "{control}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        succeeds(&["unload", control]);
    }
}

#[test]
fn the_verifier_has_room_for_older_and_newer_ones() {
    let Some(_alone) = alone() else { return };
    succeeds(&["load"]);
    let ours = ["avoid", "ssthresh", "state", "sample", "undo", "init", "release"];
    let programs: Vec<_> = libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| ours.contains(&program.name.to_string_lossy().as_ref()))
        .map(|program| (program.name, program.verified_insns))
        .collect();
    assert!(programs.len() >= 6 * anabranch_kernel::CONTROLS.len());
    // It gives up at a million, and what it need not follow twice changes from release to release.
    for (name, instructions) in programs {
        assert!(instructions < 200_000, "{}: {instructions}", name.to_string_lossy());
    }
}

#[test]
fn a_name_that_another_has_is_left_to_it() {
    let Some(_alone) = alone() else { return };
    // Kept in another file system, so that it is not ours to exchange.
    let mut other = Command::new("unshare")
        .args(["-m", "sh", "-ec", "mount -t bpf bpf /sys/fs/bpf; \"$CC\" load wvegas; read end"])
        .env("CC", PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare is there");
    while !known("wvegas") {
        assert!(other.try_wait().expect("it is a child").is_none(), "it ended early");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let said = fails(&program(&["load", "wvegas"]));
    other.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
    other.wait().expect("it ends");
    assert!(said.contains("another congestion control that is called wvegas"), "{said}");
    assert!(fails(&program(&["unload", "wvegas"])).contains("wvegas is not loaded"));
}

/// Runs lines of a shell in a tree of processes of its own, whose first one has the same mounts.
fn apart_as_first(lines: &str) -> Output {
    Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-ec", lines])
        .env("CC", PROGRAM)
        .output()
        .expect("unshare is there")
}

#[test]
fn the_file_system_is_mounted_where_it_is_not() {
    let Some(_alone) = alone() else { return };
    let output = apart_as_first(
        "umount /sys/fs/bpf 2> /dev/null || :; \"$CC\" load balia; stat -c %a /sys/fs/bpf; \"$CC\" unload balia",
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\n1700\n"), "{output:?}");
}

#[test]
fn a_file_system_that_cannot_be_mounted_is_said_with_its_command() {
    let Some(_alone) = alone() else { return };
    let said = fails(&apart_as_first("mount -t tmpfs none /sys/fs; \"$CC\" load balia"));
    assert!(said.contains("is not mounted at /sys/fs/bpf") && said.contains("run: mount -t bpf"), "{said}");
    assert!(!known("balia"));
}

#[test]
fn everybody_is_told_what_can_be_loaded_and_root_what_is() {
    let Some(_alone) = alone() else { return };
    succeeds(&["load", "lia"]);
    let json = |command: &[&str]| -> serde_json::Value {
        let output = Command::new(command[0]).args(&command[1..]).output().expect("it is there");
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
    assert_eq!(lacking.expect("root alone may load")["what"], "right to load BPF");
}

#[test]
fn nothing_is_loaded_into_mounts_that_end_with_the_command() {
    if !able() {
        return;
    }
    // As ip netns exec does, which mounts another /sys over it.
    let output =
        apart_as_first("unshare --mount --net sh -ec 'mount -t sysfs sysfs /sys; \"$CC\" load wvegas'");
    let said = fails(&output);
    assert!(said.contains("load it outside"), "{said}");
}

#[test]
fn the_default_is_exchanged_and_is_not_unloaded() {
    let Some(_alone) = alone() else { return };
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
        .expect("unshare is there");
    let mut said = BufReader::new(namespace.stdout.take().expect("piped")).lines();
    let refused = said.any(|line| line.is_ok_and(|line| line == "refused"));
    // No socket has the first operations, and the namespace's default neither: the kernel frees them.
    let gone = refused && falls_to(before + 1);
    namespace.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
    let output = namespace.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("sysctl net.ipv4.tcp_congestion_control=cubic"), "{said}");
    assert!(gone, "{} programs", programs());
}

#[test]
fn what_others_may_have_made_is_not_believed() {
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
            let said = fails(&output);
            assert!(said.contains("not a folder that only root writes to"), "{theirs}, {command}: {said}");
        }
    }
}

#[test]
fn what_a_machine_lacks_is_said_with_a_remedy() {
    let Some(_alone) = alone() else { return };
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
        let said = fails(&apart(&format!(
            "mount -t tmpfs none /var; mkdir /var/empty-of-anabranch; echo 5.15.0 > /var/empty-of-anabranch/release\n\
             {lacking}\n\"$CC\" load lia"
        )));
        assert!(said.contains(what) && said.contains(remedy), "{said}");
    }
    let said = fails(
        &Command::new("unshare").args(["--user", PROGRAM, "load", "lia"]).output().expect("unshare is there"),
    );
    assert!(said.contains("run it as root"), "{said}");
    let said =
        fails(&Command::new("unshare").args(["--user", PROGRAM, "list"]).output().expect("unshare is there"));
    assert!(said.contains("run it as root"), "{said}");
}

#[test]
fn mistakes_are_one_sentence() {
    for (arguments, says) in [
        (&["load", "cubic"][..], "there is no control cubic to load"),
        (&["load", "--floor", "3"], "--floor takes 1 or 2"),
        (&["load", "--coupled-start", "olia"], "only lia"),
        (&["list", "--jso"], "--jso is no option"),
        (&["lode"], "none of its commands"),
        (&["hold", "lia", "x"], "none of its commands"),
        (&["unload", "cubic"], "there is no control cubic"),
        (&["run", "lia", "true"], "none of its commands"),
        (&["run", "lia", "--"], "no command to run"),
    ] {
        let output = program(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(fails(&output).contains(says), "{arguments:?}");
    }
}

#[test]
fn a_command_takes_the_place_of_the_caller() {
    let Some(_alone) = alone() else { return };
    assert!(fails(&program(&["run", "lia", "--", "true"])).contains("anabranch cc load lia"));
    succeeds(&["load", "lia"]);
    let seven = program(&["run", "lia", "--", "sh", "-c", "cat /proc/self/cgroup; exit 7"]);
    succeeds(&["unload"]);
    assert_eq!(seven.status.code(), Some(7), "{}", String::from_utf8_lossy(&seven.stderr));
    assert!(String::from_utf8_lossy(&seven.stdout).contains("/anabranch-"));
}

#[test]
fn the_holder_is_no_child_of_the_command_and_keeps_none_of_its_files() {
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
        .expect("sh is there");
    let (mut said, mut complained) = (String::new(), String::new());
    // Both end although the cgroup has a process and so its holder lives.
    command.stdout.take().expect("piped").read_to_string(&mut said).expect("text");
    command.stderr.take().expect("piped").read_to_string(&mut complained).expect("text");
    command.wait().expect("it ends");
    let (children, sleeper) = said.split_once('\n').expect("two lines");
    let ended = Command::new("kill").arg(sleeper.trim()).output().expect("kill is there");
    assert!(ended.status.success(), "the files were closed by the end of all: {}", fails(&ended));
    assert_eq!((children, complained.as_str()), ("[]", ""));
}

#[test]
fn the_later_of_two_choices_holds() {
    if !able() {
        return;
    }
    let output = program(&["run", "cubic", "--", PROGRAM, "run", "reno", "--", "cat", "/proc/self/cgroup"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("anabranch-").count(), 1);
}
