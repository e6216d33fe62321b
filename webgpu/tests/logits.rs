//! Logits on a GPU: beside transformers' for every family, and beside those of the same weights, widened, on the
//! processor for every type. In Chromium, and natively with the feature `vulkan`. Each test says so where there is no
//! adapter; Chromium has one in software, and so has Mesa (lavapipe).
#![cfg(any(target_arch = "wasm32", feature = "vulkan"))]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a failed step is a failed test")]

use beside::gpu;
use outrider_codec::frame::SamplingParameters;
use outrider_models::{
    DraftVocabulary, ElementType, Model, ModelConfig, ModelError, ModelWeights, RandomWeights, StoredModel,
};
use outrider_speculation::{
    Choice, Chosen, TopK,
    sample::{Distribution, SharedNoise},
};
use outrider_testing::{
    families::goldens,
    golden::Golden,
    logits::{argmax, assert_within, on_cpu, text},
};
use outrider_webgpu::{Gpu, GpuDraft, GpuError};
#[cfg(not(target_arch = "wasm32"))]
use tokio::test;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[cfg(target_arch = "wasm32")]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);

mod beside;

/// True where the adapter is one in software, and slower than the same natively: less is compared there.
const IS_BROWSER: bool = cfg!(target_arch = "wasm32");
/// In a browser's software adapter compiling a shader takes seconds: each is compiled for one model, or for all of them
/// by `cargo xtask test --full`.
const IS_BRIEF: bool = IS_BROWSER && option_env!("OUTRIDER_FULL").is_none();
/// Families that between them use every shader: RMS norms in all places, windows and caps; gates and grouped heads;
/// biases, layer norms and learned positions.
const BRIEF_FAMILIES: [&str; 3] = ["gemma3_text", "llama", "gpt2"];
/// Types with a shader of each form: plain floats, blocks of 32, blocks of 256.
const BRIEF_TYPES: [ElementType; 3] = [ElementType::F16, ElementType::Q4_0, ElementType::Q4_K];
/// F16: on the processor, products of other types have activations of eight bits.
const PAIR: &[u8] = include_bytes!("../../pair/target/target-f16.gguf");
/// Largest |a − b| / max |b| of a row: other tokens' keys and values are f16 on a GPU.
const TOLERANCE: f32 = 1e-3;
/// The same of the families' small models, whose random weights make more of it.
const OF_FAMILIES: f32 = 1e-2;
/// The same of a token before which there is none: sums of f32 in another order, through a few layers.
const ALONE: f32 = 1e-4;
/// The same where the processor rounds activations to eight bits. A block that is read wrongly is off by about 1.
const ROUNDED: f32 = 6e-2;

#[track_caller]
fn assert_close(actual: &[f32], expected: &[f32], what: &str) {
    assert_within(TOLERANCE, actual, expected, what);
}

/// The same of rows in which the same tokens may have no logit.
#[track_caller]
fn assert_close_where_known(actual: &[f32], expected: &[f32], what: &str) {
    let is_known = |logit: &&f32| **logit != f32::NEG_INFINITY;
    assert!(actual.iter().map(|logit| is_known(&logit)).eq(expected.iter().map(|logit| is_known(&logit))), "{what}");
    let known = |row: &[f32]| row.iter().filter(is_known).copied().collect::<Vec<f32>>();
    assert_close(&known(actual), &known(expected), what);
}

/// The GPU for a test of what no adapter does otherwise: `cargo xtask test --full` runs it.
async fn gpu_unless_brief() -> Option<Gpu> {
    if IS_BRIEF {
        eprintln!("SKIPPED, as it runs with --full");
        return None;
    }
    gpu().await
}

/// All golden models, or one of each of these families where less is wanted.
fn chosen(families: &[&str], is_brief: bool) -> Vec<Golden> {
    let all = goldens();
    if !is_brief {
        return all;
    }
    let mut wanted = families.to_vec();
    let mut is_first =
        |golden: &Golden| wanted.iter().position(|&family| family == golden.family).map(|at| wanted.remove(at));
    let chosen: Vec<Golden> = all.into_iter().filter(|golden| is_first(golden).is_some()).collect();
    assert!(wanted.is_empty(), "there is no golden model of {wanted:?}");
    chosen
}

