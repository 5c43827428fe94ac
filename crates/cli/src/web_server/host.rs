//! The check of the Host header.

use std::net::IpAddr;

use vramfit_monitor::platform::host_name;

use super::request::{Request, authority};

/// The hosts under which this server may be addressed. Without this check a web page could point its own name at this
/// machine (DNS rebinding) and let the browser read from here.
pub struct KnownHosts {
    /// The name given to `--listen`.
    pub listen_name: Option<String>,
}

impl KnownHosts {
    /// Whether a request is meant for this machine. HTTP/1.0 may leave the host out.
    pub fn allow(&self, request: &Request) -> bool {
        authority(request).is_none_or(|authority| self.has(authority))
    }

    /// An IP address or this machine's name: nothing that someone else's DNS could point here.
    fn has(&self, authority: &str) -> bool {
        let name = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
        };
        let own = host_name();
        let names = [Some("localhost"), Some(own.as_str()), self.listen_name.as_deref()];
        name.parse::<IpAddr>().is_ok() || names.into_iter().flatten().any(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_nobody_else_can_point_here_are_known() {
        let hosts = KnownHosts { listen_name: Some("gpus.local".to_owned()) };
        for good in ["127.0.0.1:9837", "localhost", "LOCALHOST:1", "[::1]:9837", "192.168.0.7", "gpus.local:1"] {
            assert!(hosts.has(good), "{good}");
        }
        for bad in ["evil.example", "evil.example:9837", "localhost.evil.example", ""] {
            assert!(!hosts.has(bad), "{bad}");
        }
    }
}
