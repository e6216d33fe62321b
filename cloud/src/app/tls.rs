//! TLS configuration with rustls.

use std::{path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

/// Reason why TLS cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("the {what} {path} cannot be read: {error}")]
    Read {
        /// Kind of file, certificate or key.
        what: &'static str,
        /// Path of the file that was read.
        path: String,
        /// Error of the PEM reader.
        error: pem::Error,
    },
    /// The certificate file has no certificate.
    #[error("no certificate found in {0}")]
    NoCertificate(String),
    /// Certificate and key do not match, or are of an unknown kind.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// Configuration for TLS 1.2 and 1.3 with a certificate chain and its key, both in PEM. The files are read once, so a
/// new certificate needs a restart.
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
