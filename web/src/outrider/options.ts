import { names } from './choices.js';
import type { NameOptions, NumberOptions, ParameterOptions } from './choices.js';
import type {
  GenerateRequest,
  Link,
  Mode,
  ModelInfo,
  Prompt,
  RequestNumbers,
  SessionInfo,
  TemplateVariables,
  Tool,
} from './edge.js';
import { invalidOption } from './errors.js';
import { policyNamed, reasonAgainstPolicy } from './policies.js';
import type { Heads } from './policies.js';
import { shapingNames, shapingOf } from './shaping.js';
import type { ShapingOptions } from './shaping.js';
import { choiceDefaults, generationDefaults, generationRanges, policyDefaults, policyOptions } from './tables.js';
import type { ChoiceOption, Choices, NumberOption, PolicyOption, Range } from './tables.js';
import {
  checkedPrompt,
  checkedStops,
  checkedTools,
  checkedVariables,
  refuseTooLong,
  refuseUnknown,
} from './validation.js';

/** Options of a generation. Each has a default; see {@link generationDefaults} and {@link generationRanges}. */
export interface GenerateOptions extends NameOptions, ParameterOptions, NumberOptions, ShapingOptions {
  /**
   * `speculative` (default) drafts here and lets the server verify, or write on meanwhile: see `scheme`; `cloud-only`
   * lets the server decode alone.
   */
  mode?: Mode | undefined;
  /** Lets the server write alone as long as that is faster (AS²). */
  adaptiveMode?: boolean | undefined;
  /**
   * Also computes what the same drafts would have cost under each scheme, for {@link RoundRecord.otherBits}; drafting slows.
   * That needs rounds: `scheme: 'auto'` then has them.
   */
  compareSchemes?: boolean | undefined;
  /**
   * Tools that the assistant may call in a conversation. The model's chat template shows them to the model; a template
   * without a place for tools is an error. Calls are in `pieces` of rounds and of the summary; the text keeps them in the
   * model's own form, mostly `<tool_call>…</tool_call>`.
   */
  tools?: readonly Tool[] | undefined;
  /** Further variables of the chat template, such as `{ enable_thinking: false }`. */
  chatTemplateKwargs?: TemplateVariables | undefined;
  /** Continues the last message, a text of the assistant, instead of answering it. */
  continueFinalMessage?: boolean | undefined;
  /** @internal Puts tags around reasoning where the server alone writes; its rounds are then `isTagged`. */
  tagsReasoning?: boolean | undefined;
  /**
   * Ends the text before this string, or the first of these, wherever tokens begin in it; `finish` is then `stop`. A token
   * waits while its text may belong to such a string.
   */
  stop?: string | readonly string[] | undefined;
  /**
   * Adds {@link Token.evidence} to each token: log-probabilities and candidates of both models. The server's half needs
   * rounds, so that `scheme: 'auto'` is then `k-sqs`, and a server that sends it (`outrider serve --evidence`, by default
   * to its own pages): the whole distribution for each draft. Ahead of the server there is the draft's half only; without
   * a draft model there is none.
   */
  evidence?: boolean | undefined;
  /** Stops the generation; it then ends quietly, with `finish: 'cancelled'`, as after {@link Generation.stop}. */
  signal?: AbortSignal | undefined;
}

/** Options that shape the prompt of a conversation. */
export type ConversationOptions = Pick<
  GenerateOptions,
  'tools' | 'toolChoice' | 'chatTemplateKwargs' | 'continueFinalMessage'
>;

/** Narrows {@link generationRanges} to what this draft and this server can do. */
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

/** Smallest share of nucleus sampling that the engine knows, the smallest normal 32-bit float. */
export const SMALLEST_TOP_P = 2 ** -126;

/** Bounds of options beyond the tables', which are for a page's controls. The engine reads a seed modulo 2^64. */
const widened: Partial<Record<NumberOption, Partial<Range>>> = {
  seed: { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER },
  topP: { min: SMALLEST_TOP_P },
};

/** Returns the range of an option that `generate()` accepts. */
export function acceptedRange(option: NumberOption, ranges: Readonly<Record<NumberOption, Range>>): Range {
  return { ...ranges[option], ...widened[option] };
}

/** A link without added delay and without limits, which is not cut. */
export const openLink: Readonly<Link> = {
  ...{ uplinkBitsPerSecond: null, downlinkBitsPerSecond: null, roundTripMs: 0, isCut: false },
};

/**
 * Describes why a value is outside its range, as the end of a sentence that starts with its name; null if it is inside.
 */
export function reasonAgainst(value: number, range: Range): string | null {
  if (!Number.isFinite(value)) return 'must be a number';
  if (range.integer && !Number.isInteger(value)) return 'must be a whole number';
  if (range.excluded === 'max' && value >= range.max) return `must be below ${range.max}`;
  if (value < range.min) return `must be at least ${range.min}`;
  if (value > range.max) return `must be at most ${range.max}`;
  return null;
}

function randomSeed(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
}

/** Options that are neither numbers nor names. */
type OtherOption = Exclude<keyof GenerateOptions, NumberOption | ChoiceOption | PolicyOption | keyof ParameterOptions>;
const others: Record<OtherOption, true> = {
  ...{ mode: true, adaptiveMode: true, compareSchemes: true, evidence: true, stop: true, tools: true },
  ...{ chatTemplateKwargs: true, continueFinalMessage: true, tagsReasoning: true, signal: true },
  ...shapingNames,
};
const known = [
  ...Object.keys(generationDefaults),
  ...Object.keys(choiceDefaults),
  ...Object.entries(policyOptions).flatMap(([option, { parameter }]) => [option, parameter]),
  ...Object.keys(others),
];

