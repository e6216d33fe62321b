//! Draft model on a GPU, with the KV cache of one text.

use core::f32::consts::LOG2_E;

use outrider_codec::frame::SamplingParameters;
use outrider_models::{ModelConfig, ModelError, ModelWeights, StoredModel};
use outrider_speculation::{Choice, Chosen, TopK};
use wgpu::{Buffer, CommandEncoder, CommandEncoderDescriptor, ComputePassDescriptor};

use crate::{
    error::GpuError,
    gpu::Gpu,
    kernels::Kernels,
    matrix::Matrix,
    memory::{self, MOST_GUESSES, MOST_LOGITS, MOST_ROWS, Memory},
    model::{self, Left, Program},
};

/// Upper bound of log2(e)/T, which keeps scores finite.
const LARGEST_RATE: f32 = 1e30;
/// Initial capacity of the cache in tokens; it doubles when full.
const FIRST_CAPACITY: usize = 256;

/// Draft model on a GPU, with the KV cache of one text.
#[derive(Debug)]
pub struct GpuDraft {
    gpu: Gpu,
    config: ModelConfig,
    weights: ModelWeights<Matrix>,
    kernels: Kernels,
    rows: memory::Rows,
    memory: Memory,
    program: Program,
    /// Number of tokens in the cache.
    held: usize,
    /// Buffer for results that are read back, and its size in bytes.
    returning: (Buffer, u64),
    counts: Counts,
}

/// Counters of the work requested from the GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of command submissions.
    pub submissions: u64,
    /// Number of times that results were awaited and read back.
    pub read_backs: u64,
    /// Number of bytes read back.
    pub bytes: u64,
    /// Number of kernels dispatched; each costs tens of microseconds in a browser.
    pub dispatches: u64,
}

/// Rows of logits, with the hidden states that they come from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    vocab_size: usize,
    hidden_size: usize,
    logits: Vec<f32>,
    hidden: Vec<f32>,
}

impl Rows {
    /// Number of rows, one per requested position.
    #[must_use]
    pub fn len(&self) -> usize {
        self.logits.len().checked_div(self.vocab_size).unwrap_or(0)
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.logits.is_empty()
    }

    /// Iterator over the rows: logits, `vocab_size` of them, and hidden state, `hidden_size` numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&[f32], &[f32])> {
        self.logits.chunks(self.vocab_size.max(1)).zip(self.hidden.chunks(self.hidden_size.max(1)))
    }
}

impl GpuDraft {
    /// Copies a model to the GPU and compiles its kernels.
    ///
    /// # Errors
    /// [`GpuError`] if the GPU does not support the model or lacks memory.
    pub async fn new(gpu: Gpu, model: &StoredModel) -> Result<Self, GpuError> {
        let config = model.config.clone();
        model::check(&config)?;
        let capacity = FIRST_CAPACITY.min(config.context_length);
        let mut kernels = Kernels::default();
        let built = gpu.within_memory(|| {
            let weights = Matrix::load(&gpu, &model.weights)?;
            let rows = memory::Rows::new(&gpu, &config)?;
            let memory = Memory::new(&gpu, &config, capacity)?;
            let program = Program::new(&gpu, &mut kernels, &config, &weights, &rows, &memory)?;
            Ok((weights, rows, memory, program))
        });
        let (weights, rows, memory, program) = built.await?;
        gpu.check()?;
        let returning = (gpu.returning(4), 4);
        let counts = Counts::default();
        Ok(Self { gpu, config, weights, kernels, rows, memory, program, held: 0, returning, counts })
    }

