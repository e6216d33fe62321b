// A text that the server writes alone, from the chunks of its answers.

import type { GenerateRequest, Piece, Round, Statistics, Summary, Token } from './edge.js';
import { OutriderError } from './errors.js';
import { emptySummary } from './generation.js';
import { ReasoningTags } from './reasoning.js';

/** The fields that are read of a chunk of either kind of completion. */
export interface Chunk {
  choices?: {
    text?: string;
    delta?: {
      content?: string | null;
      reasoning_content?: string | null;
      tool_calls?: { function: { name: string; arguments: string } }[];
    };
    finish_reason: 'stop' | 'length' | 'tool_calls' | null;
    /** The ids of the tokens since the last chunk. */
    token_ids?: number[];
  }[];
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  error?: ApiError;
}

/** An error of the server's API. */
export interface ApiError {
  message: string;
  param?: string | null;
  code?: string | null;
}

/** The error of a repeated answer whose text is not that of the first one. It cannot be continued from there. */
export class AnotherText extends OutriderError {
  constructor() {
    super('connection-lost', 'after a lost connection the server wrote another text; generate it again');
  }
}

/**
 * A text of the server's. A request that is repeated with its seed gets the same text from the beginning: what is known
 * of it is compared and left out, so that no token is lost or doubled.
 */
export class ServerText {
  readonly statistics: Statistics = { ...emptySummary };
  /** The reason of the end; null before it. */
  finish: Summary['finish'] | null = null;
  readonly #request: GenerateRequest;
  readonly #started = performance.now();
  readonly #tokenIds: number[] = [];
  readonly #pieces: Piece[] = [];
  #text = '';
  #promptTokens = 0;
  /** Tokens that were written again. */
  #repeated = 0;
  /** The parts of the current answer that have arrived: ids, characters and calls. */
  #arrived = { ids: 0, text: 0, calls: 0 };
  #tags = new ReasoningTags();

  constructor(request: GenerateRequest) {
    this.#request = request;
  }

  /** Begins another answer to the same request. */
  beginAnswer(): void {
    this.#arrived = { ids: 0, text: 0, calls: 0 };
    this.#tags = new ReasoningTags();
  }

