//! Log messages of libbpf, stored for error messages.

use libbpf_rs::PrintLevel;
use std::sync::{Mutex, Once, PoisonError};

/// Messages since the last call of [`begin`].
static MESSAGES: Mutex<String> = Mutex::new(String::new());
/// Ensures that libbpf is directed to this log once per process.
static INITIALISED: Once = Once::new();

/// Maximum length of the stored log, bytes. The beginning of a longer log is dropped; the verifier's error is at the
/// end.
const MAX_LOG_BYTES: usize = 1 << 20;

#[expect(clippy::needless_pass_by_value, reason = "the signature is that of libbpf-rs")]
fn store_message(_: PrintLevel, text: String) {
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    messages.push_str(&text);
    if messages.len() > MAX_LOG_BYTES {
        let mut cut = messages.len() - MAX_LOG_BYTES / 2;
        while !messages.is_char_boundary(cut) {
            cut += 1;
        }
        messages.drain(..cut);
    }
}

/// Clears the log.
pub fn begin() {
    INITIALISED.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, store_message)));
    });
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Returns the log since the last call of [`begin`].
pub fn messages() -> String {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Explains in a sentence or a few lines why the kernel refused to load a program.
pub fn explain(control: &str, error: &dyn std::fmt::Display) -> String {
    explanation(control, &error.to_string(), &messages())
}

fn explanation(control: &str, error: &str, messages: &str) -> String {
    if let Some(member) = messages.lines().find(|line| line.contains("failed to resolve CO-RE relocation")) {
        let member = member.rsplit("relocation").next().unwrap_or(member).trim();
        return format!(
            "this kernel has a structure whose layout {control} does not support ({member}); \
             use a newer anabranch, and report this kernel"
        );
    }
    if messages.contains("BEGIN PROG LOAD LOG") {
        let lines: Vec<_> = messages
            .lines()
            .skip_while(|line| !line.contains("BEGIN PROG LOAD LOG"))
            .skip(1)
            .take_while(|line| !line.contains("END PROG LOAD LOG"))
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = lines[lines.len().saturating_sub(8)..].join("\n  ");
        return format!(
            "the kernel's verifier refuses {control}; report this, with the kernel's release. The end of its log is:\n  {last}"
        );
    }
    if messages.contains("not found in kernel BTF") || messages.contains("failed to find BTF") {
        return format!(
            "this kernel does not support congestion controls in BPF; {control} needs CONFIG_BPF_JIT and Linux 6.4"
        );
    }
    let last = messages.lines().last().unwrap_or_default().trim();
    format!("the kernel refuses {control}: {error}{}{last}", if last.is_empty() { "" } else { "; " })
}

#[cfg(test)]
mod tests {
    use super::explanation;

    #[test]
    fn explanation_contains_the_verifier_log() {
        let messages = "libbpf: prog 'avoid': BPF program load failed: -EACCES\nlibbpf: prog 'avoid': -- BEGIN PROG LOAD LOG --\n\
                    0: R1=ctx()\n1: (79) r1 = *(u64 *)(r1 +0)\nR1 invalid mem access\n-- END PROG LOAD LOG --\nlibbpf: failed\n";
        let text = explanation("lia", "Permission denied", messages);
        assert!(text.contains("verifier refuses lia"), "{text}");
        assert!(text.ends_with("R1 invalid mem access"), "{text}");
    }

    #[test]
    fn missing_bpf_support_differs_from_a_refusal() {
        let messages = "libbpf: struct_ops init_kern control: struct bpf_struct_ops_tcp_congestion_ops is not found in kernel BTF\n";
        let text = explanation("lia", "No such file or directory", messages);
        assert!(text.contains("CONFIG_BPF_JIT"), "{text}");
        let text = explanation("lia", "Cannot allocate memory", "libbpf: map 'control': failed to create\n");
        assert_eq!(
            text,
            "the kernel refuses lia: Cannot allocate memory; libbpf: map 'control': failed to create"
        );
        assert_eq!(
            explanation("lia", "Device or resource busy", ""),
            "the kernel refuses lia: Device or resource busy"
        );
    }

    #[test]
    fn unknown_layout_names_the_member() {
        let messages = "libbpf: -- BEGIN PROG LOAD LOG --\n6: <invalid CO-RE relocation>\nfailed to resolve CO-RE relocation \
                    <byte_off> [23] struct mptcp_sock.conn_list (0:0 @ offset 0)\n-- END PROG LOAD LOG --\n";
        let text = explanation("lia", "Invalid argument", messages);
        assert!(text.contains("struct mptcp_sock.conn_list"), "{text}");
    }
}
