//! Models with an encoder, container by container, against transformers; independence of batching, bit for bit.

use std::collections::BTreeMap;

use outrider_models::{Chunk, EncoderDecoder, KvCache, LoadError, Model, ModelError, Scratch, Source, SourceChunk};
use outrider_testing::{
    encoder_decoders::goldens,
    gguf::bytes,
    golden::{Golden, Weight, safetensors},
    llama::random,
    logits::{argmax, assert_same_bits, compare},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::grouping::Reader;

/// Largest |a − b| / max |b| of a row: sums of f32 in another order, through a few layers.
const TOLERANCE: f32 = 1e-4;

fn with(golden: &Golden, changes: &[(&str, Value)]) -> Result<EncoderDecoder, LoadError> {
    EncoderDecoder::from_safetensors(&golden.config_with(changes), &safetensors(&golden.weights(), "F32"))
}

fn checkpoint(golden: &Golden) -> EncoderDecoder {
    with(golden, &[]).unwrap()
}

fn gguf(bytes: &[u8]) -> Result<EncoderDecoder, LoadError> {
    EncoderDecoder::from_gguf(&mut &*bytes)
}

/// Both containers of a model, as far as there are two.
fn containers(golden: &Golden) -> Vec<(&'static str, EncoderDecoder)> {
    let gguf = golden.t5().map(|file| ("GGUF", gguf(&file.finish()).unwrap()));
    [("safetensors", checkpoint(golden))].into_iter().chain(gguf).collect()
}

/// Logits after every one of `tokens`, which follow those in `cache`.
fn logits_at_all(model: &EncoderDecoder, source: &Source, cache: &mut KvCache, tokens: &[u32]) -> Vec<Vec<f32>> {
    let positions: Vec<usize> = (0..tokens.len()).collect();
    let text = Chunk { cache, tokens, positions: &positions };
    let logits = model.forward(&mut [SourceChunk { source, text }]).unwrap();
    assert_eq!(logits.len(), 1);
    logits[0].iter().map(<[f32]>::to_vec).collect()
}

/// All logits of a golden text.
fn golden_rows(model: &EncoderDecoder, golden: &Golden) -> Vec<Vec<f32>> {
    let source = model.encode(&golden.source).unwrap();
    logits_at_all(model, &source, &mut model.new_cache(), &golden.tokens)
}

/// The greatest error of the golden rows, or what is wrong.
fn error(model: &EncoderDecoder, golden: &Golden, tolerance: f32) -> Result<f32, String> {
    let rows = golden_rows(model, golden);
    let errors =
        golden.rows.iter().zip(&golden.logits).map(|(&row, expected)| compare(&rows[row], expected, tolerance));
    errors.collect::<Result<Vec<f32>, String>>().map(|errors| errors.into_iter().fold(0.0, f32::max))
}

fn tokens(count: usize, seed: u32) -> Vec<u32> {
    (0..count as u32).map(|i| (i * 17 + seed * 29 + i * i * 3) % 41).collect()
}

/// `cargo test -p outrider-models encoder_decoder -- --nocapture` prints the table of the greatest errors.
#[test]
#[allow(clippy::print_stdout, reason = "the table is for readers")]
fn logits_are_those_of_transformers() {
    println!("| model | container | greatest relative error |\n|--:|---|--:|");
    let mut seen = [0, 0];
    for (index, golden) in goldens().iter().enumerate() {
        for (container, model) in containers(golden) {
            let error = error(&model, golden, TOLERANCE).unwrap_or_else(|e| panic!("{index} {container}: {e}"));
            println!("| {index} | {container} | {error:.1e} |");
            seen[usize::from(container == "GGUF")] += 1;
        }
    }
    assert_eq!(seen, [5, 3], "models in safetensors and in GGUF");
}

#[test]
fn greedy_texts_are_those_of_transformers() {
    for (index, golden) in goldens().iter().enumerate() {
        for (container, model) in containers(golden) {
            let (source, mut cache) = (model.encode(&golden.source).unwrap(), model.new_cache());
            assert_eq!(model.config().start_token_id, golden.tokens[0]);
            assert_eq!(model.config().eos_token_ids, [1]);
            assert_eq!(golden.greedy.len(), 64);
            let mut next = golden.tokens.clone();
            for expected in &golden.greedy {
                let rows = logits_at_all(&model, &source, &mut cache, &next);
                let token = argmax(rows.last().unwrap()) as u32;
                assert_eq!(token, *expected, "{index} {container} after {}", cache.len());
                next = vec![token];
            }
        }
    }
}

/// Everything that makes T5 what it is: without it the golden logits are missed.
#[test]
fn wrong_constants_would_be_noticed() {
    let wrong = [
        // The last bucket begins elsewhere: few scores change, and by little.
        (0, "relative_attention_max_distance", json!(127)),
        (2, "relative_attention_max_distance", json!(21)),
        // As T5 1.0 and as T5 1.1.
        (0, "scale_decoder_outputs", json!(true)),
        (1, "scale_decoder_outputs", json!(false)),
        (1, "layer_norm_epsilon", json!(1e-2)),
    ];
    let all = goldens();
    for (index, key, value) in wrong {
        let model = with(&all[index], &[(key, value)]).unwrap();
        assert!(error(&model, &all[index], TOLERANCE).is_err(), "{index} {key}");
    }
}

/// Sources together and alone, texts of any past together and alone; one source has two texts.
#[test]
fn ragged_batch_equals_one_by_one() {
    for golden in goldens() {
        let model = checkpoint(&golden);
        let written: Vec<Vec<u32>> = [33, 1, 150, 64].map(|count| tokens(count, count as u32)).into();
        let alone: Vec<Source> = written.iter().map(|tokens| model.encode(tokens).unwrap()).collect();
        let mut scratch = Scratch::default();
        let together: Vec<&[u32]> = written.iter().map(Vec::as_slice).collect();
        let together = model.encode_with(&together, &mut scratch).unwrap();
        assert_eq!(together.iter().map(Source::len).collect::<Vec<_>>(), [33, 1, 150, 64]);
        // The source, the tokens before, and the new ones of each text.
        let texts = [(0, 0, 9), (1, 13, 5), (2, 40, 0), (3, 31, 3), (2, 1, 1)];
        let mut caches: Vec<KvCache> = Vec::new();
        let mut expected = Vec::new();
        for (seed, (source, past, new)) in texts.into_iter().enumerate() {
            let mut cache = model.new_cache();
            logits_at_all(&model, &alone[source], &mut cache, &tokens(past, seed as u32));
            caches.push(cache.clone());
            expected.push(logits_at_all(&model, &alone[source], &mut cache, &tokens(new, 9 + seed as u32)));
        }
        let new: Vec<Vec<u32>> = (0..).zip(texts).map(|(seed, (_, _, new))| tokens(new, 9 + seed)).collect();
        let positions: Vec<Vec<usize>> = new.iter().map(|new| (0..new.len()).collect()).collect();
        let parts = caches.iter_mut().zip(texts).zip(new.iter().zip(&positions));
        let mut batch: Vec<SourceChunk<'_>> = parts
            .map(|((cache, (source, ..)), (tokens, positions))| SourceChunk {
                source: &together[source],
                text: Chunk { cache, tokens, positions },
            })
            .collect();
        let logits = model.forward_with(&mut batch, &mut scratch).unwrap();
        for (logits, expected) in logits.iter().zip(&expected) {
            let rows: Vec<Vec<f32>> = logits.iter().map(<[f32]>::to_vec).collect();
            assert_same_bits(&rows, expected);
        }
        for (cache, (_, past, new)) in caches.iter().zip(texts) {
            assert_eq!(cache.len(), past + new);
        }
    }
}

/// Calls `check` with each model, and a text of its.
fn each(check: impl Fn(Reader<'_>, &[u32])) {
    for golden in goldens() {
        let model = checkpoint(&golden);
        let source = model.encode(&golden.source).unwrap();
        let forward = |cache: &mut KvCache, tokens: &[u32], positions: &[usize]| -> Vec<Vec<f32>> {
            let text = Chunk { cache, tokens, positions };
            model.forward(&mut [SourceChunk { source: &source, text }]).unwrap()[0]
                .iter()
                .map(<[f32]>::to_vec)
                .collect()
        };
        let text = [&golden.tokens[..], &golden.greedy].concat();
        check(Reader { fresh: &|| model.new_cache(), forward: &forward }, &text);
    }
}

#[test]
fn rollback_and_refill_equal_a_fresh_cache() {
    each(|reader, text| {
        reader.assert_pieces_equal_the_whole(text);
        reader.assert_rollback_leaves_no_trace(text, 40, 70);
    });
}

#[test]
fn wanted_positions_are_rows_of_the_whole() {
    each(|reader, text| reader.assert_wanted_positions_are_rows_of_the_whole(&text[..44]));
}

/// To the last bit: the same on every processor, in every build and with every number of threads. A change of the
/// arithmetic changes these, and says so.
#[test]
fn logits_have_the_same_bits_everywhere() {
    let digest = |golden: &Golden| {
        let rows = golden_rows(&checkpoint(golden), golden);
        let bytes: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let digests: Vec<String> = goldens().iter().map(digest).collect();
    let recorded = ["c16573e6a6fcec7a", "06b7a6b255b1c607", "e98c45bb36d666fa", "6fa3a163b8a5dbd3", "67c93f3d9acbe5cd"];
    assert_eq!(digests, recorded);
}

/// Weights of fewer bits, and blocks of eight: what they are rounded to, in f32, gives the same but for the rounding
/// of activations.
#[test]
fn other_element_types_agree_with_their_widened_weights() {
    use half::{bf16, f16};
    let golden = &goldens()[0];
    let mut weights = golden.weights();
    let stored = safetensors(&weights, "BF16");
    let rounded = |x: &mut f32| *x = bf16::from_f32(*x).to_f32();
    weights.iter_mut().for_each(|weight| weight.values.iter_mut().for_each(rounded));
    let widened = EncoderDecoder::from_safetensors(&golden.config_with(&[]), &safetensors(&weights, "F32")).unwrap();
    let model = EncoderDecoder::from_safetensors(&golden.config_with(&[]), &stored).unwrap();
    for (row, expected) in golden_rows(&model, golden).iter().zip(golden_rows(&widened, golden)) {
        compare(row, &expected, 1e-6).unwrap();
    }
    // Q8_0, where rows are whole blocks of 32: a scale in f16, and eight bits a weight.
    let is_of_blocks = |weight: &Weight| weight.shape.len() == 2 && weight.shape[1] == 32;
    let mut weights = golden.weights();
    let mut stored = BTreeMap::new();
    // Random scores are so far apart that a rounding decides which token is seen.
    for weight in weights.iter_mut().filter(|weight| weight.name.ends_with(".q.weight")) {
        weight.values.iter_mut().for_each(|x| *x /= 8.0);
    }
    for weight in weights.iter_mut().filter(|weight| is_of_blocks(weight)) {
        let mut blocks = Vec::new();
        for block in weight.values.chunks_exact_mut(32) {
            let greatest = block.iter().fold(0.0f32, |greatest, x| greatest.max(x.abs()));
            let scale = f16::from_f32(greatest / 127.0);
            blocks.extend(scale.to_le_bytes());
            for x in block {
                let number = (*x / scale.to_f32()).round().clamp(-127.0, 127.0);
                blocks.extend((number as i8).to_le_bytes());
                *x = scale.to_f32() * number;
            }
        }
        stored.insert(weight.name.clone(), blocks);
    }
    assert!(stored.len() > 20);
    let of_blocks = |weight: &Weight| match stored.get(&weight.name) {
        Some(blocks) => (8, blocks.clone()),
        None => (0, bytes(&weight.values)),
    };
    let model = gguf(&golden.t5_of(&weights, of_blocks).unwrap().finish()).unwrap();
    let widened = gguf(&golden.t5_of(&weights, |weight| (0, bytes(&weight.values))).unwrap().finish()).unwrap();
    for (row, expected) in golden_rows(&model, golden).iter().zip(golden_rows(&widened, golden)) {
        compare(row, &expected, 6e-2).unwrap();
    }
}

/// Unknown settings may change the result, so they are refused.
#[test]
fn unknown_settings_are_refused_by_name() {
    let all = goldens();
    for golden in &all {
        let found = with(golden, &[("new_kind_of_attention", json!(true))]).err().unwrap();
        let is_named = matches!(&found, LoadError::UnknownSetting { key, .. } if key == "new_kind_of_attention");
        assert!(is_named, "{found}");
        with(golden, &[("new_kind_of_attention", json!(null)), ("torch_dtype", json!("bfloat16"))]).unwrap();
    }
    let mut file = all[0].t5().unwrap();
    file.f32("t5.rope.freq_base", 10_000.0);
    let found = gguf(&file.finish()).err().unwrap();
    assert!(matches!(&found, LoadError::UnknownSetting { key, .. } if key == "t5.rope.freq_base"), "{found}");
}

/// Deviations that are recognized but not computed, and shapes that make no sense.
#[test]
fn what_is_not_computed_is_refused() {
    let all = goldens();
    for (key, value) in [
        ("model_type", json!("llama")),
        ("model_type", json!("umt5")),
        ("feed_forward_proj", json!("gated-silu")),
        ("feed_forward_proj", json!("gelu")),
        ("dense_act_fn", json!("relu")),
        ("is_gated_act", json!(false)),
        ("is_encoder_decoder", json!(false)),
        ("quantization_config", json!({"bits": 4})),
    ] {
        let found = with(&all[0], &[(key, value)]).err();
        assert!(matches!(found, Some(LoadError::Unsupported { .. })), "{key}: {found:?}");
    }
    for (key, value) in [
        ("relative_attention_num_buckets", json!(3)),
        ("relative_attention_max_distance", json!(16)),
        ("num_heads", json!(0)),
        ("d_kv", json!(1 << 24)),
        ("layer_norm_epsilon", json!(0.0)),
        ("decoder_start_token_id", json!(41)),
    ] {
        let found = with(&all[0], &[(key, value)]).err();
        assert!(matches!(found, Some(LoadError::InvalidSetting { .. })), "{key}: {found:?}");
    }
    let mut file = all[0].t5().unwrap();
    file.u32("t5.attention.head_count_kv", 2);
    assert!(matches!(gguf(&file.finish()).err(), Some(LoadError::Unsupported { .. })));
    // A bias in each block is umT5's.
    let mut file = all[0].t5().unwrap();
    file.tensor("enc.blk.1.attn_rel_b.weight", &[32, 4], 0, &[0; 512]);
    let found = gguf(&file.finish()).err();
    let is_named =
        matches!(&found, Some(LoadError::UnexpectedTensor { name }) if name == "enc.blk.1.attn_rel_b.weight");
    assert!(is_named, "{found:?}");
    // A head of its own that is not there.
    let weights = all[0].weights();
    let weights = weights.iter().filter(|weight| weight.name != "lm_head.weight");
    let found = EncoderDecoder::from_safetensors(&all[0].config_with(&[]), &safetensors(weights, "F32")).err();
    assert!(matches!(&found, Some(LoadError::MissingTensor { name }) if name == "lm_head.weight"), "{found:?}");
}

/// Further settings of published files, and how newer versions of transformers write the same.
#[test]
fn settings_of_published_files_are_understood() {
    let all = goldens();
    let newer = [("tie_word_embeddings", json!(true)), ("scale_decoder_outputs", json!(false))];
    let derived = [("dense_act_fn", json!("gelu_new")), ("is_gated_act", json!(true)), ("is_decoder", json!(false))];
    let flan = [("n_positions", json!(512)), ("output_past", json!(true)), ("task_specific_params", json!({"a": {}}))];
    let unsaid = [("relative_attention_num_buckets", json!(null)), ("decoder_start_token_id", json!(null))];
    for changes in [&newer[..], &derived, &flan, &unsaid] {
        error(&with(&all[0], changes).unwrap(), &all[0], TOLERANCE).unwrap();
    }
    // Without any word of it, the head is tied and scaled, and there are as many blocks on both sides.
    assert!(all[1].config.get("tie_word_embeddings").is_none() && all[1].config.get("num_decoder_layers").is_none());
}

/// The table may have any of three names, or all of them; old files have a bias of cross-attention beside.
#[test]
fn tensors_of_published_files_are_understood() {
    let golden = &goldens()[1];
    let names = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    for chosen in [&names[..], &names[1..], &names[2..]] {
        let mut weights = golden.weights();
        let at = weights.iter().position(|weight| weight.name == "shared.weight").unwrap();
        let Weight { shape, values, .. } = weights.remove(at);
        for name in chosen {
            weights.push(Weight { name: (*name).to_owned(), shape: shape.clone(), values: values.clone() });
        }
        let name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight".to_owned();
        weights.push(Weight { name, shape: vec![16, 4], values: vec![9.0; 64] });
        let model = EncoderDecoder::from_safetensors(&golden.config_with(&[]), &safetensors(&weights, "F32")).unwrap();
        error(&model, golden, TOLERANCE).unwrap();
    }
}

/// The loader of models without an encoder names the kind of model, and the loader that it needs.
#[test]
fn a_model_without_an_encoder_is_another() {
    let golden = &goldens()[0];
    let found = [
        Model::from_safetensors(&golden.config_with(&[]), &safetensors(&golden.weights(), "F32")).err(),
        Model::from_gguf(&mut &*golden.t5().unwrap().finish()).err(),
    ];
    for found in found.map(Option::unwrap) {
        assert!(matches!(&found, LoadError::EncoderDecoder { found } if found == "t5"), "{found:?}");
        let sentence =
            "t5 is an encoder-decoder: EncoderDecoder::open loads it, Model::open loads models without an encoder";
        assert_eq!(found.to_string(), sentence);
    }
}

#[test]
fn a_batch_that_is_wrong_changes_nothing() {
    let all = goldens();
    let (model, other) = (checkpoint(&all[0]), checkpoint(&all[1]));
    assert!(matches!(model.encode(&[]), Err(ModelError::EmptySource { source_index: 0 })));
    assert!(matches!(model.encode(&[3, 41]), Err(ModelError::TokenOutOfRange { chunk: 0, index: 1, token: 41, .. })));
    let sources: [&[u32]; 2] = [&[3], &[]];
    let found = model.encode_with(&sources, &mut Scratch::default()).err();
    assert!(matches!(found, Some(ModelError::EmptySource { source_index: 1 })));
    let (source, foreign) = (model.encode(&[5, 1]).unwrap(), other.encode(&[5, 1]).unwrap());
    assert!(!source.is_empty() && source.bytes() > 0);
    let mut cache = model.new_cache();
    let forward = |source: &Source, cache: &mut KvCache, tokens: &[u32], positions: &[usize]| {
        let result = model.forward(&mut [SourceChunk { source, text: Chunk { cache, tokens, positions } }]);
        result.err()
    };
    let found = forward(&foreign, &mut cache, &[0], &[0]);
    assert!(matches!(found, Some(ModelError::SourceMismatch { chunk: 0 })), "{found:?}");
    let found = forward(&source, &mut other.new_cache(), &[0], &[0]);
    assert!(matches!(found, Some(ModelError::CacheMismatch { chunk: 0 })), "{found:?}");
    let found = forward(&source, &mut cache, &[0, 99], &[0]);
    assert!(matches!(found, Some(ModelError::TokenOutOfRange { chunk: 0, index: 1, token: 99, .. })), "{found:?}");
    let found = forward(&source, &mut cache, &[0], &[1]);
    assert!(matches!(found, Some(ModelError::Position { chunk: 0, position: 1, tokens: 1 })), "{found:?}");
    assert!(cache.is_empty());
    assert!(forward(&source, &mut cache, &[0], &[0]).is_none());
    assert_eq!(cache.len(), 1);
}

/// Files that end early, and bits that were flipped: an error or a model, never a panic.
#[test]
fn hostile_files_give_errors() {
    let golden = &goldens()[1];
    let whole = golden.t5().unwrap().finish();
    for step in 0..100 {
        let len = (whole.len() - 64) * step / 99;
        assert!(gguf(&whole[..len]).is_err(), "loaded {len} of {} bytes", whole.len());
    }
    let mut seed = 7;
    let mut below = |limit: usize| random(&mut seed) as usize % limit;
    let mut loaded = 0;
    for _ in 0..1000 {
        let mut bytes = whole.clone();
        for _ in 0..=below(3) {
            bytes[below(3000)] ^= 1 << below(8);
        }
        if let Ok(model) = gguf(&bytes) {
            loaded += 1;
            let source = model.encode(&[0, 1]).unwrap();
            logits_at_all(&model, &source, &mut model.new_cache(), &[0, 1]);
        }
    }
    assert!(loaded > 0, "flips in what changes no shape do no harm");
}
