//! Logistic regression: a linear head by Adam on binary cross-entropy, stopped early.
//!
//! ```text
//! loss = mean of −y·ln σ(z) − (1 − y)·ln(1 − σ(z)),  z = w·h + b;   ∂loss/∂z = σ(z) − y
//! ```
//!
//! Labels y lie in [0, 1]: a soft label is the mean of many hard ones at the same h, and has their loss but for a
//! constant. Features are standardised for training, so that one step size fits all of them, and the scaling is folded
//! into w and b in the end: w/s and b − Σ w·m/s, with m and s the means and deviations. Adam is Kingma & Ba's (2015),
//! with their constants. A run is a function of its arguments, down to the last bit on one machine.

use outrider_models::LinearHead;
use outrider_speculation::sample::Randomness;

/// Hidden states with labels.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// shape: [labels, width]
    pub features: Vec<f32>,
    /// Labels in [0, 1], one a sample.
    pub labels: Vec<f64>,
}

/// Steps of the training, and the point at which it stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Size of a step of Adam.
    pub step: f64,
    /// Number of samples of a step.
    pub batch: usize,
    /// Passes over the samples at most.
    pub epochs: usize,
    /// Passes without a lower validation loss after which training stops.
    pub patience: usize,
}

/// A trained head, as it was after the best epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Head for features in their original scale.
    pub head: LinearHead,
    /// Epochs until the validation loss was lowest; 0 is the base rate for every sample.
    pub best_epoch: usize,
    /// Number of epochs run.
    pub epochs: usize,
    /// Mean binary cross-entropy on the validation samples at the best epoch, in nats.
    pub validation_loss: f64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { step: 3e-3, batch: 256, epochs: 100, patience: 5 }
    }
}

/// Trains on `training` until the loss on `validation` has stopped falling. Both have samples of one width, and some.
pub fn fit(training: &Samples, validation: &Samples, schedule: &Schedule, randomness: &mut Randomness) -> Fit {
    let width = training.features.len() / training.labels.len();
    let scaling = Scaling::of(training, width);
    let (training, validation) = (scaling.standardise(training), scaling.standardise(validation));
    // Everything starts as the base rate, so that no step is spent on it.
    let base_rate = training.labels.iter().sum::<f64>() / training.labels.len() as f64;
    let base_rate = base_rate.clamp(1e-6, 1.0 - 1e-6);
    let mut parameters = vec![0.0; width + 1];
    parameters[width] = (base_rate / (1.0 - base_rate)).ln();
    let mut adam = Adam::new(width + 1, schedule.step);
    let mut best = Fit {
        head: scaling.fold(&parameters),
        best_epoch: 0,
        epochs: 0,
        validation_loss: loss(&parameters, &validation),
    };
    let mut order: Vec<usize> = (0..training.labels.len()).collect();
    let mut gradient = vec![0.0; width + 1];
    while best.epochs < schedule.epochs && best.epochs - best.best_epoch < schedule.patience {
        shuffle(&mut order, randomness);
        for batch in order.chunks(schedule.batch) {
            gradient.fill(0.0);
            for &sample in batch {
                let row = &training.features[sample * width..(sample + 1) * width];
                let error = sigmoid(affine(&parameters, row)) - training.labels[sample];
                for (sum, &x) in gradient.iter_mut().zip(row.iter().chain([&1.0])) {
                    *sum += error * f64::from(x) / batch.len() as f64;
                }
            }
            adam.step(&mut parameters, &gradient);
        }
        best.epochs += 1;
        let loss = loss(&parameters, &validation);
        if loss < best.validation_loss {
            let head = scaling.fold(&parameters);
            best = Fit { head, best_epoch: best.epochs, validation_loss: loss, ..best };
        }
    }
    best
}

/// Mean binary cross-entropy of scores in (0, 1) against labels, in nats.
pub fn cross_entropy(scores: &[f64], labels: &[f64]) -> f64 {
    let floor = f64::MIN_POSITIVE;
    let of = |(s, y): (&f64, &f64)| -y * s.max(floor).ln() - (1.0 - y) * (1.0 - s).max(floor).ln();
    scores.iter().zip(labels).map(of).sum::<f64>() / scores.len() as f64
}

/// Puts `items` into a random order (Fisher & Yates).
pub fn shuffle<T>(items: &mut [T], randomness: &mut Randomness) {
    for last in (1..items.len()).rev() {
        items.swap(last, randomness.below(last as u32 + 1) as usize);
    }
}

