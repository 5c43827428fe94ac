//! The checks of the Host and Origin headers.

use std::net::IpAddr;

use http::header::ORIGIN;
use vramfit_monitor::platform::host_name;

use super::request::{Head, authority};

/// The hosts under which this server may be addressed. Without this check a web page could point its own name at this
/// machine (DNS rebinding) and let the browser read from here.
pub struct KnownHosts {
    /// The name given to `--listen`.
    pub listen_name: Option<String>,
}

impl KnownHosts {
    /// Whether a request is meant for this machine. HTTP/1.0 may leave the host out.
    pub fn allow(&self, request: &Head) -> bool {
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

/// Whether another site's page makes the browser send this. Browsers say so in one of two headers; other programs send
/// neither.
pub fn is_foreign(request: &Head) -> bool {
    let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    let from_elsewhere = header("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let origin = header(ORIGIN.as_str());
    let is_other = origin.is_some_and(|origin| {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_none() || !host.zip(authority(request)).is_some_and(|(host, own)| host.eq_ignore_ascii_case(own))
    });
    from_elsewhere || is_other
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

    #[test]
    fn pages_of_other_sites_are_foreign() {
        let with = |name: &'static str, value: &str| {
            let mut request = Head::new(());
            request.headers_mut().insert("host", "localhost:8000".parse().unwrap());
            request.headers_mut().insert(name, value.parse().unwrap());
            is_foreign(&request)
        };
        for own in ["http://localhost:8000", "https://LOCALHOST:8000"] {
            assert!(!with("origin", own), "{own}");
        }
        for other in ["http://evil.example", "null", "", "http://localhost", "http://localhost:8001", "localhost:8000"]
        {
            assert!(with("origin", other), "{other}");
        }
        assert!(with("sec-fetch-site", "cross-site") && with("sec-fetch-site", "same-site"));
        assert!(!with("sec-fetch-site", "same-origin") && !with("sec-fetch-site", "none") && !with("accept", "*/*"));
    }
}
