//! The GPU that the tests use.

use outrider_webgpu::Gpu;

/// Opens the GPU, if there is one.
pub async fn gpu() -> Option<Gpu> {
    match Gpu::open().await {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            assert!(std::env::var_os("OUTRIDER_GPU").is_none(), "{error}");
            eprintln!("SKIPPED, as {error}");
            None
        }
    }
}