/// Mean and deviation of every feature.
struct Scaling {
    mean: Vec<f64>,
    /// Not zero: 1 for a feature that never changes.
    deviation: Vec<f64>,
}

impl Scaling {
    fn of(samples: &Samples, width: usize) -> Self {
        let count = samples.labels.len() as f64;
        let mut mean = vec![0.0; width];
        for row in samples.features.chunks_exact(width) {
            for (sum, &x) in mean.iter_mut().zip(row) {
                *sum += f64::from(x) / count;
            }
        }
        let mut variance = vec![0.0; width];
        for row in samples.features.chunks_exact(width) {
            for ((sum, &x), mean) in variance.iter_mut().zip(row).zip(&mean) {
                *sum += (f64::from(x) - mean).powi(2) / count;
            }
        }
        let deviation = variance.into_iter().map(|v: f64| if v > 1e-12 { v.sqrt() } else { 1.0 }).collect();
        Self { mean, deviation }
    }

    fn standardise(&self, samples: &Samples) -> Samples {
        let scaled = |(index, &x): (usize, &f32)| {
            let feature = index % self.mean.len();
            ((f64::from(x) - self.mean[feature]) / self.deviation[feature]) as f32
        };
        Samples { features: samples.features.iter().enumerate().map(scaled).collect(), labels: samples.labels.clone() }
    }

    /// The head of features that are not standardised.
    fn fold(&self, parameters: &[f64]) -> LinearHead {
        let (weights, bias) = parameters.split_at(self.mean.len());
        let weights: Vec<f64> = weights.iter().zip(&self.deviation).map(|(w, s)| w / s).collect();
        let shift: f64 = weights.iter().zip(&self.mean).map(|(w, m)| w * m).sum();
        let weights = weights.iter().map(|&w| w as f32).collect();
        LinearHead { weights, bias: (bias[0] - shift) as f32, token: Vec::new() }
    }
}

/// Kingma & Ba, "Adam: A Method for Stochastic Optimization", Algorithm 1.
struct Adam {
    step: f64,
    first_moment: Vec<f64>,
    second_moment: Vec<f64>,
    /// β₁ᵗ and β₂ᵗ after t steps.
    decayed: [f64; 2],
}

const DECAY: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

impl Adam {
    fn new(parameters: usize, step: f64) -> Self {
        Self { step, first_moment: vec![0.0; parameters], second_moment: vec![0.0; parameters], decayed: [1.0; 2] }
    }

    fn step(&mut self, parameters: &mut [f64], gradient: &[f64]) {
        self.decayed = [self.decayed[0] * DECAY[0], self.decayed[1] * DECAY[1]];
        let moments = self.first_moment.iter_mut().zip(&mut self.second_moment);
        for ((parameter, &g), (first, second)) in parameters.iter_mut().zip(gradient).zip(moments) {
            *first = DECAY[0] * *first + (1.0 - DECAY[0]) * g;
            *second = DECAY[1] * *second + (1.0 - DECAY[1]) * g * g;
            let (first, second) = (*first / (1.0 - self.decayed[0]), *second / (1.0 - self.decayed[1]));
            *parameter -= self.step * first / (second.sqrt() + EPSILON);
        }
    }
}

