//! The container of a process, from its control group.

/// The container in the text of `/proc/PID/cgroup`, such as `docker:0123456789ab`; `None` outside of any.
pub fn container_of(cgroup: &str) -> Option<String> {
    cgroup.lines().find_map(|line| in_path(line.splitn(3, ':').nth(2)?))
}

fn in_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_kubernetes = parts.iter().any(|part| part.starts_with("kubepods"));
    for (position, part) in parts.iter().enumerate().rev() {
        let name = part.strip_suffix(".scope").unwrap_or(part);
        let scoped =
            [("docker-", "docker"), ("libpod-", "podman"), ("cri-containerd-", "containerd"), ("crio-", "cri-o")];
        for (prefix, kind) in scoped {
            if let Some(id) = name.strip_prefix(prefix).filter(|id| is_identifier(id)) {
                return Some(named(if is_kubernetes { "kubernetes" } else { kind }, id));
            }
        }
        let parent = position.checked_sub(1).and_then(|before| parts.get(before)).copied().unwrap_or("");
        if is_identifier(name) {
            match parent {
                "docker" => return Some(named("docker", name)),
                "libpod_parent" | "machine.slice" => return Some(named("podman", name)),
                _ if is_kubernetes => return Some(named("kubernetes", name)),
                _ => {}
            }
        }
        if let Some(name) = name.strip_prefix("lxc.payload.").or((parent == "lxc").then_some(name)) {
            return Some(format!("lxc:{name}"));
        }
        // A Slurm job is no container, but it too says whose work the process is.
        if let Some(job) = name.strip_prefix("job_").filter(|job| job.parse::<u64>().is_ok()) {
            return Some(format!("slurm:{job}"));
        }
    }
    None
}

/// A container's identifier is 64 hexadecimal digits.
fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn named(kind: &str, id: &str) -> String {
    format!("{kind}:{}", &id[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn each_container_runtime_is_recognised_by_its_control_group() {
        let cases = [
            (format!("0::/system.slice/docker-{ID}.scope"), Some("docker:0123456789ab")),
            (format!("12:memory:/docker/{ID}\n11:cpu:/docker/{ID}"), Some("docker:0123456789ab")),
            (
                format!("0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container"),
                Some("podman:0123456789ab"),
            ),
            (
                format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
                Some("kubernetes:0123456789ab"),
            ),
            (format!("4:cpu:/kubepods/besteffort/pod77/{ID}"), Some("kubernetes:0123456789ab")),
            ("0::/lxc.payload.web/system.slice".to_owned(), Some("lxc:web")),
            ("4:cpu:/lxc/web".to_owned(), Some("lxc:web")),
            ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0".to_owned(), Some("slurm:4711")),
            ("0::/user.slice/user-1000.slice/session-2.scope".to_owned(), None),
            ("0::/".to_owned(), None),
            (String::new(), None),
            ("no colons at all".to_owned(), None),
        ];
        for (text, expected) in cases {
            assert_eq!(container_of(&text).as_deref(), expected, "{text}");
        }
    }
}