#[test]
async fn every_family_has_the_logits_and_the_greedy_texts_of_transformers() {
    if gpu().await.is_none() {
        return;
    }
    for (index, golden) in chosen(&BRIEF_FAMILIES, IS_BRIEF).iter().enumerate() {
        let (config, weights) = golden.checkpoint();
        let stored = StoredModel::from_safetensors(&config, &weights).unwrap();
        let gguf = golden.gguf().map(|bytes| StoredModel::from_gguf(&mut &*bytes).unwrap());
        // A software adapter takes its time: one of the two there, of which the processor's tests compare both.
        let is_one_enough = IS_BROWSER && gguf.is_some();
        let stored = (!is_one_enough).then_some(stored);
        for (container, stored) in [("safetensors", stored), ("GGUF", gguf)] {
            let Some(stored) = stored else { continue };
            let what = format!("{} {index} {container}", golden.family);
            let mut draft =
                GpuDraft::new(gpu().await.unwrap(), &stored).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            let cpu = stored.into_model().unwrap();
            // The first alone, the others in one pass: many are read, and then those whose rows come back.
            let (first, others) = golden.tokens.split_at(golden.rows[0] + 1);
            let from = golden.rows[1];
            let first = draft.forward(first, 1).await.unwrap();
            let others = draft.forward(others, golden.tokens.len() - from).await.unwrap();
            for (row, expected) in golden.rows.iter().zip(&golden.logits) {
                let found = first.iter().chain(others.iter()).nth(if *row < from { 0 } else { 1 + row - from });
                assert_within(OF_FAMILIES, found.unwrap().0, expected, format!("{what}, row {row}"));
            }
            if !IS_BROWSER {
                draft.truncate(0);
                let alone = draft.forward(&golden.tokens[..1], 1).await.unwrap();
                assert_within(ALONE, alone.iter().next().unwrap().0, &on_cpu(&cpu, &golden.tokens[..1], 1)[0], &what);
            }
            draft.truncate(0);
            let mut next = golden.tokens.clone();
            for expected in golden.greedy.iter().take(if IS_BROWSER { 3 } else { usize::MAX }) {
                let rows = draft.forward(&next, 1).await.unwrap();
                let row = rows.iter().next().unwrap().0;
                // Where two are as good, the other.
                let mut nearly = row.to_vec();
                nearly[*expected as usize] = row[argmax(row)];
                assert_within(OF_FAMILIES, &nearly, row, format!("{what} writes {expected} after {}", draft.held()));
                next = vec![*expected];
            }
        }
    }
}

/// With them all other tests run.
#[test]
async fn subgroups_may_be_missing() {
    let Some(gpu) = gpu().await else { return };
    // Chromium's adapter and lavapipe have them.
    assert!(gpu.has_subgroups());
    // Gemma has norms in every place, and windows and caps; Llama products that do norms.
    for (index, golden) in chosen(&["gemma3_text", "llama"], IS_BROWSER).iter().enumerate() {
        let (config, weights) = golden.checkpoint();
        let stored = StoredModel::from_safetensors(&config, &weights).unwrap();
        let gpu = Gpu::open_without_subgroups().await.unwrap();
        assert!(!gpu.has_subgroups());
        let mut draft = GpuDraft::new(gpu, &stored).await.unwrap();
        let (last, before) = golden.tokens.split_last().unwrap();
        draft.forward(before, 0).await.unwrap();
        let rows = draft.forward(&[*last], 1).await.unwrap();
        let expected = golden.rows.iter().position(|&row| row == before.len()).unwrap();
        let what = format!("{} {index}", golden.family);
        assert_within(OF_FAMILIES, rows.iter().next().unwrap().0, &golden.logits[expected], &what);
    }
}

