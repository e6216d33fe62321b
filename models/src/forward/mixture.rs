//! Mixtures of experts (Shazeer et al. 2017), of which only the chosen experts' weights are read.
//!
//! A router gives every row a probability p for each expert. With the `used` most probable ones chosen, the output of a
//! row x is Σ w·expert(x), where w is p, or p divided by the sum of the chosen ones' p. Rows are grouped by expert, so
//! that the weights of an expert are read once for all rows that chose it. The terms of a row are added in the order of
//! the experts' numbers, whatever else is in the batch.

use super::linear::{Linear, products};
use crate::{
    family::{block::Experts, weights::ExpertWeights},
    kernels::{add_to_rows, rounded::Activations},
};

/// Working memory of a mixture.
#[derive(Debug, Default)]
pub(super) struct Mixture {
    /// Probabilities of the experts, `[rows, experts]`.
    routing: Vec<f32>,
    /// Choices of all rows, by expert and then by row.
    choices: Vec<Choice>,
    /// Experts of a row, the most probable first.
    ranking: Vec<usize>,
    /// Rows that chose the same expert, and the outputs of that expert for them.
    input: Vec<f32>,
    output: Vec<f32>,
}

/// Expert that a row has chosen, and its weight in the sum.
#[derive(Debug, Clone, Copy)]
struct Choice {
    expert: usize,
    row: usize,
    weight: f32,
}

impl Mixture {
    /// Chooses experts for the rows of `input`. Of equally probable experts, those of lower numbers are chosen.
    pub(super) fn choose(
        &mut self,
        experts: &Experts,
        router: &Linear,
        bias: &Option<Vec<f32>>,
        input: &[f32],
        activations: &mut Activations,
    ) {
        let Self { routing, choices, ranking, .. } = self;
        products(input, activations, [(router, &mut *routing)]);
        add(routing, bias);
        choices.clear();
        for (row, routing) in routing.chunks_exact_mut(experts.count).enumerate() {
            softmax(routing);
            ranking.clear();
            ranking.extend(0..experts.count);
            ranking.sort_by(|&a, &b| routing[b].total_cmp(&routing[a]));
            let chosen = &ranking[..experts.used];
            let total: f32 = match experts.normalized {
                true => chosen.iter().map(|&expert| routing[expert]).sum(),
                false => 1.0,
            };
            choices.extend(chosen.iter().map(|&expert| Choice { expert, row, weight: routing[expert] / total }));
        }
        choices.sort_by_key(|choice| (choice.expert, choice.row));
    }

    /// Writes the weighted sums of the chosen experts' outputs to `sums`, `[rows, width]`, which is the shape of
    /// `input` too. `gating` computes the input of the down projection in place of the gate. `gate` and `up` are
    /// working memory.
    #[allow(clippy::too_many_arguments, reason = "memory that belongs to other parts of a pass")]
    pub(super) fn mix(
        &mut self,
        experts: &[ExpertWeights<Linear>],
        gating: impl Fn(&mut [f32], &[f32]),
        width: usize,
        input: &[f32],
        activations: &mut Activations,
        [gate, up]: [&mut Vec<f32>; 2],
        sums: &mut Vec<f32>,
    ) {
        let Self { choices, input: rows, output, .. } = self;
        sums.clear();
        sums.resize(input.len(), 0.0);
        for group in choices.chunk_by(|a, b| a.expert == b.expert) {
            let expert = &experts[group[0].expert];
            rows.clear();
            group.iter().for_each(|choice| rows.extend_from_slice(&input[choice.row * width..][..width]));
            products(rows, activations, [(&expert.gate, &mut *gate), (&expert.up, &mut *up)]);
            add(gate, &expert.gate_bias);
            add(up, &expert.up_bias);
            gating(gate, up);
            products(gate, activations, [(&expert.down, &mut *output)]);
            add(output, &expert.down_bias);
            for (choice, output) in group.iter().zip(output.chunks_exact(width)) {
                let sums = &mut sums[choice.row * width..][..width];
                sums.iter_mut().zip(output).for_each(|(sum, x)| *sum += choice.weight * x);
            }
        }
    }
}

/// Computes `row += bias` for each row, if there is a bias.
fn add(x: &mut [f32], bias: &Option<Vec<f32>>) {
    if let Some(bias) = bias {
        add_to_rows(x, bias);
    }
}

/// Replaces logits by probabilities.
fn softmax(logits: &mut [f32]) {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter_mut().for_each(|x| *x = libm::expf(*x - greatest));
    let total: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|x| *x /= total);
}
