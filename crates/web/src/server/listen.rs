//! Where to listen: an address or a name, with a port or without.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// Why there is no address to listen on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Two ports were given.
    #[error("--listen says port {listen}, --port says {port}")]
    Ports {
        /// Of `--listen`.
        listen: u16,
        /// Of `--port`.
        port: u16,
    },
    /// A name without an address.
    #[error("--listen {name}: no address for this name: {error}")]
    Name {
        /// The name.
        name: String,
        /// What the system says.
        error: std::io::Error,
    },
}

/// The value of `--listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Everywhere,
    Address(IpAddr),
    Name(String),
}

impl Listen {
    /// `127.0.0.1`, `::1`, `[::1]`, `localhost`, each with `:PORT` or without (an IPv6 address then in brackets);
    /// `:PORT` is everywhere.
    ///
    /// # Errors
    /// It is none of these; the text says what was found.
    pub fn parse(text: &str) -> Result<Listen, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Listen { host: Host::Address(address), port: None });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (inside, after) = rest.split_once(']').ok_or("the bracket is not closed")?;
                let address = inside.parse::<Ipv6Addr>().map_err(|_| format!("{inside:?} is no IPv6 address"))?;
                let port = match after {
                    "" => None,
                    _ => Some(after.strip_prefix(':').ok_or(format!("{after:?} after the bracket; needed :PORT"))?),
                };
                (Host::Address(address.into()), port)
            }
            None => {
                let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
                if port.is_some_and(|port| port.contains(':')) {
                    return Err("no address; an IPv6 address with a port needs brackets: [::1]:9837".to_owned());
                }
                (Host::parse(host, port.is_some())?, port)
            }
        };
        let port = port.map(|port| port.parse().map_err(|_| format!("{port:?} is no port; needed 0 to 65535")));
        Ok(Listen { host, port: port.transpose()? })
    }

    /// The addresses to try in order, with the port of `--port`, or `default` where neither flag has one.
    ///
    /// # Errors
    /// The flags name two ports, or a name has no address.
    pub fn addresses(&self, port: Option<u16>, default: u16) -> Result<Vec<SocketAddr>, ListenError> {
        let port = match (self.port, port) {
            (Some(listen), Some(port)) if listen != port => return Err(ListenError::Ports { listen, port }),
            (one, other) => one.or(other).unwrap_or(default),
        };
        Ok(match &self.host {
            // The first takes IPv4 too, but a machine may have no IPv6.
            Host::Everywhere => vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()],
            Host::Address(address) => vec![(*address, port).into()],
            Host::Name(name) => {
                let found = (name.as_str(), port).to_socket_addrs();
                let mut found: Vec<SocketAddr> =
                    found.map_err(|error| ListenError::Name { name: name.clone(), error })?.collect();
                found.sort_by_key(SocketAddr::is_ipv6);
                found
            }
        })
    }

    /// The host name, if it is not an address.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Name(name) => Some(name),
            _ => None,
        }
    }
}

impl Host {
    fn parse(text: &str, has_port: bool) -> Result<Host, String> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Host::Address(address.into()));
        }
        let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        match text {
            "" if has_port => Ok(Host::Everywhere),
            "" => Err("nothing; needed an address or a name".to_owned()),
            // Do not resolve a mistyped address as a name.
            _ if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
                Err(format!("{text:?} is no IPv4 address"))
            }
            _ if is_name(text) => Ok(Host::Name(text.to_owned())),
            _ => Err(format!("{text:?} is neither an address nor a name")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_understood_with_and_without_a_port() {
        let address = |text: &str| Listen::parse(text).unwrap().addresses(None, 9837).unwrap()[0].to_string();
        assert_eq!(address("127.0.0.1"), "127.0.0.1:9837");
        assert_eq!(address("127.0.0.1:80"), "127.0.0.1:80");
        assert_eq!(address("::1"), "[::1]:9837");
        assert_eq!(address("[::1]"), "[::1]:9837");
        assert_eq!(address("[::1]:0"), "[::1]:0");
        assert_eq!(address("localhost"), "127.0.0.1:9837");
        assert_eq!(address("localhost:81"), "127.0.0.1:81");
        assert_eq!(address(":82"), "[::]:82");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in
            ["", ":", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:x", "[::1", "[::1]9837", "[1.2.3.4]", "::1:x", "a b"]
        {
            assert!(Listen::parse(bad).is_err(), "{bad}");
        }
        for mistyped in ["127.0.0", "1.2.3.4.5", "256.0.0.1", "http://localhost"] {
            assert!(Listen::parse(mistyped).is_err(), "{mistyped}");
        }
    }

    #[test]
    fn a_port_said_twice_must_be_the_same() {
        let listen = Listen::parse("127.0.0.1:80").unwrap();
        assert!(listen.addresses(Some(80), 1).is_ok());
        assert!(listen.addresses(Some(81), 1).is_err());
    }
}