/// `types.rs` has sharper bounds, natively.
#[test]
async fn every_type_of_weights_has_nearly_the_logits_of_the_processor() {
    if gpu().await.is_none() {
        return;
    }
    let mut config = StoredModel::from_gguf(&mut &PAIR[..]).unwrap().config;
    // Blocks of 256 in every row, an odd number of them in some.
    (config.hidden_size, config.intermediate_size, config.layers) = (256, 768, 2);
    (config.heads, config.kv_heads, config.head_dim, config.vocab_size) = (4, 2, 64, 515);
    (config.eos_token_ids, config.bos_token_id) = (Vec::new(), None);
    let is_wanted = |element: &ElementType| !IS_BRIEF || BRIEF_TYPES.contains(element);
    for element in RandomWeights::ELEMENTS.into_iter().filter(is_wanted) {
        let stored = || {
            let weights = ModelWeights::gather(&config, &mut RandomWeights::new(element, 7).unwrap()).unwrap();
            StoredModel { config: config.clone(), weights }
        };
        let cpu = stored().into_model().unwrap();
        let mut draft = GpuDraft::new(gpu().await.unwrap(), &stored()).await.unwrap();
        let tokens = text(config.vocab_size, 0, if IS_BROWSER { 18 } else { 45 });
        let rows = draft.forward(&tokens, 3).await.unwrap();
        for ((actual, _), expected) in rows.iter().zip(on_cpu(&cpu, &tokens, 3)) {
            assert_within(ROUNDED, actual, &expected, element.name());
        }
    }
}

fn pair() -> (StoredModel, Model) {
    (StoredModel::from_gguf(&mut &PAIR[..]).unwrap(), Model::from_gguf(&mut &PAIR[..]).unwrap())
}

#[test]
async fn a_cache_that_is_cut_and_filled_again_and_grows_gives_what_one_pass_gives() {
    let Some(gpu) = gpu().await else { return };
    let (stored, cpu) = pair();
    let vocab_size = stored.config.vocab_size;
    let mut draft = GpuDraft::new(gpu, &stored).await.unwrap();
    let (right, wrong) = (text(vocab_size, 0, 300), vec![5; 20]);
    // No rows of what is cut off are wanted.
    assert!(draft.forward(&right[..100], 0).await.unwrap().is_empty());
    draft.forward(&wrong, 3).await.unwrap();
    draft.truncate(90);
    draft.forward(&right[90..250], 0).await.unwrap();
    // Beyond what there was room for at first.
    let rows = draft.forward(&right[250..], 20).await.unwrap();
    assert_eq!((draft.held(), rows.len()), (300, 20));
    for ((actual, hidden), expected) in rows.iter().zip(on_cpu(&cpu, &right, 20)) {
        assert_close(actual, &expected, "after cuts");
        assert_eq!(hidden.len(), draft.config().hidden_size);
    }
}

/// Some are beyond what has an exponential: the softmax has to know the largest of all tokens.
#[test]
async fn scores_may_be_large() {
    let Some(gpu) = gpu().await else { return };
    let mut stored = pair().0;
    stored.config.block.score_scale = Some(4.0);
    let (len, wanted) = if IS_BROWSER { (24, 3) } else { (150, 60) };
    let tokens = text(stored.config.vocab_size, 0, len);
    let mut all = Vec::new();
    for gpu in [gpu, Gpu::open_without_subgroups().await.unwrap()] {
        let mut draft = GpuDraft::new(gpu, &stored).await.unwrap();
        all.push(draft.forward(&tokens, wanted).await.unwrap());
    }
    let expected = on_cpu(&stored.into_model().unwrap(), &tokens, wanted);
    for rows in all {
        for ((actual, _), expected) in rows.iter().zip(&expected) {
            // What a half leaves out of a key counts as much more.
            assert_within(1e-1, actual, expected, "large scores");
        }
    }
}

/// A half beyond the largest would be infinite, and spoil what follows.
#[test]
async fn keys_and_values_may_be_beyond_halves() {
    let Some(gpu) = gpu().await else { return };
    let mut stored = pair().0;
    let width = stored.config.kv_heads * stored.config.head_dim;
    for layer in &mut stored.weights.layers {
        (layer.key_bias, layer.value_bias) = (Some(vec![-1e6; width]), Some(vec![1e6; width]));
    }
    let mut draft = GpuDraft::new(gpu, &stored).await.unwrap();
    // Several at a time, and one that is alone.
    draft.forward(&[1, 2, 3], 0).await.unwrap();
    draft.forward(&[4], 1).await.unwrap();
    let rows = draft.forward(&[5], 1).await.unwrap();
    assert!(rows.iter().next().unwrap().0.iter().all(|logit| logit.is_finite()));
}

