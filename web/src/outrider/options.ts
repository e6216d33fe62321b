import type { GenerateRequest, Link, Mode, ModelInfo, SessionInfo } from './edge.js';
import { OutriderError } from './errors.js';
import { policyNamed, policyOptions, reasonAgainstPolicy } from './policies.js';
import type { PolicyNeeds, PolicyOption, PolicyParameterOption } from './policies.js';
import { codes, downlinks, schemes } from './schemes.js';
import type { Code, Downlink, Scheme } from './schemes.js';

/** The options that are a choice among names, apart from `mode`. */
export type ChoiceOption = 'scheme' | 'code' | 'downlink';

/** The options that are numbers of their own; those that come with a policy have its bounds. */
export type NumberOption = Exclude<
  keyof GenerateRequest,
  'prompt' | 'mode' | 'adaptiveMode' | 'compareSchemes' | ChoiceOption | PolicyOption | PolicyParameterOption
>;

/** A name for every choice. */
export type Choices = Pick<GenerateRequest, ChoiceOption>;

/** The allowed values of an option, bounds included. */
export interface Range {
  min: number;
  max: number;
  integer: boolean;
  /** The bound that is itself not allowed. */
  excluded?: 'min' | 'max';
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
  /** What travels to the server with each drafted token; {@link schemes} describes each and names its options. */
  scheme?: Scheme;
  /** `qs`, `k-sqs`, `c-sqs`: how what travels becomes bits; see {@link codes}. */
  code?: Code;
  /** `k-sqs`, `tk-slt`: K, how many of the draft's most probable tokens travel with each drafted token. */
  supportSize?: number;
  /** `qs`, `k-sqs`, `c-sqs`: ℓ, the draft's probabilities travel as multiples of 1/ℓ. */
  latticeResolution?: number;
  /** `c-sqs`: α, the probability that the tokens left out should have on average. */
  droppedMassTarget?: number;
  /** `c-sqs`: η, how far one token moves the threshold. */
  stepSize?: number;
  /** `c-sqs`: β₁, the threshold at the beginning; tokens below it are left out. */
  initialThreshold?: number;
  /** `dssd`: what comes down after a rejection; see {@link downlinks}. */
  downlink?: Downlink;
  /** `dssd` with `downlink: 'sampled'`: m, how many samples come down. */
  downlinkSamples?: number;
  /** How the server judges drafts. `exact` keeps its model's own law, all others are lossy; see {@link Outrider.policies}. */
  rule?: string;
  /** The rule's number: α, or D of `mentored`. Each rule has its own range and default. */
  ruleParameter?: number;
  /** Which tokens are committed without asking the server; all but `none` are lossy. `sprinter` needs a trained gate. */
  gate?: 'none' | 'sprinter' | 'token-cascade' | 'sequence-cascade' | (string & {});
  /** The gate's number: τ of `sprinter`, α of the cascades. */
  gateThreshold?: number;
  /** What ends a round sooner than `draftLength`, or later. The text's law stays. `specdec` needs a trained stop head. */
  stopRule?: 'fixed' | 'odld' | 'adaedl' | 'specdec' | 'bild' | (string & {});
  /** The stop rule's number: λ of `adaedl`, h of `specdec`, α of `bild`. */
  stopThreshold?: number;
  /** Lets the server write alone as long as that is faster (AS²). */
  adaptiveMode?: boolean;
  /** Also computes what the same drafts would have cost under each scheme, for {@link RoundRecord.otherBits}; drafting slows. */
  compareSchemes?: boolean;
  /** γ: how many tokens to draft per round; a stop rule may have it end elsewhere. */
  draftLength?: number;
  /**
   * How many rounds may await the server's verdict at a time. With more than 1 the next rounds are drafted while the server verifies. That
   * hides the round trip where the draft is mostly right and drafting or verifying takes about as long as it; elsewhere it costs bytes and
   * server passes for nothing. At a seed the text is another than with 1, of the same law. 1 with a gate.
   */
  maxInFlight?: number;
  /** B: how many bits of payload a round may send, at most; 0 is off. Where not one draft fits, none is made. */
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
  droppedMassTarget: 0.0005,
  stepSize: 0.001,
  initialThreshold: 0.01,
  downlinkSamples: 4,
  draftLength: 4,
  maxInFlight: 1,
  bitBudget: 5000,
};

