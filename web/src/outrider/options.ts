import type { GenerateRequest, Link, Mode, ModelInfo, SessionInfo } from './edge.js';
import { OutriderError } from './errors.js';

/** The options that are numbers. */
export type NumberOption = Exclude<keyof GenerateRequest, 'prompt' | 'mode'>;

/** The allowed values of an option, bounds included. */
export interface Range {
  min: number;
  max: number;
  integer: boolean;
}

/** How to generate. Everything has a default; see {@link generationDefaults} and {@link generationRanges}. */
export interface GenerateOptions {
  /** `speculative` (default) drafts here and lets the server verify; `cloud-only` lets the server decode alone. */
  mode?: Mode;
  /** How many tokens to generate at most. */
  maxNewTokens?: number;
  /** 0 is greedy: the most probable token always. */
  temperature?: number;
  /** Sample among the k most probable tokens only; 0 is off. */
  topK?: number;
  /** Sample among the most probable tokens that together have this probability; 1 is off. */
  topP?: number;
  /** Equal seeds and options repeat a generation. */
  seed?: number;
  /** K: how many of the draft's most probable tokens travel to the server with each drafted token. */
  supportSize?: number;
  /** ℓ: the draft's probabilities travel as multiples of 1/ℓ. */
  latticeResolution?: number;
  /** γ: how many tokens to draft per round, at most. */
  draftLength?: number;
  /** B: how many bits a round may send to the server, at most; 0 is off. */
  bitBudget?: number;
  /** Stops the generation; it then ends quietly, with `finish: 'cancelled'`, as after {@link Generation.stop}. */
  signal?: AbortSignal;
}

/** What options are when not given. */
export const generationDefaults: Readonly<Record<NumberOption, number>> = {
  maxNewTokens: 128,
  temperature: 0.7,
  topK: 0,
  topP: 0.95,
  seed: 1,
  supportSize: 32,
  latticeResolution: 100,
  draftLength: 4,
  bitBudget: 5000,
};

/** What options may be before a model or server narrows them. */
export const generationRanges: Readonly<Record<NumberOption, Range>> = {
  maxNewTokens: { min: 1, max: 65_536, integer: true },
  temperature: { min: 0, max: 5, integer: false },
  topK: { min: 0, max: 1_000_000, integer: true },
  topP: { min: 0.01, max: 1, integer: false },
  seed: { min: 0, max: 4_294_967_295, integer: true },
  // The codec bounds the work per token; 2048 is within it for every vocabulary and resolution.
  supportSize: { min: 1, max: 2048, integer: true },
  latticeResolution: { min: 1, max: 65_536, integer: true },
  draftLength: { min: 1, max: 64, integer: true },
  bitBudget: { min: 0, max: 1_000_000, integer: true },
};

/** {@link generationRanges}, narrowed to what this draft and this server can do. */
export function rangesFor(model: ModelInfo, session: SessionInfo): Record<NumberOption, Range> {
  const context = Math.min(model.contextLength, session.contextLength);
  const narrowed = (option: NumberOption, max: number): Range => ({
    ...generationRanges[option],
    max: Math.min(generationRanges[option].max, max),
  });
  return {
    ...generationRanges,
    maxNewTokens: narrowed('maxNewTokens', context),
    topK: narrowed('topK', model.vocabSize),
    supportSize: narrowed('supportSize', model.vocabSize),
    draftLength: narrowed('draftLength', session.maxDraftTokens),
  };
}

/** The link as it is: nothing added, nothing limited. */
export const openLink: Readonly<Link> = {
  uplinkBitsPerSecond: null,
  downlinkBitsPerSecond: null,
  roundTripMs: 0,
};

/** Why a value is outside its range, as the end of a sentence that starts with its name; null if it is inside. */
export function reasonAgainst(value: number, range: Range): string | null {
  if (!Number.isFinite(value)) return 'must be a number';
  if (range.integer && !Number.isInteger(value)) return 'must be a whole number';
  if (value < range.min) return `must be at least ${range.min}`;
  if (value > range.max) return `must be at most ${range.max}`;
  return null;
}

/** Fills the defaults in. @throws {@link OutriderError} `invalid-option` */
export function resolveRequest(
  prompt: string,
  options: GenerateOptions,
  ranges: Readonly<Record<NumberOption, Range>>,
): GenerateRequest {
  const mode = options.mode ?? 'speculative';
  if (mode !== 'speculative' && mode !== 'cloud-only') {
    throw new OutriderError('invalid-option', `mode must be 'speculative' or 'cloud-only', not '${mode}'`);
  }
  const number = (option: NumberOption): number => {
    const range = ranges[option];
    const given = options[option];
    // A default above what this server allows is no mistake of the caller's.
    if (given === undefined) return Math.min(generationDefaults[option], range.max);
    const reason = reasonAgainst(given, range);
    if (reason !== null) throw new OutriderError('invalid-option', `${option} ${reason}`);
    return given;
  };
  return {
    prompt,
    mode,
    maxNewTokens: number('maxNewTokens'),
    temperature: number('temperature'),
    topK: number('topK'),
    topP: number('topP'),
    seed: number('seed'),
    supportSize: number('supportSize'),
    latticeResolution: number('latticeResolution'),
    draftLength: number('draftLength'),
    bitBudget: number('bitBudget'),
  };
}

/** Checks a link. @throws {@link OutriderError} `invalid-option` */
export function checkLink(link: Link): void {
  for (const rate of ['uplinkBitsPerSecond', 'downlinkBitsPerSecond'] as const) {
    const value = link[rate];
    if (value !== null && !(Number.isFinite(value) && value > 0)) {
      throw new OutriderError('invalid-option', `${rate} must be above 0, or null for no limit`);
    }
  }
  if (!(Number.isFinite(link.roundTripMs) && link.roundTripMs >= 0)) {
    throw new OutriderError('invalid-option', 'roundTripMs must be at least 0');
  }
}
