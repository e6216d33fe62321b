//! Drafts whose head has rows for some tokens only: the logits are those of the whole head, or −∞.

use outrider_models::{Chunk, GuessChance, Model};
use outrider_testing::{
    gguf::{F32, Gguf},
    llama::{Shape, random},
    safetensors::{Safetensors, checkpoint_name},
};
use serde_json::{Value, json};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const VOCAB: u64 = 40;
const HIDDEN: u64 = 64;
/// Tokens that have a row in the trimmed head.
const TOKENS: [u32; 7] = [1, 2, 5, 6, 17, 38, 39];
const I64: u32 = 27;
const I32: u32 = 26;

const SHAPE: Shape = Shape { vocab: VOCAB, hidden: HIDDEN, inner: 64, layers: 2, heads: 2 };

/// Names, shapes and data of all tensors; the head is not the table.
fn tensors() -> Vec<(String, Vec<u64>, Vec<f32>)> {
    let mut seed = 3;
    let mut numbers = |shape: Vec<u64>| {
        let count = shape.iter().product::<u64>();
        let data = (0..count).map(|_| random(&mut seed) as f32 / 2e9 - 0.5).collect();
        (shape, data)
    };
    let head = ("output.weight".to_owned(), vec![VOCAB, HIDDEN]);
    let named = SHAPE.tensors().into_iter().chain([head]);
    named
        .map(|(name, shape)| {
            let (shape, data) = numbers(shape);
            (name, shape, data)
        })
        .collect()
}