    /// Shape and constants of the model.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// GPU that holds the model.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Number of tokens in the cache.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Counters of the work requested from the GPU so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Discards all tokens except the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.held = self.held.min(len);
    }

    /// Appends `tokens` to the cache, and returns a row of logits after each of the last `wanted`.
    ///
    /// # Errors
    /// [`GpuError::Model`] if the tokens are invalid; other variants if the GPU fails. The cache is then unchanged.
    pub async fn forward(&mut self, tokens: &[u32], wanted: usize) -> Result<Rows, GpuError> {
        self.gpu.check()?;
        self.check(tokens, wanted)?;
        self.make_room(self.held + tokens.len()).await?;
        let (vocab_size, hidden_size) = (self.config.vocab_size, self.config.hidden_size);
        let width = self.rows.trimmed.as_ref().map_or(vocab_size, |trimmed| trimmed.stride);
        let (row_bytes, hidden_bytes) = (4 * width as u64, 4 * hidden_size as u64);
        let bytes = wanted as u64 * (row_bytes + hidden_bytes);
        self.make_returning(bytes);
        let (silent, telling) = tokens.split_at(tokens.len() - wanted);
        let mut held = self.read_silently(silent)?;
        let mut told = 0;
        for piece in telling.chunks(MOST_LOGITS) {
            let mut encoder = self.begin(held, piece);
            self.encode(&mut encoder, &[(piece.len(), Left::Logits)])?;
            let rows = piece.len() as u64;
            let memory::Rows { logits, trimmed, final_hidden, .. } = &self.rows;
            let logits = trimmed.as_ref().map_or(logits, |trimmed| &trimmed.logits);
            self.bring(&mut encoder, logits, told * row_bytes, rows * row_bytes);
            let place = wanted as u64 * row_bytes + told * hidden_bytes;
            self.bring(&mut encoder, final_hidden, place, rows * hidden_bytes);
            self.submit(encoder);
            held += piece.len();
            told += rows;
        }
        if wanted == 0 {
            self.gpu.check()?;
            self.held = held;
            return Ok(Rows::default());
        }
        let read = self.read(bytes).await?;
        self.held = held;
        let mut logits = numbers(&read);
        let hidden = logits.split_off(wanted * width);
        if let Some(known) = &self.config.draft_vocabulary {
            let of_head = std::mem::take(&mut logits);
            known.spread(&of_head, width, vocab_size, &mut logits);
        }
        Ok(Rows { vocab_size, hidden_size, logits, hidden })
    }

    /// Variant of [`forward`](Self::forward) that returns exact values for the largest logits only. All others of a row
    /// get the same value, which preserves their total mass. If more tokens reach the bound than a list can hold, all
    /// logits are returned, by a second read-back.
    ///
    /// # Errors
    /// As for [`forward`](Self::forward).
    pub async fn forward_top_k(&mut self, tokens: &[u32], wanted: usize, top_k: TopK) -> Result<Rows, GpuError> {
        let listing = self.rows.listing;
        let TopK { k, temperature } = top_k;
        // The rows of a trimmed head are short already.
        let is_short = self.rows.trimmed.is_some();
        if is_short || wanted == 0 || wanted > MOST_LOGITS || k as usize > listing.most() {
            return self.forward(tokens, wanted).await;
        }
        self.gpu.check()?;
        self.check(tokens, wanted)?;
        self.make_room(self.held + tokens.len()).await?;
        let (vocab_size, hidden_size) = (self.config.vocab_size, self.config.hidden_size);
        let (list_bytes, hidden_bytes) = ((4 * wanted * listing.words()) as u64, (4 * wanted * hidden_size) as u64);
        self.make_returning(list_bytes + hidden_bytes);
        let rate = rate(temperature);
        self.write_choice([0, 0, rate.to_bits(), vocab_size as u32, 1f32.to_bits(), k]);
        let (silent, telling) = tokens.split_at(tokens.len() - wanted);
        let held = self.read_silently(silent)?;
        let mut encoder = self.begin(held, telling);
        self.encode(&mut encoder, &[(wanted, Left::Lists)])?;
        self.bring(&mut encoder, &self.rows.lists, 0, list_bytes);
        self.bring(&mut encoder, &self.rows.final_hidden, list_bytes, hidden_bytes);
        self.submit(encoder);
        let read = self.read(list_bytes + hidden_bytes).await?;
        let (lists, hidden) = read.split_at(list_bytes as usize);
        let (words, _) = lists.as_chunks::<4>();
        let mut logits = Vec::with_capacity(wanted * vocab_size);
        if !words.chunks(listing.words()).all(|list| listing.append_row(list, rate, &mut logits)) {
            logits = self.logits(wanted).await?;
        }
        self.held = held + wanted;
        Ok(Rows { vocab_size, hidden_size, logits, hidden: numbers(hidden) })
    }

    /// Rows of logits that the last pass has left on the GPU.
    async fn logits(&mut self, rows: usize) -> Result<Vec<f32>, GpuError> {
        let bytes = (4 * rows * self.config.vocab_size) as u64;
        self.make_returning(bytes);
        let mut encoder = self.gpu.device().create_command_encoder(&CommandEncoderDescriptor::default());
        self.bring(&mut encoder, &self.rows.logits, 0, bytes);
        self.submit(encoder);
        Ok(numbers(&self.read(bytes).await?))
    }

    /// Appends `tokens`, at least one, to the cache and chooses up to `choice.most` guesses. All guesses except the
    /// last are appended too. This takes one submission, plus one per piece of a long text, and one read-back of eight
    /// bytes per guess. There are fewer guesses at the end of the context.
    ///
    /// The noise has the same bits as on the CPU ([`SharedNoise`](outrider_speculation::sample::SharedNoise)).
    /// Logarithm and quotient are computed in f32, so two tokens with almost equal scores may be swapped. If top-k or
    /// top-p excludes both best tokens, the most likely one is chosen.
    ///
    /// # Errors
    /// [`GpuError::Model`] if the tokens are invalid; other variants if the GPU fails. The cache is then unchanged.
    pub async fn choose(&mut self, tokens: &[u32], choice: &Choice) -> Result<Vec<Chosen>, GpuError> {
        self.gpu.check()?;
        self.check(tokens, 1)?;
        let room = self.config.context_length - self.held - tokens.len();
        let guesses = choice.most.clamp(1, MOST_GUESSES).min(1 + room);
        self.make_room(self.held + tokens.len() + guesses - 1).await?;
        let bytes = 8 * guesses as u64;
        self.make_returning(bytes);
        let (silent, read) = tokens.split_at(tokens.len().saturating_sub(MOST_LOGITS));
        let held = self.read_silently(silent)?;
        let SamplingParameters { temperature, top_k, top_p } = choice.sampling;
        let (seed, rate) = choice.seed.map_or((0, 0.0), |seed| (seed, rate(temperature)));
        let vocab_size = self.config.vocab_size as u32;
        self.write_choice([seed as u32, (seed >> 32) as u32, rate.to_bits(), vocab_size, top_p.to_bits(), top_k]);
        let mut encoder = self.begin(held, read);
        let mut passes = vec![(1, Left::Guess); guesses];
        passes[0].0 = read.len();
        self.encode(&mut encoder, &passes)?;
        self.bring(&mut encoder, &self.rows.chosen, 0, bytes);
        self.submit(encoder);
        let read_back = self.read(bytes).await?;
        let (words, _) = read_back.as_chunks::<4>();
        let token = |word: [u8; 4]| Some(u32::from_le_bytes(word)).filter(|id| (*id as usize) < self.config.vocab_size);
        let chosen = words.chunks_exact(2).map(|pair| Some(Chosen { first: token(pair[0])?, second: token(pair[1]) }));
        let chosen = chosen.collect::<Option<Vec<_>>>();
        let chosen = chosen.ok_or(GpuError::Logits)?;
        self.held = held + read.len() + guesses - 1;
        Ok(chosen)
    }

    /// Appends tokens without returning logits. Returns the number of tokens then in the cache.
    fn read_silently(&mut self, tokens: &[u32]) -> Result<usize, GpuError> {
        let mut held = self.held;
        for piece in tokens.chunks(MOST_ROWS) {
            let mut encoder = self.begin(held, piece);
            self.encode(&mut encoder, &[(piece.len(), Left::Cache)])?;
            self.submit(encoder);
            held += piece.len();
        }
        Ok(held)
    }

    /// Encoder for commands that append a piece after `held` tokens.
    fn begin(&self, held: usize, piece: &[u32]) -> CommandEncoder {
        let (device, queue) = (self.gpu.device(), self.gpu.queue());
        queue.write_buffer(&self.rows.ids, 0, &bytes_of(piece));
        queue.write_buffer(&self.rows.step, 0, &bytes_of(&[held as u32, piece.len() as u32, 0]));
        device.create_command_encoder(&CommandEncoderDescriptor { label: Some("forward passes") })
    }

    /// Encodes forward passes, each with its number of rows and output, in sequence.
    fn encode(&mut self, encoder: &mut CommandEncoder, passes: &[(usize, Left)]) -> Result<(), GpuError> {
        let Self { gpu, kernels, program, counts, .. } = self;
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        for &(rows, left) in passes {
            // A pass that only leaves the KV cache omits the last attention, which could otherwise write to the cache.
            let alone = rows == 1 && left != Left::Cache;
            for dispatch in program.dispatches(left) {
                counts.dispatches += u64::from(dispatch.encode(gpu, kernels, &mut pass, rows, alone)?);
            }
        }
        Ok(())
    }

    /// Writes the shaders' `Choice`.
    fn write_choice(&self, words: [u32; 6]) {
        self.gpu.queue().write_buffer(&self.rows.choice, 0, &bytes_of(&words));
    }

    /// Copies the first `bytes` of a buffer to offset `place` of the read-back buffer.
    fn bring(&self, encoder: &mut CommandEncoder, from: &Buffer, place: u64, bytes: u64) {
        encoder.copy_buffer_to_buffer(from, 0, &self.returning.0, place, bytes);
    }

    /// Reads back the first `bytes` of the read-back buffer.
    async fn read(&mut self, bytes: u64) -> Result<Vec<u8>, GpuError> {
        let read = self.gpu.read(&self.returning.0, bytes).await?;
        self.counts.read_backs += 1;
        self.counts.bytes += bytes;
        Ok(read)
    }

    fn submit(&mut self, encoder: CommandEncoder) {
        self.gpu.queue().submit([encoder.finish()]);
        self.counts.submissions += 1;
    }

    fn check(&self, tokens: &[u32], wanted: usize) -> Result<(), ModelError> {
        let ModelConfig { context_length, vocab_size, .. } = self.config;
        let (cached, added) = (self.held, tokens.len());
        if added > context_length - cached {
            return Err(ModelError::ContextExceeded { chunk: 0, cached, added, context_length });
        }
        if let Some(index) = tokens.iter().position(|&token| token as usize >= vocab_size) {
            return Err(ModelError::TokenOutOfRange { chunk: 0, index, token: tokens[index], vocab_size });
        }
        if wanted > added {
            return Err(ModelError::Position { chunk: 0, position: wanted, tokens: added });
        }
        Ok(())
    }

    /// Grows the cache to a total capacity of at least `tokens`.
    async fn make_room(&mut self, tokens: usize) -> Result<(), GpuError> {
        if tokens <= self.memory.capacity {
            return Ok(());
        }
        let capacity = tokens.next_power_of_two().min(self.config.context_length);
        let Self { gpu, config, weights, kernels, rows, .. } = self;
        let grown = gpu.within_memory(|| {
            let memory = Memory::new(gpu, config, capacity)?;
            let program = Program::new(gpu, kernels, config, weights, rows, &memory)?;
            Ok((memory, program))
        });
        let (memory, program) = grown.await?;
        let bytes = 2 * (self.held * self.config.kv_heads * self.config.head_dim) as u64;
        if bytes > 0 {
            let descriptor = CommandEncoderDescriptor { label: Some("a cache that grows") };
            let mut encoder = self.gpu.device().create_command_encoder(&descriptor);
            for (from, to) in self.memory.layers.iter().flatten().zip(memory.layers.iter().flatten()) {
                encoder.copy_buffer_to_buffer(from, 0, to, 0, bytes);
            }
            self.gpu.queue().submit([encoder.finish()]);
            self.counts.submissions += 1;
        }
        self.gpu.check()?;
        self.memory.destroy();
        (self.memory, self.program) = (memory, program);
        Ok(())
    }

    fn make_returning(&mut self, bytes: u64) {
        if bytes > self.returning.1 {
            self.returning.0.destroy();
            self.returning = (self.gpu.returning(bytes), bytes);
        }
    }
}

/// Rate log2(e)/T of the shaders; 0 at T = 0.
fn rate(temperature: f32) -> f32 {
    if temperature == 0.0 { 0.0 } else { (LOG2_E / temperature).min(LARGEST_RATE) }
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().copied().map(f32::from_le_bytes).collect()
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
