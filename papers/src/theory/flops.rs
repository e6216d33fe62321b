//! Floating-point operations (SPRINTER, Zhong et al., §3.1 and Appendix A.8): what a forward pass takes, and a round of
//! speculative decoding or of SPRINTER. A multiplication and an addition are two.

/// The sizes of a decoder-only transformer whose feed-forward layers are four times as wide as the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of attention and feed-forward.
    pub layers: u32,
    /// Heads of attention, which share the width.
    pub heads: u32,
    /// Width of the residual stream.
    pub width: u32,
    /// Vocabulary size |V|.
    pub vocabulary: u32,
}

impl Shape {
    /// Operations of one forward pass over `tokens` tokens with nothing cached (Hoffmann et al. 2022, Appendix F, named
    /// in A.8). It counts the embedding as a product with a one-hot matrix, and all pairs of tokens, masked ones too.
    ///
    /// ```text
    /// 2nVd + layers·(2n·3d² + 2n²d + 3·heads·n² + 2n²d + 2nd² + 2n·8d²) + 2ndV
    /// ```
    pub fn forward(&self, tokens: u32) -> f64 {
        let Self { layers, heads, width, vocabulary } = *self;
        let [layers, heads, width, vocabulary, n] = [layers, heads, width, vocabulary, tokens].map(f64::from);
        let projections = 2.0 * n * (3.0 + 1.0) * width * width;
        let attention = 2.0 * (2.0 * n * n * width) + 3.0 * heads * n * n;
        let feed_forward = 2.0 * n * 8.0 * width * width;
        2.0 * (2.0 * n * vocabulary * width) + layers * (projections + attention + feed_forward)
    }
}

/// A model of Figure 10.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    /// Name of the model, as published.
    pub name: &'static str,
    /// Its sizes, as it is published.
    pub shape: Shape,
    /// Printed operations of 20 tokens, in 10⁹.
    pub printed: f64,
}

/// The models of Figure 10.
pub const FIGURE_10: [Counted; 4] = [
    Counted { name: "GPT-Neo-125M", shape: SMALL, printed: 8.01 },
    Counted { name: "GPT-Neo-1.3B", shape: Shape { layers: 24, heads: 16, width: 2048, ..SMALL }, printed: 64.66 },
    Counted { name: "GPT2-Small", shape: SMALL, printed: 7.25 },
    Counted { name: "GPT2-XL", shape: Shape { layers: 48, heads: 25, width: 1600, ..SMALL }, printed: 71.78 },
];
const SMALL: Shape = Shape { layers: 12, heads: 12, width: 768, vocabulary: 50257 };

/// Costs of one token, all in one unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenCosts {
    /// F_d, in the draft model.
    pub draft: f64,
    /// F_v, in the gate: 2·width + 1 for a linear layer and its sum with a bias.
    pub gate: f64,
    /// F_t, of the target model.
    pub target: f64,
}

impl TokenCosts {
    /// The costs of a pair of models and a linear gate, in 10⁹: a twentieth of a forward pass over 20 tokens (A.8).
    pub fn counted(draft: &Shape, target: &Shape) -> Self {
        let per_token = |shape: &Shape| shape.forward(20) / 1e9 / 20.0;
        let gate = f64::from(2 * draft.width + 1) / 1e9;
        Self { draft: per_token(draft), gate, target: per_token(target) }
    }

    /// SD-Flops(γ) = γ·F_d + γ·F_t (eq. 5): γ drafts, each verified.
    pub fn speculative(&self, draft_length: u32) -> f64 {
        f64::from(draft_length) * (self.draft + self.target)
    }

    /// SPRINTER-Flops(γ) = γ·F_d + γ·F_v + F_t (eq. 6): γ drafts, all gated, of which the target verifies the last.
    ///
    /// Erratum. It holds as a count of what is verified. To verify the last draft the target attends to those before
    /// it, which it has not read: see [`sprinter_read`](Self::sprinter_read).
    pub fn sprinter(&self, draft_length: u32) -> f64 {
        f64::from(draft_length) * (self.draft + self.gate) + self.target
    }