/** What choices are when not made. */
export const choiceDefaults: Readonly<Choices> = {
  scheme: 'k-sqs',
  code: 'enumerative',
  downlink: 'sampled',
};

/** What names of policies are when not given. */
export const policyDefaults: Readonly<Record<PolicyOption, string>> = {
  rule: 'exact',
  gate: 'none',
  stopRule: 'fixed',
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
  droppedMassTarget: { min: 0, max: 1, integer: false, excluded: 'max' },
  stepSize: { min: 0, max: 1, integer: false, excluded: 'min' },
  initialThreshold: { min: 0, max: 1, integer: false },
  downlinkSamples: { min: 1, max: 64, integer: true },
  draftLength: { min: 1, max: 64, integer: true },
  maxInFlight: { min: 1, max: 255, integer: true },
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
    maxInFlight: narrowed('maxInFlight', session.maxInFlight),
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
  if (range.excluded === 'min' && value <= range.min) return `must be above ${range.min}`;
  if (range.excluded === 'max' && value >= range.max) return `must be below ${range.max}`;
  if (value < range.min) return `must be at least ${range.min}`;
  if (value > range.max) return `must be at most ${range.max}`;
  return null;
}

/** Whether a text is one of a table's names. */
function isName<Name extends string>(text: string, names: Record<Name, unknown>): text is Name {
  return Object.hasOwn(names, text);
}

/** Fills the defaults in. @throws {@link OutriderError} `invalid-option` */
export function resolveRequest(
  prompt: string,
  options: GenerateOptions,
  ranges: Readonly<Record<NumberOption, Range>>,
  needs: PolicyNeeds,
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
  const choice = <Name extends string>(option: ChoiceOption, names: Record<Name, unknown>): Name => {
    const given = options[option] ?? choiceDefaults[option];
    if (!isName(given, names)) {
      const list = Object.keys(names).map((name) => `'${name}'`);
      throw new OutriderError(
        'invalid-option',
        `${option} must be one of ${list.join(', ')}, not '${given}'`,
      );
    }
    return given;
  };
  const scheme = choice('scheme', schemes);
  const policy = (option: PolicyOption): { name: string; parameter: number | null } => {
    const chosen = policyNamed(needs.policies, option, options[option] ?? policyDefaults[option]);
    const { name, parameter } = chosen;
    // The server alone drafts nothing; what it does not need may be missing.
    const missing = mode === 'speculative' ? reasonAgainstPolicy(chosen, option, scheme, needs) : null;
    if (missing !== null) throw new OutriderError('invalid-option', `${option} '${name}' ${missing}`);
    if (parameter === null) return { name, parameter };
    const { parameter: parameterOption } = policyOptions[option];
    const given = options[parameterOption] ?? parameter.default;
    const reason = reasonAgainst(given, parameter.range);
    if (reason !== null) {
      throw new OutriderError('invalid-option', `${parameterOption} of '${name}' ${reason}`);
    }
    return { name, parameter: given };
  };
  const rule = policy('rule');
  const gate = policy('gate');
  const stop = policy('stopRule');
  const maxInFlight = number('maxInFlight');
  if (mode === 'speculative' && maxInFlight > 1 && gate.name !== 'none') {
    throw new OutriderError('invalid-option', `maxInFlight must be 1 with gate '${gate.name}'`);
  }
  return {
    prompt,
    mode,
    maxNewTokens: number('maxNewTokens'),
    temperature: number('temperature'),
    topK: number('topK'),
    topP: number('topP'),
    seed: number('seed'),
    scheme,
    code: choice('code', codes),
    supportSize: number('supportSize'),
    latticeResolution: number('latticeResolution'),
    droppedMassTarget: number('droppedMassTarget'),
    stepSize: number('stepSize'),
    initialThreshold: number('initialThreshold'),
    downlink: choice('downlink', downlinks),
    downlinkSamples: number('downlinkSamples'),
    rule: rule.name,
    ruleParameter: rule.parameter,
    gate: gate.name,
    gateThreshold: gate.parameter,
    draftLength: number('draftLength'),
    maxInFlight,
    stopRule: stop.name,
    stopThreshold: stop.parameter,
    adaptiveMode: options.adaptiveMode ?? false,
    compareSchemes: options.compareSchemes ?? false,
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