/// w·x + b; b is the last of the parameters.
fn affine(parameters: &[f64], row: &[f32]) -> f64 {
    parameters.iter().zip(row.iter().chain([&1.0])).map(|(w, &x)| w * f64::from(x)).sum()
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// Mean binary cross-entropy, as ln(1 + e^z) − y·z: exact also where σ(z) rounds to 0 or 1.
fn loss(parameters: &[f64], samples: &Samples) -> f64 {
    let rows = samples.features.chunks_exact(parameters.len() - 1);
    let of = |(row, y): (&[f32], &f64)| {
        let z = affine(parameters, row);
        z.max(0.0) + (-z.abs()).exp().ln_1p() - y * z
    };
    rows.zip(&samples.labels).map(of).sum::<f64>() / samples.labels.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::roc;
    use outrider_speculation::{draft::Head, sample::End};

    const WIDTH: usize = 12;
    /// Direction that separates the samples; features 3 and 7 have no influence.
    const DIRECTION: [f64; WIDTH] = [2.0, -1.0, 0.5, 0.0, 3.0, -2.0, 1.0, 0.0, -0.5, 1.5, -1.5, 1.0];

    /// Features of very different scales and offsets; labels are draws of σ(4·DIRECTION·z + 1).
    fn synthetic(count: usize, seed: u64, noise: bool) -> Samples {
        let mut randomness = Randomness::new(seed, End::Edge);
        let mut samples = Samples::default();
        for _ in 0..count {
            let z: Vec<f64> = (0..WIDTH).map(|_| (0..6).map(|_| randomness.unit() - 0.5).sum()).collect();
            let score = 4.0 * z.iter().zip(DIRECTION).map(|(z, d)| z * d).sum::<f64>() + 1.0;
            samples.features.extend(z.iter().enumerate().map(|(i, z)| (z * scale(i) + 3.0 * i as f64) as f32));
            let probability = if noise { 0.5 } else { sigmoid(score) };
            samples.labels.push(f64::from(u8::from(randomness.unit() < probability)));
        }
        samples
    }

    fn scale(feature: usize) -> f64 {
        10f64.powi(feature as i32 % 5 - 2)
    }

    fn scores(head: &LinearHead, samples: &Samples) -> Vec<f64> {
        let width = head.weights.len();
        let head = Head::new(head.weights.clone(), head.bias, Vec::new()).unwrap();
        samples.features.chunks_exact(width).map(|row| head.score(row, &[])).collect()
    }

    fn fitted(training: &Samples, validation: &Samples) -> Fit {
        fit(training, validation, &Schedule::default(), &mut Randomness::new(1, End::Edge))
    }

    #[test]
    fn a_known_direction_is_recovered() {
        let (training, validation, test) =
            (synthetic(6000, 1, false), synthetic(1500, 2, false), synthetic(1500, 3, false));
        let fit = fitted(&training, &validation);
        let area = roc::area(&scores(&fit.head, &test), &test.labels).unwrap();
        assert!(area > 0.95, "{area}");
        // The head is for raw features: its weights times their scales point along the direction.
        let found: Vec<f64> = fit.head.weights.iter().enumerate().map(|(i, &w)| f64::from(w) * scale(i)).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let cosine = dot(&found, &DIRECTION) / (dot(&found, &found) * dot(&DIRECTION, &DIRECTION)).sqrt();
        assert!(cosine > 0.99, "{cosine}");
        // Folded and standardised parameters have the same loss.
        let loss = cross_entropy(&scores(&fit.head, &validation), &validation.labels);
        assert!((loss - fit.validation_loss).abs() < 1e-4, "{loss} and {}", fit.validation_loss);
    }

    #[test]
    fn training_stops_where_there_is_nothing_to_learn() {
        let schedule = Schedule { epochs: 1000, ..Schedule::default() };
        let (training, validation) = (synthetic(400, 1, true), synthetic(400, 2, true));
        let fit = fit(&training, &validation, &schedule, &mut Randomness::new(1, End::Edge));
        assert!(fit.epochs < 200, "{} epochs", fit.epochs);
        assert_eq!(fit.epochs, fit.best_epoch + schedule.patience);
        // And what is kept is the best epoch, not the last.
        let loss = cross_entropy(&scores(&fit.head, &validation), &validation.labels);
        assert!((loss - fit.validation_loss).abs() < 1e-4, "{loss} and {}", fit.validation_loss);
    }

    #[test]
    fn soft_labels_are_learned_as_probabilities() {
        let soft = |seed| {
            let mut samples = synthetic(3000, seed, false);
            for (row, label) in samples.features.chunks_exact(WIDTH).zip(&mut samples.labels) {
                *label = sigmoid(f64::from(row[2]) - 6.0);
            }
            samples
        };
        let (training, validation) = (soft(1), soft(2));
        let fit = fitted(&training, &validation);
        let worst = scores(&fit.head, &validation)
            .iter()
            .zip(&validation.labels)
            .map(|(score, label)| (score - label).abs())
            .fold(0.0, f64::max);
        assert!(worst < 0.05, "{worst}");
    }

    #[test]
    fn a_constant_feature_and_one_class_do_no_harm() {
        let constant = Samples { features: vec![2.0; 40], labels: vec![1.0; 40] };
        let fit = fitted(&constant, &constant);
        assert!(fit.head.weights[0].is_finite() && fit.head.bias.is_finite());
        assert!(scores(&fit.head, &constant)[0] > 0.99);
    }

    #[test]
    fn a_seed_decides_every_bit() {
        let (training, validation) = (synthetic(500, 1, false), synthetic(100, 2, false));
        let run = |seed| fit(&training, &validation, &Schedule::default(), &mut Randomness::new(seed, End::Edge));
        assert_eq!(run(4), run(4));
        assert_ne!(run(4), run(5));
    }
}