fn le(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Rows of these tokens.
fn rows(table: &[f32], tokens: &[u32]) -> Vec<f32> {
    tokens.iter().flat_map(|&token| table[token as usize * HIDDEN as usize..][..HIDDEN as usize].to_vec()).collect()
}

fn d2t(tokens: &[u32]) -> Vec<i64> {
    tokens.iter().zip(0..).map(|(&token, row)| i64::from(token) - row).collect()
}

/// A GGUF file of the model with `change` applied to each tensor, and these settings besides.
fn gguf(tensors: &[(String, Vec<u64>, Vec<f32>)], draft: Option<(&[i64], u32)>) -> Vec<u8> {
    let mut file: Gguf = SHAPE.settings();
    if let Some((d2t, code)) = draft {
        file.u32("llama.vocab_size", VOCAB as u32).u32("llama.draft_vocab_size", d2t.len() as u32);
        let bytes: Vec<u8> = match code {
            I64 => d2t.iter().flat_map(|n| n.to_le_bytes()).collect(),
            _ => d2t.iter().flat_map(|n| (*n as i32).to_le_bytes()).collect(),
        };
        file.tensor("d2t", &[d2t.len() as u64], code, &bytes);
    }
    for (name, shape, data) in tensors {
        file.tensor(name, shape, F32.1, &le(data));
    }
    file.finish()
}

fn logits(model: &Model, tokens: &[u32]) -> Vec<Vec<f32>> {
    let (mut cache, positions) = (model.new_cache(), (0..tokens.len()).collect::<Vec<_>>());
    let mut batch = [Chunk { cache: &mut cache, tokens, positions: &positions }];
    model.forward(&mut batch).unwrap()[0].iter().map(<[f32]>::to_vec).collect()
}

/// The rows of the whole head where there is one for a token, −∞ elsewhere.
fn expected(whole: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let keep = |token: usize, logit: f32| if TOKENS.contains(&(token as u32)) { logit } else { f32::NEG_INFINITY };
    whole.iter().map(|row| row.iter().enumerate().map(|(t, &x)| keep(t, x).to_bits()).collect()).collect()
}

fn bits(rows: Vec<Vec<f32>>) -> Vec<Vec<u32>> {
    rows.into_iter().map(|row| row.into_iter().map(f32::to_bits).collect()).collect()
}

/// The tensors with a head of few rows.
fn trimmed() -> Vec<(String, Vec<u64>, Vec<f32>)> {
    let mut tensors = tensors();
    let head = tensors.last_mut().unwrap();
    *head = (head.0.clone(), vec![TOKENS.len() as u64, HIDDEN], rows(&head.2, &TOKENS));
    tensors
}

#[test]
fn a_drafts_chance_of_being_right_comes_with_its_file() {
    let read = |inputs: &[(&str, f32)]| {
        let mut file = SHAPE.settings();
        inputs.iter().for_each(|(input, weight)| {
            file.f32(&format!("llama.guess_chance.{input}"), *weight);
        });
        for (name, shape, data) in &tensors() {
            file.tensor(name, shape, F32.1, &le(data));
        }
        Model::from_gguf(&mut &*file.finish()).map(|model| model.config().guess_chance.map(GuessChance::weights))
    };
    let all = [("bias", -1.5), ("margin", 2.0), ("probability", 0.5)];
    assert_eq!(read(&all).unwrap(), Some([-1.5, 2.0, 0.5]));
    assert_eq!(read(&all[..2]).unwrap(), None);
    let error = read(&[("bias", f32::NAN), all[1], all[2]]).unwrap_err().to_string();
    assert!(error.contains("guess_chance"), "{error}");
}

#[test]
fn a_trimmed_head_gives_the_logits_of_the_whole_one() {
    let text = [3, 1, 39, 8, 17, 0];
    let whole = logits(&Model::from_gguf(&mut &*gguf(&tensors(), None)).unwrap(), &text);
    let expected = expected(&whole);
    for code in [I64, I32] {
        let file = gguf(&trimmed(), Some((&d2t(&TOKENS), code)));
        let model = Model::from_gguf(&mut &*file).unwrap();
        assert_eq!(model.config().vocab_size, VOCAB as usize);
        assert_eq!(model.config().draft_vocabulary.as_ref().unwrap().tokens, TOKENS);
        assert_eq!(bits(logits(&model, &text)), expected);
    }
    // A token too far, as where a row is counted from 1.
    let shifted = TOKENS.map(|token| token.saturating_sub(1));
    let model = Model::from_gguf(&mut &*gguf(&trimmed(), Some((&d2t(&shifted), I64)))).unwrap();
    assert_ne!(bits(logits(&model, &text)), expected, "an off-by-one in d2t shows");
}

/// A table of the known tokens and a last row for all others is table and head: the same as a whole table in which
/// unknown tokens have that last row, and a head of the known rows.
#[test]
fn a_last_row_of_the_table_stands_for_all_other_tokens() {
    let (text, unknown) = ([1, 39, 8, 17, 0, 2], vec![0.25; HIDDEN as usize]);
    let mut whole = tensors();
    let table = whole[0].2.clone();
    for token in (0..VOCAB as u32).filter(|token| !TOKENS.contains(token)) {
        whole[0].2[token as usize * HIDDEN as usize..][..HIDDEN as usize].copy_from_slice(&unknown);
    }
    whole.last_mut().unwrap().2 = table.clone();
    let expected = expected(&logits(&Model::from_gguf(&mut &*gguf(&whole, None)).unwrap(), &text));

    let mut tied = tensors();
    tied.pop();
    let few = [rows(&table, &TOKENS), unknown].concat();
    tied[0] = (tied[0].0.clone(), vec![TOKENS.len() as u64 + 1, HIDDEN], few);
    let model = Model::from_gguf(&mut &*gguf(&tied, Some((&d2t(&TOKENS), I64)))).unwrap();
    assert_eq!(bits(logits(&model, &text)), expected);

    // The same as a checkpoint; rotary pairs lie elsewhere there, so that only the places of the logits can agree.
    let (config, weights) = checkpoint(&tied, &d2t(&TOKENS), &json!(true));
    let model = Model::from_safetensors(&config, &weights).unwrap();
    let found = logits(&model, &text);
    assert_eq!(found[0].len(), VOCAB as usize);
    let first = |rows: &[Vec<u32>]| rows[0].clone();
    // Nothing is rotated at position 0.
    assert_eq!(first(&bits(found)), first(&expected));
}

fn checkpoint(tensors: &[(String, Vec<u64>, Vec<f32>)], d2t: &[i64], tied: &Value) -> (Vec<u8>, Vec<u8>) {
    let config = json!({
        "model_type": "llama", "hidden_act": "silu", "vocab_size": VOCAB, "draft_vocab_size": d2t.len(),
        "hidden_size": HIDDEN, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": tied
    });
    let mut file = Safetensors::default();
    let bytes: Vec<u8> = d2t.iter().flat_map(|n| n.to_le_bytes()).collect();
    file.tensor("d2t", "I64", &[d2t.len() as u64], &bytes);
    for (name, shape, data) in tensors {
        file.tensor(&checkpoint_name(name), "F32", shape, &le(data));
    }
    (serde_json::to_vec(&config).unwrap(), file.finish())
}

#[test]
fn a_false_d2t_is_refused_by_name() {
    let refused = |file: Vec<u8>| Model::from_gguf(&mut &*file).err().unwrap().to_string();
    let few = trimmed();
    let wrong = |d2t: &[i64]| refused(gguf(&few, Some((d2t, I64))));
    assert!(wrong(&[0, 0, 0, 0, 0, 0, 0, 0]).contains("output.weight"), "a row too many");
    let mut d2t = d2t(&TOKENS);
    d2t[6] = 34;
    assert!(wrong(&d2t).contains("tokens below vocab_size"));
    d2t[6] = -1;
    assert!(wrong(&d2t).contains("ascending order"));
    d2t[6] = i64::MIN;
    assert!(wrong(&d2t).contains("d2t"));
    // No d2t, or one of floats; and integers where weights belong.
    let mut file = SHAPE.settings();
    file.u32("llama.vocab_size", VOCAB as u32).u32("llama.draft_vocab_size", 7);
    for (name, shape, data) in &few {
        file.tensor(name, shape, F32.1, &le(data));
    }
    assert!(refused(file.clone().finish()).contains("d2t"));
    file.tensor("d2t", &[7], F32.1, &le(&[1.0; 7]));
    assert!(refused(file.finish()).contains("F32"));
    let mut file = SHAPE.settings();
    for (name, shape, data) in &tensors() {
        let code = if name == "output_norm.weight" { I32 } else { F32.1 };
        file.tensor(name, shape, code, &le(data));
    }
    assert!(refused(file.finish()).contains("I32"));
}
