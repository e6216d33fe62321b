import type { Claim, GenerateRequest, Guess, Round, Statistics, Summary, Token } from './edge.js';

/**
 * The state from which a generation resumes after a reload, as plain JSON: `Outrider.load({ resume })`, then
 * `outrider.resume(state)`. It contains the session's secret: keep it where only this page reads it, as in
 * `sessionStorage`.
 */
export interface SuspendedGeneration {
  claim: Claim;
  request: GenerateRequest;
  /** The tokens committed so far. */
  tokens: Token[];
}

/** A step of a generation's visible text: confirmed tokens, and guesses after them in advance. */
export type GenerationEvent =
  /** Other guesses follow the confirmed text: they replace the last ones. */
  | { type: 'guess'; guess: Guess }
  /** Tokens are confirmed. They contradict no visible guess; `guess` is what stays visible after them. */
  | { type: 'confirm'; round: Round; guess: Guess | null }
  /** Tokens are confirmed that contradict visible guesses, of which `withdrawn` disappear. */
  | { type: 'replace'; round: Round; guess: Guess | null; withdrawn: number };

/**
 * A running generation: iterate it for its tokens, or {@link Generation.rounds} for the answers of the server. It runs
 * whether or not it is iterated; an iteration that starts late sees everything from the first token. Leaving a loop early (`break`, `return`, a throw) stops the generation.
 */
export class Generation implements AsyncIterable<Token> {
  /** The whole text and what it cost. Rejects as the iteration does. */
  readonly summary: Promise<Summary>;

  readonly #stop: () => void;
  readonly #request: GenerateRequest;
  readonly #rounds: Round[] = [];
  /** For each round, the guesses that were visible before it to a reader without delay. */
  readonly #settled: (Guess | null)[] = [];
  /** The last guesses, if no round has followed them. */
  #guess: Guess | null = null;
  #claim: Claim | null = null;
  #ended = false;
  #settle!: { resolve: (summary: Summary) => void; reject: (error: Error) => void };
  /** Wakes iterations that wait for the next round. */
  #waiting: (() => void)[] = [];

  /** @internal */
  constructor(request: GenerateRequest, stop: () => void) {
    this.#request = request;
    this.#stop = stop;
    this.summary = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    // An iteration reports a failure itself; the summary is then not also an unhandled rejection.
    this.summary.catch(() => {});
  }

  /** The totals after the last round; null before the first. */
  get statistics(): Statistics | null {
    return this.#rounds.at(-1)?.statistics ?? null;
  }

  /** @internal The length that was asked for, in tokens. */
  get maxNewTokens(): number {
    return this.#request.maxNewTokens;
  }

  /** True once the generation has ended, for any reason. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Ends the generation. Iterations end quietly and `summary` has `finish: 'cancelled'`. */
  stop(): void {
    if (!this.#ended) this.#stop();
  }

  /** The state to resume from after a reload; null before the start and after the end. */
  suspend(): SuspendedGeneration | null {
    if (this.#ended || !this.#claim) return null;
    return { claim: this.#claim, request: this.#request, tokens: this.#rounds.flatMap(({ tokens }) => tokens) };
  }

  /** The tokens one by one, then the summary as the return value. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Token, Summary, void> {
    for await (const round of this.rounds()) yield* round.tokens;
    return this.summary;
  }

  /** The rounds one by one, then the summary as the return value. */
  async *rounds(): AsyncGenerator<Round, Summary, void> {
    for await (const event of this.events()) if (event.type !== 'guess') yield event.round;
    return this.summary;
  }

  /**
   * The rounds with guesses at the text that follows them, then the summary as the return value. Guesses that were
   * replaced before they were read are left out; `withdrawn` counts guesses that this reader has seen.
   */
  async *events(): AsyncGenerator<GenerationEvent, Summary, void> {
    let complete = false;
    let seen: Guess | null = null;
    try {
      for (let next = 0; ;) {
        const round = this.#rounds[next];
        if (round) {
          const { guess = null } = round;
          const withdrawn = seen === this.#settled[next] ? (round.withdrawn ?? 0) : contradicted(seen, round);
          next += 1;
          seen = guess;
          yield withdrawn > 0 ? { type: 'replace', round, guess, withdrawn } : { type: 'confirm', round, guess };
        } else if (this.#guess && this.#guess !== seen && !this.#ended) {
          seen = this.#guess;
          yield { type: 'guess', guess: seen };
        } else if (this.#ended) {
          complete = true;
          return await this.summary;
        } else {
          await new Promise<void>((resolve) => this.#waiting.push(resolve));
        }
      }
    } finally {
      if (!complete) this.stop();
    }
  }

  /** @internal */
  add(round: Round): void {
    this.#settled.push(this.#guess ?? this.#rounds.at(-1)?.guess ?? null);
    this.#rounds.push(round);
    this.#guess = null;
    this.#tell();
  }

  /** @internal The guesses that follow the text until the next round. */
  guess(guess: Guess): void {
    this.#guess = guess;
    this.#tell();
  }

  /** @internal */
  hold(claim: Claim | null): void {
    this.#claim = claim;
  }

  /** @internal */
  finish(summary: Omit<Summary, 'seed'>): void {
    this.#ended = true;
    // Whoever ended it may not have known what was written before.
    const tokens =
      summary.tokenIds.length === 0 && summary.text === '' ? this.#rounds.flatMap(({ tokens }) => tokens) : [];
    const text = tokens.map((token) => token.text).join('');
    const known = tokens.length > 0 && { text, tokenIds: tokens.map(({ id }) => id) };
    this.#settle.resolve({ ...summary, ...known, seed: this.#request.seed });
    this.#tell();
  }

  /** @internal */
  fail(error: Error): void {
    this.#ended = true;
    this.#settle.reject(error);
    this.#tell();
  }

  #tell(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }
}

/** Counts a reader's guesses that a round contradicts, from the first other token on; 0 if their texts agree. */
function contradicted(seen: Guess | null, { tokens }: Round): number {
  const text = tokens.map((token) => token.text).join('');
  if (!seen || seen.text.startsWith(text) || text.startsWith(seen.text)) return 0;
  const differs = seen.ids.findIndex((id, at) => id !== tokens[at]?.id);
  return seen.ids.length - Math.max(differs, 0);
}

/** @internal The summary of a generation that was stopped before it began. */
export const emptySummary: Summary = {
  ...{ rule: null, ruleParameter: null, lossy: false, tokens: 0, passed: 0, streamed: 0, rounds: 0 },
  ...{ elapsedMs: 0, firstTokenMs: 0, tokensPerSecond: 0, roundTripMs: 0, draftMs: 0 },
  ...{ drafted: 0, accepted: 0, inTime: 0, branched: 0, judged: 0, wasted: 0, resampled: 0, followUps: 0 },
  ...{ acceptanceRate: 0, acceptedPerDrafted: 0, tokensPerRound: 0, uplinkBits: 0, downlinkBits: 0 },
  ...{ payloadBitsPerDraftedToken: 0, uplinkBitsPerDraftedToken: 0, uplinkBitsPerToken: 0 },
  ...{ downlinkBitsPerToken: 0, downlinkBytesPerRejection: null, serverPasses: 0, serverPassesPerToken: 0 },
  ...{ meanDroppedMass: null, droppedMassBound: null, costRatio: null, optimalDraftLength: null },
  ...{ predictedSpeedup: null, predictedAcceptanceRate: null, divergence: null },
  ...{ seed: 0, text: '', promptTokens: 0, finish: 'cancelled', promptTokenIds: [], tokenIds: [] },
};
