//! TLS configuration with rustls, which can be replaced while the server runs.

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};
use tokio_rustls::TlsAcceptor;

/// TLS configuration of a running server. Clones share it.
#[derive(Debug, Clone)]
pub struct Tls(Arc<RwLock<Arc<ServerConfig>>>);

impl Tls {
    /// A configuration that can be replaced.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(RwLock::new(config)))
    }

    /// Sets the configuration of further connections.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        // A lock of one pointer is consistent after a panic, too.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

/// Reason why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("the {what} {path} cannot be read: {error}; give a file in PEM that the server's user may read")]
    Read {
        /// Kind of file, certificate or key.
        what: &'static str,
        /// Path of the file that was read.
        path: String,
        /// Error of the PEM reader.
        error: pem::Error,
    },
    /// The certificate file has no certificate.
    #[error("no certificate found in {0}; give the whole chain in PEM, the server's own certificate first")]
    NoCertificate(String),
    /// Certificate and key do not match, or are of an unknown kind.
    #[error("the certificate and its key cannot be used: {0}; give the private key of this certificate")]
    Unusable(#[from] rustls::Error),
}

/// Configuration for TLS 1.2 and 1.3 with a certificate chain and its key, both in PEM. The files are read once;
/// [`Tls::replace`] is given a new certificate.
///
/// # Errors
/// [`TlsError`] if the files cannot be read or used.
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let read = |what, path: &Path| {
        let path = path.display().to_string();
        move |error| TlsError::Read { what, path, error }
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(read("certificate", certificate))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(read("certificate", certificate))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(certificate.display().to_string()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(read("private key", key))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    // WebSockets need HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
