//! Logits on candle's CPU device beside those of the CPU's own kernels: the same model, the same tokens, however they
//! are batched.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use outrider_device::{BatchRows, Device, DeviceCache, DeviceError, DeviceModel, DevicePages};
use outrider_models::{Chunk, Model, ModelError, PAGE_TOKENS, StoredModel};
use outrider_testing::logits::{self, assert_within, on_cpu};

const PAIR: &[u8] = include_bytes!("../../pair/target/target-f16.gguf");
const DRAFT: &[u8] = include_bytes!("../../pair/draft/draft-q8_0.gguf");
const KV_BYTES: usize = 64 << 20;
/// Largest |a − b| / max |b| of a row. Floats: sums of f32 in other orders. Quantized: candle rounds activations to 8
/// bits in blocks of its own.
const FLOAT_ERROR: f32 = 2e-5;
const QUANTIZED_ERROR: f32 = 6e-2;

/// The model on both, with the error that its weights allow.
struct Both {
    cpu: Model,
    device: DeviceModel,
    bound: f32,
}

fn gguf(bytes: &[u8], bound: f32) -> Both {
    let stored = StoredModel::from_gguf(&mut &bytes[..]).unwrap();
    Both {
        cpu: Model::from_gguf(&mut &bytes[..]).unwrap(),
        device: DeviceModel::new(stored, &Device::Cpu, KV_BYTES).unwrap(),
        bound,
    }
}

macro_rules! checkpoint {
    ($name:literal) => {{
        let config = include_bytes!(concat!("../../models/tests/golden/", $name, ".config.json"));
        let weights = include_bytes!(concat!("../../models/tests/golden/", $name, ".safetensors"));
        let stored = StoredModel::from_safetensors(config, weights).unwrap();
        Both {
            cpu: Model::from_safetensors(config, weights).unwrap(),
            device: DeviceModel::new(stored, &Device::Cpu, KV_BYTES).unwrap(),
            bound: FLOAT_ERROR,
        }
    }};
}

fn text(model: &Model, seed: usize, len: usize) -> Vec<u32> {
    logits::text(model.config().vocab_size, seed, len)
}

/// One chunk a part: its cache, tokens, and how many rows of the last are wanted.
fn on_device(model: &DeviceModel, parts: &mut [(&mut DeviceCache, &[u32], usize)]) -> BatchRows {
    let positions: Vec<Vec<usize>> =
        parts.iter().map(|(_, tokens, rows)| (tokens.len() - rows..tokens.len()).collect()).collect();
    let mut chunks: Vec<Chunk<'_, DevicePages>> = parts
        .iter_mut()
        .zip(&positions)
        .map(|((cache, tokens, _), positions)| Chunk { cache, tokens, positions })
        .collect();
    model.forward(&mut chunks).unwrap()
}

#[track_caller]
fn assert_close(actual: &[Vec<f32>], expected: &[Vec<f32>], bound: f32) {
    assert_eq!(actual.len(), expected.len());
    actual.iter().zip(expected).for_each(|(actual, expected)| assert_within(bound, actual, expected, "a row"));
}

#[test]
fn every_kind_of_file_gives_the_logits_of_the_cpu() {
    let models = [
        gguf(PAIR, FLOAT_ERROR),
        gguf(DRAFT, QUANTIZED_ERROR),
        checkpoint!("grouped"),
        checkpoint!("llama3_rope"),
        checkpoint!("linear_rope"),
        gguf(include_bytes!("../../models/tests/golden/blocks-f32.gguf"), FLOAT_ERROR),
        gguf(include_bytes!("../../models/tests/golden/blocks-f16.gguf"), FLOAT_ERROR),
        gguf(include_bytes!("../../models/tests/golden/blocks-q8_0.gguf"), QUANTIZED_ERROR),
        gguf(include_bytes!("../../models/tests/golden/blocks-q4_0.gguf"), QUANTIZED_ERROR),
    ];
    for Both { cpu, device, bound } in models {
        let tokens = text(&cpu, 1, 24.min(cpu.config().context_length));
        let mut cache = device.new_cache();
        let rows = on_device(&device, &mut [(&mut cache, &tokens, tokens.len())]);
        assert_close(&rows.rows(0).unwrap(), &on_cpu(&cpu, &tokens, tokens.len()), bound);
        assert_eq!(cache.len(), tokens.len());
    }
}

