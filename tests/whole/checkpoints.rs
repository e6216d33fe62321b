//! What other engines are given of the built-in target is the built-in target.

use std::fs;

use outrider_cloud::pair::PairPaths;
use outrider_models::{Chunk, Model, Tokenizer};
use serde_json::Value;

use crate::checkpoint;

/// Elements of a head in another order are added up in another order.
const ROUNDING: f32 = 1e-3;

#[test]
fn a_checkpoint_has_the_logits_of_its_gguf_file() {
    let folder = std::env::temp_dir().join(format!("outrider-checkpoint-{}", std::process::id()));
    let pair = PairPaths::default();
    let (tokenizer, json) = pair.tokenizer_with_json().unwrap();
    checkpoint::write(&pair.target_gguf().unwrap(), &json, &folder).unwrap();
    let [own, other] = [pair.target().unwrap(), Model::open(&folder).unwrap()];
    assert_eq!(own.config().first_token(), Some(0));
    let prompt = tokenizer.encode_prompt(Some(0), "Once upon a time there was a wolf who lived by the sea").unwrap();
    let rows = [&own, &other].map(|model| {
        let (mut cache, positions) = (model.new_cache(), (0..prompt.len()).collect::<Vec<_>>());
        let chunk = Chunk { cache: &mut cache, tokens: &prompt, positions: &positions };
        let logits = model.forward(&mut [chunk]).unwrap().remove(0);
        logits.iter().map(<[f32]>::to_vec).collect::<Vec<_>>()
    });
    for (position, (own, other)) in rows[0].iter().zip(&rows[1]).enumerate() {
        let gap = own.iter().zip(other).map(|(own, other)| (own - other).abs()).fold(0.0, f32::max);
        assert!(gap < ROUNDING, "{gap} behind token {position}");
    }
    let written = Tokenizer::from_bytes(&fs::read(folder.join("tokenizer.json")).unwrap()).unwrap();
    assert_eq!(written.fingerprint(), tokenizer.fingerprint());
    let settings: Value = serde_json::from_slice(&fs::read(folder.join("tokenizer_config.json")).unwrap()).unwrap();
    assert_eq!(settings["eos_token"], "<|endoftext|>");
    fs::remove_dir_all(folder).unwrap();
}