/// A model with more workgroups a row than there are threads in one, and a last one with few tokens.
fn wide() -> StoredModel {
    let mut wide = pair().0.config;
    (wide.hidden_size, wide.intermediate_size, wide.layers, wide.vocab_size) = (64, 128, 1, 40_003);
    (wide.heads, wide.kv_heads, wide.head_dim) = (1, 1, 64);
    (wide.eos_token_ids, wide.bos_token_id) = (Vec::new(), None);
    let mut random = RandomWeights::new(ElementType::F16, 3).unwrap();
    StoredModel { weights: ModelWeights::gather(&wide, &mut random).unwrap(), config: wide }
}

/// The wide model with a head that has a row for every fifth token, which is also the table of embeddings if `tied`.
fn trimmed(tied: bool) -> StoredModel {
    let mut config = wide().config;
    let known = (3..config.vocab_size as u32).step_by(5).collect();
    (config.draft_vocabulary, config.tied_embeddings) = (Some(DraftVocabulary::of_tokens(known).unwrap()), tied);
    let mut random = RandomWeights::new(ElementType::F16, 4).unwrap();
    StoredModel { weights: ModelWeights::gather(&config, &mut random).unwrap(), config }
}

/// Several rows in a pass, since a row's last logits must not be the next one's first.
#[test]
async fn a_table_may_have_more_rows_than_the_tokenizer_has_tokens() {
    let Some(gpu) = gpu().await else { return };
    let cut = || {
        let mut stored = wide();
        stored.config.cut_vocabulary(39_800).unwrap();
        stored
    };
    let tokens = text(39_800, 0, 12);
    let rows = GpuDraft::new(gpu, &cut()).await.unwrap().forward(&tokens, 8).await.unwrap();
    for ((actual, _), expected) in rows.iter().zip(on_cpu(&cut().into_model().unwrap(), &tokens, 8)) {
        assert_close(actual, &expected, "cut");
    }
}

/// The table's last row stands for the tokens without one; the text has both kinds.
#[test]
async fn tokens_without_a_row_in_the_head_have_no_chance() {
    if gpu().await.is_none() {
        return;
    }
    for tied in [true, false] {
        let mut draft = GpuDraft::new(gpu().await.unwrap(), &trimmed(tied)).await.unwrap();
        let cpu = trimmed(tied).into_model().unwrap();
        let mut tokens = text(draft.config().vocab_size, 0, 12);
        tokens.extend([8, 3, 9, 7]);
        for k in [None, Some(4)] {
            draft.truncate(0);
            let rows = match k {
                None => draft.forward(&tokens, 3).await.unwrap(),
                Some(k) => draft.forward_top_k(&tokens, 3, TopK { k, temperature: 1.0 }).await.unwrap(),
            };
            assert_eq!(rows.len(), 3);
            for ((actual, _), expected) in rows.iter().zip(on_cpu(&cpu, &tokens, 3)) {
                assert_eq!(actual.len(), expected.len());
                assert!((0..actual.len()).all(|id| (actual[id] == f32::NEG_INFINITY) == (id % 5 != 3)));
                assert_close_where_known(actual, &expected, "trimmed");
            }
        }
    }
}

