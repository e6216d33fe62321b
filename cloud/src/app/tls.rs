//! TLS by rustls.

use std::{path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
};

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM.
    #[error("the {what} {path} cannot be read: {error}")]
    Read {
        /// Which.
        what: &'static str,
        /// Where from.
        path: String,
        /// Why not.
        error: pem::Error,
    },
    /// There is no certificate in its file.
    #[error("there is no certificate in {0}")]
    NoCertificate(String),
    /// Certificate and key do not belong together, or are of a kind that is not known.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// TLS 1.2 and 1.3 with this certificate chain and key, both in PEM. Read once: a new certificate wants a new start.
///
/// # Errors
/// [`TlsError`] if they give none.
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
    // WebSockets are HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
