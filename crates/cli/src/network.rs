//! Opens the socket of a command that answers over the network.

use std::net::{SocketAddr, TcpListener};

use vramfit_web::server::{KnownHosts, Token, TokenError};

use crate::arguments::listen::ListenOptions;
use crate::failure::Failure;

/// An open socket and whom to answer.
pub struct Network {
    /// The socket.
    pub listener: TcpListener,
    /// Its address.
    pub address: SocketAddr,
    /// The token that clients must send.
    pub token: Option<Token>,
    /// The hosts under which the server may be addressed, if that is checked.
    pub hosts: Option<KnownHosts>,
}

impl Network {
    /// Opens the socket. `exposure` says what strangers could do without a token.
    pub fn open(options: &ListenOptions, port: Option<u16>, default: u16, exposure: &str) -> Result<Network, Failure> {
        let token = Token::find(options.token_file.as_deref()).map_err(unfit)?;
        let addresses = options.listen.addresses(port, default).map_err(|error| Failure::new(error.to_string()))?;
        refuse_open_address(&addresses, token.as_ref(), options.insecure, exposure)?;
        let listener = TcpListener::bind(addresses.as_slice()).map_err(|error| {
            let asked: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            Failure::new(format!("{}: {error}", asked.join(", ")))
                .with_hint(Some("--port chooses another port; 0 takes a free one"))
        })?;
        let address = listener.local_addr().map_err(|error| Failure::new(format!("the address: {error}")))?;
        let is_loopback = address.ip().to_canonical().is_loopback();
        let hosts = is_loopback.then(|| KnownHosts { listen_name: options.listen.name().map(str::to_owned) });
        Ok(Network { listener, address, token, hosts })
    }
}

fn unfit(error: TokenError) -> Failure {
    Failure::new(error.to_string()).with_hint(error.hint())
}

/// What is served is for this machine alone by default.
fn refuse_open_address(
    addresses: &[SocketAddr],
    token: Option<&Token>,
    insecure: bool,
    exposure: &str,
) -> Result<(), Failure> {
    let open = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
    let Some(open) = open.filter(|_| token.is_none() && !insecure) else { return Ok(()) };
    let address = open.ip();
    Err(Failure::new(format!("--listen {address}: others could {exposure}; a token is needed")).with_hint(Some(
        "give --token-file FILE (or VRAMFIT_TOKEN) and let clients send it as a bearer token, or say --insecure",
    )))
}