/// Beside the same rows with all their logits: the largest are the same numbers, and the others have their mass.
#[test]
async fn the_largest_logits_come_with_the_mass_of_the_others() {
    if gpu().await.is_none() {
        return;
    }
    let models: [&dyn Fn() -> StoredModel; 2] = [&wide, &|| pair().0];
    for stored in &models[..if IS_BROWSER { 1 } else { 2 }] {
        let mut draft = GpuDraft::new(gpu().await.unwrap(), &stored()).await.unwrap();
        let vocab_size = draft.config().vocab_size;
        // Few enough that all ways read them by the same kernels.
        let tokens = text(vocab_size, 0, 10);
        let whole = draft.forward(&tokens, 2).await.unwrap();
        for (k, temperature) in [(1, 0.0), (1, 1.0), (32, 0.7), (200, 1.3), (256, 1.0)] {
            draft.truncate(3);
            let before = draft.counts();
            let rows = draft.forward_top_k(&tokens[3..], 2, TopK { k, temperature }).await.unwrap();
            let after = draft.counts();
            assert_eq!((rows.len(), draft.held()), (2, 10));
            assert_eq!((after.submissions - before.submissions, after.read_backs - before.read_backs), (2, 1));
            assert!(after.bytes - before.bytes < 16_000, "{} bytes", after.bytes - before.bytes);
            for ((row, hidden), (all, expected)) in rows.iter().zip(whole.iter()) {
                assert_eq!((row.len(), hidden), (vocab_size, expected));
                let mut order: Vec<usize> = (0..vocab_size).collect();
                order.sort_by(|&a, &b| all[b].total_cmp(&all[a]));
                let (largest, others) = order.split_at(k as usize);
                let what = format!("{vocab_size}, {k} at {temperature}");
                assert!(largest.iter().all(|&id| row[id] == all[id]), "{what}");
                let least = all[largest[k as usize - 1]];
                assert!(others.iter().all(|&id| row[id] <= least), "{what}");
                // As they were, or their share.
                let given = |id: usize| row[id] == all[id];
                let listed = others.iter().filter(|&&id| given(id)).count();
                assert!(listed < 128, "{what}: {listed} more");
                if temperature == 0.0 {
                    assert!(others.iter().all(|&id| given(id) || row[id] == f32::NEG_INFINITY));
                    continue;
                }
                let mass = |row: &[f32]| {
                    let weight = |&id: &usize| f64::from((row[id] - all[largest[0]]) / temperature).exp();
                    others.iter().map(weight).sum::<f64>()
                };
                let (found, expected) = (mass(row), mass(all));
                assert!((found / expected - 1.0).abs() < 1e-4, "{what}: {found} for {expected}");
            }
        }
        // More rows, or more of each, than lists are made for.
        draft.truncate(0);
        let rows = draft.forward_top_k(&tokens, 9, TopK { k: 2, temperature: 1.0 }).await.unwrap();
        // The last one alone.
        assert_close(rows.iter().last().unwrap().0, whole.iter().last().unwrap().0, "nine rows");
        draft.truncate(8);
        let rows = draft.forward_top_k(&tokens[8..], 2, TopK { k: 257, temperature: 1.0 }).await.unwrap();
        assert_eq!(rows, whole);
    }
}

/// A model that says the same of every token has no largest.
#[test]
async fn what_has_no_room_in_a_list_comes_whole() {
    let Some(gpu) = gpu_unless_brief().await else { return };
    let mut stored = wide();
    stored.weights.embedding.bytes.fill(0);
    if let Some(head) = &mut stored.weights.head {
        head.bytes.fill(0);
    }
    let mut draft = GpuDraft::new(gpu, &stored).await.unwrap();
    let rows = draft.forward_top_k(&[1, 2, 3], 1, TopK { k: 4, temperature: 1.0 }).await.unwrap();
    assert_eq!(rows.iter().next().unwrap().0, vec![0.0; 40_003]);
    assert_eq!((draft.held(), draft.counts().read_backs), (3, 2));
}

/// With the seed's noise, or the likeliest without; a group of them in one submission and one read-back.
#[test]
async fn guesses_are_what_the_processor_chooses() {
    if gpu().await.is_none() {
        return;
    }
    let models: [&dyn Fn() -> StoredModel; 4] = [&wide, &|| trimmed(true), &|| trimmed(false), &|| pair().0];
    for stored in &models[..if IS_BROWSER { 2 } else { 4 }] {
        let cpu = stored().into_model().unwrap();
        let (mut same, mut same_seconds, mut without_second, mut all) = (0, 0, 0, 0);
        let mut draft = GpuDraft::new(gpu().await.unwrap(), &stored()).await.unwrap();
        let most_tokens = draft.config().vocab_size as u32 / 2;
        let samplings = [(0.0, 0, 1.0), (0.7, 0, 1.0), (1.0, 0, 1.0), (1.0, most_tokens, 1.0), (1.0, 0, 0.9)];
        for (number, (temperature, top_k, top_p)) in (0..).zip(samplings) {
            let sampling = SamplingParameters { temperature, top_k, top_p };
            let seed = (temperature > 0.0).then_some(number << 31 | 5);
            let choice = Choice { seed, sampling, most: 5 + number as usize };
            let mut tokens = text(draft.config().vocab_size, 0, 4 + 20 * number as usize);
            draft.truncate(0);
            let before = draft.counts();
            let chosen = draft.choose(&tokens, &choice).await.unwrap();
            let after = draft.counts();
            assert_eq!((chosen.len(), draft.held()), (choice.most, tokens.len() + choice.most - 1));
            let pieces = tokens.len().saturating_sub(8).div_ceil(64) as u64;
            assert_eq!(after.submissions - before.submissions, 1 + pieces);
            assert_eq!(after.read_backs - before.read_backs, 1);
            for Chosen { first, second } in chosen {
                let row = on_cpu(&cpu, &tokens, 1).remove(0);
                let q = Distribution::new(&row, &sampling).unwrap();
                let noise = SharedNoise::new(choice.seed.unwrap_or_default());
                let expected = noise.choose_from(tokens.len(), &q);
                all += 1;
                same += usize::from(first == expected);
                let next = noise.choose_two(tokens.len(), &q).second;
                same_seconds += usize::from(second == next);
                // After a token that top-k or top-p leaves out there is none.
                without_second += usize::from(second.is_none());
                tokens.push(first);
            }
            // What it has read meanwhile is in its cache.
            let rows = draft.forward(&tokens[tokens.len() - 1..], 1).await.unwrap();
            assert_close_where_known(rows.iter().next().unwrap().0, &on_cpu(&cpu, &tokens, 1)[0], "behind guesses");
        }
        // But for what is nearly as good.
        let what = format!("{same}, {same_seconds} and {without_second} of {all}");
        assert!(all == 35 && same >= 34 && same_seconds + without_second >= 34 && without_second < 12, "{what}");
    }
}