/// Sessions of different lengths, each with its own number of rows, in one forward pass after another.
#[test]
fn ragged_batches_give_what_each_session_gives_alone() {
    let Both { cpu, device, bound } = gguf(PAIR, FLOAT_ERROR);
    let lengths = [1, 3, PAGE_TOKENS - 1, PAGE_TOKENS, PAGE_TOKENS + 1, 100, 7];
    let texts: Vec<Vec<u32>> = lengths.iter().enumerate().map(|(seed, length)| text(&cpu, seed, length + 20)).collect();
    let mut caches: Vec<DeviceCache> = lengths.iter().map(|_| device.new_cache()).collect();
    let mut prompts: Vec<_> =
        caches.iter_mut().zip(&texts).zip(lengths).map(|((cache, text), length)| (cache, &text[..length], 0)).collect();
    // No row of the prompts is wanted.
    let none = on_device(&device, &mut prompts);
    assert!((0..lengths.len()).all(|chunk| none.rows(chunk).unwrap().is_empty()));
    // Each brings between one and five tokens, and wants some of their rows; one brings nothing.
    for round in 0..3 {
        let pieces: Vec<(usize, usize)> = (0..lengths.len())
            .map(|session| match (session + round) % 6 {
                5 => (0, 0),
                tokens => (tokens + 1, (tokens + 1).min(1 + session % 3)),
            })
            .collect();
        let held: Vec<usize> = caches.iter().map(DeviceCache::len).collect();
        let mut parts: Vec<_> = caches
            .iter_mut()
            .zip(&texts)
            .zip(held.iter().zip(&pieces))
            .map(|((cache, text), (held, (tokens, rows)))| (cache, &text[*held..held + tokens], *rows))
            .collect();
        let batch = on_device(&device, &mut parts);
        for (session, (tokens, rows)) in pieces.into_iter().enumerate() {
            let expected = on_cpu(&cpu, &texts[session][..held[session] + tokens], rows);
            assert_close(&batch.rows(session).unwrap(), &expected, bound);
        }
    }
}

/// Positions that were rolled back are written again before they are read, and pages of a closed session are another's.
#[test]
fn a_cache_that_was_rolled_back_is_as_good_as_new() {
    let Both { cpu, device, bound } = gguf(PAIR, FLOAT_ERROR);
    let (wrong, right) = (text(&cpu, 8, 70), text(&cpu, 9, 70));
    let mut cache = device.new_cache();
    on_device(&device, &mut [(&mut cache, &right[..40], 0)]);
    on_device(&device, &mut [(&mut cache, &wrong[40..], 1)]);
    cache.truncate(40);
    let rows = on_device(&device, &mut [(&mut cache, &right[40..45], 5)]);
    assert_close(&rows.rows(0).unwrap(), &on_cpu(&cpu, &right[..45], 5), bound);
    drop(cache);
    let mut other = device.new_cache();
    let rows = on_device(&device, &mut [(&mut other, &wrong[..10], 2)]);
    assert_close(&rows.rows(0).unwrap(), &on_cpu(&cpu, &wrong[..10], 2), bound);
}

#[test]
fn a_batch_that_is_refused_changes_nothing() {
    let Both { cpu, device, bound } = gguf(PAIR, FLOAT_ERROR);
    let tokens = text(&cpu, 3, 20);
    let (mut good, mut bad) = (device.new_cache(), device.new_cache());
    on_device(&device, &mut [(&mut good, &tokens[..10], 0)]);
    let chunks = |good, bad| -> [Chunk<'_, DevicePages>; 2] {
        [
            Chunk { cache: good, tokens: &tokens[10..12], positions: &[1] },
            Chunk { cache: bad, tokens: &[u32::MAX], positions: &[] },
        ]
    };
    let error = device.forward(&mut chunks(&mut good, &mut bad)).unwrap_err();
    assert!(matches!(error, DeviceError::Model(ModelError::TokenOutOfRange { chunk: 1, .. })), "{error}");
    assert_eq!((good.len(), bad.len()), (10, 0));
    let rows = on_device(&device, &mut [(&mut good, &tokens[10..], 3)]);
    assert_close(&rows.rows(0).unwrap(), &on_cpu(&cpu, &tokens, 3), bound);
    let mut foreign = gguf(PAIR, bound).device.new_cache();
    let chunk = Chunk { cache: &mut foreign, tokens: &[1], positions: &[0] };
    let error = device.forward(&mut [chunk]).unwrap_err();
    assert!(matches!(error, DeviceError::Model(ModelError::CacheMismatch { chunk: 0 })), "{error}");
}

#[test]
fn sessions_that_need_more_pages_than_there_are_are_told() {
    let stored = StoredModel::from_gguf(&mut &PAIR[..]).unwrap();
    let page = DeviceModel::new(StoredModel::from_gguf(&mut &PAIR[..]).unwrap(), &Device::Cpu, KV_BYTES).unwrap();
    let two_pages = page.new_cache().bytes_for(2 * PAGE_TOKENS);
    let device = DeviceModel::new(stored, &Device::Cpu, two_pages).unwrap();
    let mut cache = device.new_cache();
    let tokens = vec![1; 2 * PAGE_TOKENS + 1];
    let chunk = Chunk { cache: &mut cache, tokens: &tokens, positions: &[] };
    let error = device.forward(&mut [chunk]).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfPages { needed: 3, free: 2 }), "{error}");
    assert!(error.to_string().ends_with("raise --kv-memory"), "{error}");
}