  /**
   * Takes the next chunk of the current answer. Returns the round of its new tokens; null without any. Those without a
   * text of their own have the empty one. @throws {@link AnotherText}
   */
  take({ usage, choices = [] }: Chunk): Round | null {
    if (usage) {
      this.#promptTokens = usage.prompt_tokens;
      this.#count(usage.completion_tokens);
    }
    const [choice] = choices;
    if (!choice) return null;
    const { content, reasoning_content: reasoning, tool_calls = [] } = choice.delta ?? {};
    const answer = choice.text ?? content ?? '';
    const isEmpty = answer === '' && tool_calls.length === 0 && !reasoning;
    const ids = this.#newIds(choice.token_ids ?? []);
    const text = isEmpty ? '' : this.#newText(this.#tags.around(reasoning ?? '', answer));
    const calls = this.#newCalls(tool_calls.map((call): Piece => ({ type: 'call', ...call.function })));
    if (choice.finish_reason) this.#end(choice.finish_reason);
    if (isEmpty) return null;
    if (text === '' && calls.length === 0 && ids.length === 0) {
      this.#repeated += Math.max(choice.token_ids?.length ?? 0, 1);
      return null;
    }
    this.#count(this.statistics.tokens + Math.max(ids.length, 1));
    const pieces: Piece[] = [...(text === '' ? [] : [{ type: 'text', text } as const]), ...calls];
    this.#pieces.push(...pieces);
    const evidence = { logprob: null, bits: null, candidates: [] };
    const last = Math.max(ids.length - 1, 0);
    const tokens = Array.from({ length: last + 1 }, (_, index): Token => ({
      ...{ id: ids[index] ?? -1, text: index === last ? text : '', origin: 'cloud' },
      ...(this.#request.evidence && { evidence }),
    }));
    return {
      tokens,
      ...(this.#request.tools.length > 0 && { pieces }),
      ...(this.#request.tagsReasoning && { isTagged: true }),
      statistics: { ...this.statistics },
      round: null,
    };
  }

  /** The summary of the text; without a reason its end is that of `length`. */
  summary(): Summary {
    const { tools, tagsReasoning, seed } = this.#request;
    return {
      ...this.statistics,
      ...{ seed, text: this.#text, promptTokens: this.#promptTokens, promptTokenIds: [], tokenIds: this.#tokenIds },
      ...(tagsReasoning && { isTagged: true as const }),
      ...(tools.length > 0 && this.#pieces.length > 0 && { pieces: this.#pieces }),
      finish: this.finish ?? 'length',
    };
  }

  #newIds(ids: number[]): number[] {
    const known = this.#tokenIds.slice(this.#arrived.ids, this.#arrived.ids + ids.length);
    if (known.some((id, index) => id !== ids[index])) throw new AnotherText();
    const added = ids.slice(known.length);
    this.#arrived.ids += ids.length;
    this.#tokenIds.push(...added);
    return added;
  }

  #newText(text: string): string {
    const known = this.#text.slice(this.#arrived.text, this.#arrived.text + text.length);
    if (!text.startsWith(known)) throw new AnotherText();
    const added = text.slice(known.length);
    this.#arrived.text += text.length;
    this.#text += added;
    return added;
  }

  #newCalls(calls: Piece[]): Piece[] {
    const { calls: at } = this.#arrived;
    const known = this.#pieces.filter(({ type }) => type === 'call').slice(at, at + calls.length);
    if (JSON.stringify(known) !== JSON.stringify(calls.slice(0, known.length))) throw new AnotherText();
    this.#arrived.calls += calls.length;
    return calls.slice(known.length);
  }

  #end(reason: 'stop' | 'length' | 'tool_calls'): void {
    if (this.#arrived.text < this.#text.length) throw new AnotherText();
    // The server ends a text in the same way at a string of `stop` and at the end of text.
    const ends = { stop: this.#request.stop.length > 0 ? 'stop' : 'eos', length: 'length', tool_calls: 'eos' } as const;
    this.finish = ends[reason];
  }

  /** Counts tokens, each a forward pass of the server. */
  #count(tokens: number): void {
    const elapsedMs = performance.now() - this.#started;
    if (this.statistics.tokens === 0) this.statistics.firstTokenMs = elapsedMs;
    const serverPasses = tokens + this.#repeated;
    Object.assign(this.statistics, {
      ...{ tokens, elapsedMs, tokensPerSecond: (tokens / elapsedMs) * 1000 },
      ...{ serverPasses, serverPassesPerToken: tokens > 0 ? serverPasses / tokens : 0 },
    });
  }
}

/**
 * Returns the totals of a text that the server began alone, `started` milliseconds after the page's time origin, and
 * that a draft model has joined since: `later` counts from there on.
 */
export function joined<S extends Statistics>(alone: Statistics, started: number, later: S): S {
  const tokens = alone.tokens + later.tokens;
  const elapsedMs = performance.now() - started;
  const serverPasses = alone.serverPasses + later.serverPasses;
  const [uplinkBits, downlinkBits] = [alone.uplinkBits + later.uplinkBits, alone.downlinkBits + later.downlinkBits];
  return {
    ...later,
    ...{ tokens, elapsedMs, serverPasses, uplinkBits, downlinkBits },
    firstTokenMs: alone.tokens > 0 ? alone.firstTokenMs : elapsedMs - later.elapsedMs + later.firstTokenMs,
    tokensPerSecond: (tokens / elapsedMs) * 1000,
    serverPassesPerToken: tokens > 0 ? serverPasses / tokens : 0,
    uplinkBitsPerToken: tokens > 0 ? uplinkBits / tokens : 0,
    downlinkBitsPerToken: tokens > 0 ? downlinkBits / tokens : 0,
  };
}