/// A browser takes tens of microseconds for each.
#[test]
async fn a_layer_is_five_dispatches() {
    let Some(gpu) = gpu_unless_brief().await else { return };
    let (stored, _) = pair();
    let layers = stored.config.layers as u64;
    let mut draft = GpuDraft::new(gpu, &stored).await.unwrap();
    for (rows, of_layer) in [(1, 5), (8, 6)] {
        let before = draft.counts().dispatches;
        draft.forward(&[1, 2, 3, 4, 5, 6, 7, 8][..rows], rows).await.unwrap();
        // Of the embedding, of the last norm and of the head one each.
        assert_eq!(draft.counts().dispatches - before, of_layer * layers + 3);
    }
}

#[test]
async fn no_more_is_guessed_than_the_context_has_room_for() {
    let Some(gpu) = gpu_unless_brief().await else { return };
    let mut stored = pair().0;
    let context_length = 40;
    stored.config.context_length = context_length;
    let mut draft = GpuDraft::new(gpu, &stored).await.unwrap();
    draft.forward(&text(stored.config.vocab_size, 0, context_length - 3), 0).await.unwrap();
    let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
    let choice = Choice { seed: None, sampling, most: 9 };
    assert_eq!(draft.choose(&[1], &choice).await.unwrap().len(), 3);
    assert_eq!(draft.held(), context_length);
    let error = draft.choose(&[1], &choice).await.unwrap_err();
    assert!(matches!(error, GpuError::Model(ModelError::ContextExceeded { .. })), "{error}");
}

#[test]
async fn what_cannot_be_fed_is_refused_and_changes_nothing() {
    let Some(gpu) = gpu_unless_brief().await else { return };
    let (stored, _) = pair();
    let ModelConfig { vocab_size, context_length, .. } = stored.config;
    let mut draft = GpuDraft::new(gpu, &stored).await.unwrap();
    let before = draft.forward(&[1, 2, 3], 1).await.unwrap();
    let error = draft.forward(&[vocab_size as u32], 1).await.unwrap_err();
    assert!(matches!(error, GpuError::Model(ModelError::TokenOutOfRange { .. })), "{error}");
    let error = draft.forward(&vec![1; context_length], 1).await.unwrap_err();
    assert!(matches!(error, GpuError::Model(ModelError::ContextExceeded { .. })), "{error}");
    draft.truncate(2);
    assert_eq!(draft.forward(&[3], 1).await.unwrap(), before);
}

#[test]
async fn a_device_that_is_lost_says_so_and_another_goes_on() {
    let Some(gpu_to_lose) = gpu().await else { return };
    let mut draft = GpuDraft::new(gpu_to_lose, &pair().0).await.unwrap();
    let before = draft.forward(&[1, 2, 3], 1).await.unwrap();
    draft.gpu().lose();
    let error = draft.forward(&[4], 1).await.unwrap_err();
    assert!(matches!(error, GpuError::Lost(_)), "{error}");
    let mut other = GpuDraft::new(gpu().await.unwrap(), &pair().0).await.unwrap();
    assert_eq!(other.forward(&[1, 2, 3], 1).await.unwrap(), before);
}
