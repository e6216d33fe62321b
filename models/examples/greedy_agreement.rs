//! Compares a model's greedy choices with reference continuations.
//!
//! ```text
//! cargo run --release -p outrider-models --example greedy_agreement -- MODEL REFERENCE.json
//! ```
//!
//! REFERENCE.json is what `pair/recipe/greedy_reference.py` writes: `[{"prompt": ids, "text": ids}, …]`.
//! Printed are the share of positions of the reference text where the model would choose the same
//! token, and, decoding freely, how many texts are the same and how long they agree.
#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::{error::Error, path::Path};

use outrider_models::{Chunk, Model, ModelError};

#[derive(serde::Deserialize)]
struct Continuation {
    prompt: Vec<u32>,
    text: Vec<u32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: greedy_agreement MODEL REFERENCE.json";
    let (path, reference) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let model = Model::open(Path::new(&path))?;
    let reference: Vec<Continuation> = serde_json::from_slice(&std::fs::read(reference)?)?;
    let (mut positions, mut same, mut whole, mut prefix) = (0, 0, 0, 0);
    for Continuation { prompt, text } in &reference {
        let choices = teacher_forced(&model, prompt, text)?;
        same += choices.iter().zip(text).filter(|(a, b)| a == b).count();
        positions += text.len();
        let free = greedy(&model, prompt, text.len())?;
        let agreeing = free.iter().zip(text).take_while(|(a, b)| a == b).count();
        whole += usize::from(agreeing == text.len());
        prefix += agreeing;
    }
    println!("{path}: {} prompts", reference.len());
    println!("  same choice at {same} of {positions} positions ({:.2} %)", 100.0 * same as f64 / positions as f64);
    println!(
        "  {whole} whole texts the same; first difference after {:.1} tokens on average",
        prefix as f64 / reference.len() as f64
    );
    Ok(())
}

/// The model's choice at each position of `text`, given the reference before it.
fn teacher_forced(model: &Model, prompt: &[u32], text: &[u32]) -> Result<Vec<u32>, ModelError> {
    let tokens = [prompt, &text[..text.len() - 1]].concat();
    let positions: Vec<usize> = (prompt.len() - 1..tokens.len()).collect();
    let mut cache = model.new_cache();
    let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: &tokens, positions: &positions }])?;
    Ok(logits[0].iter().map(argmax).collect())
}

/// The model's own continuation.
fn greedy(model: &Model, prompt: &[u32], len: usize) -> Result<Vec<u32>, ModelError> {
    let mut cache = model.new_cache();
    let mut text = Vec::new();
    let mut pending = prompt.to_vec();
    while text.len() < len {
        let positions = [pending.len() - 1];
        let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: &pending, positions: &positions }])?;
        let choice = argmax(logits[0].row(0));
        text.push(choice);
        pending = vec![choice];
    }
    Ok(text)
}

fn argmax(row: &[f32]) -> u32 {
    let better = |best: usize, (i, x): (usize, &f32)| if *x > row[best] { i } else { best };
    row.iter().enumerate().fold(0, better) as u32
}