    /// Operations of SPRINTER if the target reads every token of the text once, as keys and values need: γ·(F_d + F_v +
    /// F_t), which is γ·F_v more than eq. 5. Its savings are forward passes, and drafts that SD verifies and discards.
    pub fn sprinter_read(&self, draft_length: u32) -> f64 {
        f64::from(draft_length) * (self.draft + self.gate + self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs what a decoder without a cache does and adds up; Hoffmann et al.'s items, product by product.
    fn counted(shape: &Shape, tokens: u32) -> f64 {
        let Shape { layers, heads, width, vocabulary } = shape;
        let [n, width, vocabulary] = [tokens, *width, *vocabulary].map(u64::from);
        let product = |rows: u64, inner: u64, columns: u64| 2 * rows * inner * columns;
        let mut sum = product(n, vocabulary, width);
        for _ in 0..*layers {
            // Queries, keys, values.
            sum += 3 * product(n, width, width);
            for head in 0..u64::from(*heads) {
                // Heads may be uneven here: only their sum counts.
                let size = width * (head + 1) / u64::from(*heads) - width * head / u64::from(*heads);
                // Logits, softmax, mean of the values.
                sum += product(n, size, n) + 3 * n * n + product(n, n, size);
            }
            sum += product(n, width, width) + product(n, width, 4 * width) + product(n, 4 * width, width);
        }
        (sum + product(n, width, vocabulary)) as f64
    }

    #[test]
    fn passes_are_the_sum_of_their_products() {
        for Counted { shape, .. } in FIGURE_10 {
            for tokens in [0, 1, 20, 22, 1000] {
                assert_eq!(shape.forward(tokens), counted(&shape, tokens));
            }
        }
        let uneven = Shape { layers: 1, heads: 3, width: 10, vocabulary: 2 };
        assert_eq!(uneven.forward(7), counted(&uneven, 7));
        // By hand: one token, one layer, one head, width 1, one word: 2 + (2·4 + 4 + 3 + 16) + 2.
        assert_eq!(Shape { layers: 1, heads: 1, width: 1, vocabulary: 1 }.forward(1), 35.0);
    }

    /// The printed figures are a tenth to a quarter above the count, and no number of tokens gives all of them. Two of
    /// the models have the same sizes. The ratios hold, which the text rounds to 8 and 10.
    #[test]
    fn figure_10_as_far_as_it_can_be_counted() {
        let counted = FIGURE_10.map(|Counted { shape, .. }| format!("{:.2}", shape.forward(20) / 1e9));
        assert_eq!(counted, ["6.50", "56.63", "6.50", "65.54"]);
        let above = FIGURE_10.map(|Counted { shape, printed, .. }| format!("{:.2}", printed * 1e9 / shape.forward(20)));
        assert_eq!(above, ["1.23", "1.14", "1.12", "1.10"]);
        // The last number of tokens that stays below what is printed.
        let below = |Counted { shape, printed, .. }| (0..).take_while(|&n| shape.forward(n) < printed * 1e9).last();
        assert_eq!(FIGURE_10.map(below), [24, 22, 22, 21].map(Some));
        let ratio = |of: fn(&Counted) -> f64| {
            FIGURE_10.chunks(2).map(|pair| of(&pair[1]) / of(&pair[0])).map(|ratio| format!("{ratio:.2}")).collect()
        };
        let (printed, counted): (Vec<_>, Vec<_>) = (ratio(|row| row.printed), ratio(|row| row.shape.forward(20)));
        assert_eq!((printed, counted), (vec!["8.07".into(), "9.90".into()], vec!["8.71".into(), "10.08".into()]));
    }

    /// Equations 5 and 6 with Figure 10's own numbers: "8X" in Figure 1a is F_t/F_d, not what the equations give.
    #[test]
    fn twenty_tokens_by_equations_5_and_6() {
        let saved = |draft: f64, target: f64, width: f64| {
            let costs = TokenCosts { draft: draft / 20.0, gate: (2.0 * width + 1.0) / 1e9, target: target / 20.0 };
            let [sd, sprinter] = [costs.speculative(20), costs.sprinter(20)];
            // "Proportional to (γ − 1)·F_t", less the gate.
            assert!((sd - sprinter - (19.0 * costs.target - 20.0 * costs.gate)).abs() < 1e-9);
            assert!((costs.sprinter_read(20) - sd - 20.0 * costs.gate).abs() < 1e-9);
            [sd, sprinter, sd / sprinter].map(|value| format!("{value:.2}"))
        };
        assert_eq!(saved(8.01, 64.66, 768.0), ["72.67", "11.24", "6.46"]);
        assert_eq!(saved(7.25, 71.78, 768.0), ["79.03", "10.84", "7.29"]);
    }
}
