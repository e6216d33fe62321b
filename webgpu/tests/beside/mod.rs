//! A GPU, and the processor beside it.
#![allow(dead_code, reason = "not every test needs all")]

use outrider_models::{Chunk, Model};
use outrider_webgpu::Gpu;

/// The GPU, if there is one.
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

/// The largest |a − b| / max |b| of a row.
#[track_caller]
pub fn assert_within(tolerance: f32, actual: &[f32], expected: &[f32], what: &str) {
    assert!(actual.len() == expected.len() && actual.iter().all(|x| x.is_finite()), "{what}");
    let scale = expected.iter().fold(0f32, |scale, x| scale.max(x.abs()));
    let error = actual.iter().zip(expected).fold(0f32, |most, (a, b)| most.max((a - b).abs())) / scale;
    assert!(error <= tolerance, "{what}: {error}");
}

/// Logits after each of the last `rows` tokens, by the processor.
pub fn on_cpu(model: &Model, tokens: &[u32], rows: usize) -> Vec<Vec<f32>> {
    let mut cache = model.new_cache();
    let positions: Vec<usize> = (tokens.len() - rows..tokens.len()).collect();
    let chunk = Chunk { cache: &mut cache, tokens, positions: &positions };
    model.forward(&mut [chunk]).unwrap()[0].iter().map(<[f32]>::to_vec).collect()
}

/// Tokens of no meaning.
pub fn text(vocab_size: usize, len: usize) -> Vec<u32> {
    (0..len).map(|index| ((index * 37 + index * index) % vocab_size) as u32).collect()
}
