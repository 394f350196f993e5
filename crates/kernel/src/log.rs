//! What libbpf says while it works, kept for the message if it fails.

use libbpf_rs::PrintLevel;
use std::sync::{Mutex, Once, PoisonError};

static SAID: Mutex<String> = Mutex::new(String::new());
static LISTENING: Once = Once::new();

/// The longest that is kept, bytes: a verifier's complaint is at the end of what it says.
const MOST: usize = 1 << 20;

#[expect(clippy::needless_pass_by_value, reason = "libbpf-rs calls it so")]
fn listen(_: PrintLevel, text: String) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.push_str(&text);
    if said.len() > MOST {
        let mut cut = said.len() - MOST / 2;
        while !said.is_char_boundary(cut) {
            cut += 1;
        }
        said.drain(..cut);
    }
}

/// Forgets what was said.
pub fn begin() {
    LISTENING.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, listen)));
    });
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// What was said since.
pub fn said() -> String {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// What a refusal to load means, in a sentence or a few lines.
pub fn explain(control: &str, error: &dyn std::fmt::Display) -> String {
    explained(control, &error.to_string(), &said())
}

fn explained(control: &str, error: &str, said: &str) -> String {
    if let Some(member) = said.lines().find(|line| line.contains("failed to resolve CO-RE relocation")) {
        let member = member.rsplit("relocation").next().unwrap_or(member).trim();
        return format!(
            "this kernel lays out a structure in a way that {control} does not know ({member}); \
             use a newer anabranch, and report this kernel"
        );
    }
    if said.contains("BEGIN PROG LOAD LOG") {
        let lines: Vec<_> = said
            .lines()
            .skip_while(|line| !line.contains("BEGIN PROG LOAD LOG"))
            .skip(1)
            .take_while(|line| !line.contains("END PROG LOAD LOG"))
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
        return format!(
            "the kernel's verifier refuses {control}; report this, with the kernel's release. It says at the end:\n  {last}"
        );
    }
    if said.contains("not found in kernel BTF") || said.contains("failed to find BTF") {
        return format!(
            "this kernel cannot have congestion controls in BPF; {control} needs CONFIG_BPF_JIT and Linux 6.4"
        );
    }
    let last = said.lines().last().unwrap_or_default().trim();
    format!("the kernel refuses {control}: {error}{}{last}", if last.is_empty() { "" } else { "; " })
}

#[cfg(test)]
mod tests {
    use super::explained;

    #[test]
    fn a_verifiers_last_lines_are_told() {
        let said = "libbpf: prog 'avoid': BPF program load failed: -EACCES\nlibbpf: prog 'avoid': -- BEGIN PROG LOAD LOG --\n\
                    0: R1=ctx()\n1: (79) r1 = *(u64 *)(r1 +0)\nR1 invalid mem access\n-- END PROG LOAD LOG --\nlibbpf: failed\n";
        let text = explained("lia", "Permission denied", said);
        assert!(text.contains("verifier refuses lia"), "{text}");
        assert!(text.ends_with("R1 invalid mem access"), "{text}");
    }

    #[test]
    fn a_kernel_without_controls_in_bpf_is_told_from_one_that_refuses() {
        let said = "libbpf: struct_ops init_kern control: struct bpf_struct_ops_tcp_congestion_ops is not found in kernel BTF\n";
        let text = explained("lia", "No such file or directory", said);
        assert!(text.contains("CONFIG_BPF_JIT"), "{text}");
        let text = explained("lia", "Cannot allocate memory", "libbpf: map 'control': failed to create\n");
        assert_eq!(
            text,
            "the kernel refuses lia: Cannot allocate memory; libbpf: map 'control': failed to create"
        );
        assert_eq!(
            explained("lia", "Device or resource busy", ""),
            "the kernel refuses lia: Device or resource busy"
        );
    }

    #[test]
    fn an_unknown_layout_names_the_member() {
        let said = "libbpf: -- BEGIN PROG LOAD LOG --\n6: <invalid CO-RE relocation>\nfailed to resolve CO-RE relocation \
                    <byte_off> [23] struct mptcp_sock.conn_list (0:0 @ offset 0)\n-- END PROG LOAD LOG --\n";
        let text = explained("lia", "Invalid argument", said);
        assert!(text.contains("struct mptcp_sock.conn_list"), "{text}");
    }
}