/** Makes a complete request from options and defaults. @throws {@link OutriderError} `invalid-option` */
export function resolveRequest(
  prompt: Prompt,
  options: GenerateOptions,
  ranges: Readonly<Record<NumberOption, Range>>,
  heads: Heads,
): GenerateRequest {
  refuseUnknown(options, known, 'generate()');
  const resolved = checkedPrompt(prompt);
  refuseTooLong(resolved, ranges.maxNewTokens.max);
  const tools = options.toolChoice === 'none' ? [] : checkedTools(options.tools ?? [], resolved);
  const shaping = shapingOf(options, tools);
  const chatTemplateKwargs = checkedVariables(options.chatTemplateKwargs ?? {});
  const stop = checkedStops(options.stop ?? []);
  const flag = (option: 'adaptiveMode' | 'compareSchemes' | 'continueFinalMessage' | 'evidence'): boolean => {
    const { [option]: given = false } = options;
    if (typeof given !== 'boolean') throw invalidOption(`${option} must be true or false`, { option });
    return given;
  };
  const continues = (): boolean => {
    const isWanted = flag('continueFinalMessage');
    const last = typeof resolved === 'string' ? undefined : resolved.at(-1);
    if (!isWanted || (last?.role === 'assistant' && last.content)) return isWanted;
    const option = 'continueFinalMessage';
    throw invalidOption(`${option} needs messages, the last of them a text of the assistant`, { option });
  };
  const mode = options.mode ?? 'speculative';
  if (mode !== 'speculative' && mode !== 'cloud-only') {
    throw invalidOption(`mode must be 'speculative' or 'cloud-only', not '${mode}'`, { option: 'mode' });
  }
  const number = (option: NumberOption): number | null => {
    const range = acceptedRange(option, ranges);
    const given = options[option];
    // A default above what this server allows is no mistake of the caller's.
    const otherwise = generationDefaults[option];
    if (given === undefined) return otherwise === null ? null : Math.min(otherwise, range.max);
    const reason = reasonAgainst(given, range);
    if (reason !== null) throw invalidOption(`${option} ${reason}`, { option });
    return given;
  };
  const choice = (option: ChoiceOption): string => {
    const given = options[option] ?? choiceDefaults[option];
    const { entries } = names[option];
    if (!entries.some(({ name }) => name === given)) {
      const list = entries.map(({ name }) => `'${name}'`).join(', ');
      throw invalidOption(`${option} must be one of ${list}, not '${given}'`, { option });
    }
    return given;
  };
  const choices = {} as Record<ChoiceOption, string>;
  for (const option of Object.keys(choiceDefaults) as ChoiceOption[]) choices[option] = choice(option);
  const { scheme } = choices as Choices;
  const policy = (option: PolicyOption): { name: string; parameter: number | null } => {
    const chosen = policyNamed(option, options[option] ?? policyDefaults[option]);
    const { name, parameter } = chosen;
    // The server alone drafts nothing; what it does not need may be missing.
    const missing = mode === 'speculative' ? reasonAgainstPolicy(chosen, option, scheme, heads) : null;
    if (missing !== null) throw invalidOption(`${option} '${name}' ${missing}`, { option });
    if (parameter === null) return { name, parameter };
    const { parameter: parameterOption } = policyOptions[option];
    const given = options[parameterOption] ?? parameter.default;
    const reason = reasonAgainst(given, parameter.range);
    if (reason !== null) {
      throw invalidOption(`${parameterOption} of '${name}' ${reason}`, { option: parameterOption });
    }
    return { name, parameter: given };
  };
  const rule = policy('rule');
  const gate = policy('gate');
  const stopRule = policy('stopRule');
  const numbers = {} as RequestNumbers;
  for (const option of Object.keys(generationDefaults) as NumberOption[]) {
    Object.assign(numbers, { [option]: number(option) });
  }
  numbers.seed ??= randomSeed();
  if (mode === 'speculative' && numbers.maxInFlight > 1 && gate.name !== policyDefaults.gate) {
    throw invalidOption(`maxInFlight must be 1 with gate '${gate.name}'`, { option: 'maxInFlight' });
  }
  return {
    prompt: resolved,
    tools,
    chatTemplateKwargs,
    continueFinalMessage: continues(),
    ...(options.tagsReasoning && { tagsReasoning: true }),
    stop,
    shaping,
    evidence: flag('evidence'),
    mode,
    ...numbers,
    ...(choices as Choices),
    rule: rule.name,
    ruleParameter: rule.parameter,
    gate: gate.name,
    gateThreshold: gate.parameter,
    stopRule: stopRule.name,
    stopThreshold: stopRule.parameter,
    adaptiveMode: flag('adaptiveMode'),
    compareSchemes: flag('compareSchemes'),
  };
}

/** Changes fields of a link; those that are undefined stay. @throws {@link OutriderError} `invalid-option` */
export function changedLink(before: Link, change: Partial<Link>): Link {
  refuseUnknown(change, Object.keys(openLink), 'the link');
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  const link: Link = { ...before, ...Object.fromEntries(given) };
  for (const rate of ['uplinkBitsPerSecond', 'downlinkBitsPerSecond'] as const) {
    const value = link[rate];
    if (value !== null && !(Number.isFinite(value) && value > 0)) {
      throw invalidOption(`${rate} must be above 0, or null for no limit`);
    }
  }
  if (!(Number.isFinite(link.roundTripMs) && link.roundTripMs >= 0)) {
    throw invalidOption('roundTripMs must be at least 0');
  }
  if (typeof link.isCut !== 'boolean') throw invalidOption('isCut must be true or false');
  return link;
}
