// The shapes of OpenAI's API that are taken and given. A test holds them against the types of the package `openai`.

import type { Message, Tool } from './edge.js';

/** What both kinds of completion are asked for. */
export interface CompletionOptions {
  /** Taken and ignored: a session has the server's model. */
  model?: string;
  /** Whether chunks are wanted as they come. */
  stream?: boolean | null;
  /** Whether the last chunk has `usage`. */
  stream_options?: { include_usage?: boolean } | null;
  /** Ends the text before it. */
  stop?: string | readonly string[] | null;
  /** 1 if not given, as with OpenAI. */
  temperature?: number | null;
  /** 1 if not given, as with OpenAI. */
  top_p?: number | null;
  /** Another each time if not given. */
  seed?: number | null;
  /** The number of texts, which is 1. */
  n?: 1 | null;
  /** Accepted with the value that changes nothing, as by the server's API. */
  presence_penalty?: 0 | null;
  /** As `presence_penalty`: 0 only. */
  frequency_penalty?: 0 | null;
  /** As `presence_penalty`: empty only. */
  logit_bias?: Record<string, never> | null;
  /** Accepted and ignored, as it does not change the text. */
  user?: string | null;
  /** Accepted and ignored, as it does not change the text. */
  metadata?: unknown;
  /** Accepted and ignored, as it does not change the text. */
  store?: boolean | null;
}

/** What a conversation is asked for. */
export interface ChatCompletionParams extends CompletionOptions {
  messages: readonly Message[];
  /** The tools that the assistant may call. */
  tools?: readonly Tool[] | null;
  /** `none` hides the tools from the model. */
  tool_choice?: 'auto' | 'none' | null;
  /** True only, or either value without `tools`. */
  parallel_tool_calls?: boolean;
  /** Text only. */
  response_format?: { type: 'text' } | null;
  /** Most tokens of the answer; as many as there is room for if not given. */
  max_completion_tokens?: number | null;
  /** The older name of `max_completion_tokens`. */
  max_tokens?: number | null;
  /**
   * Tells the server's log-probabilities, of its distribution as it is sampled (OpenAI's are those before temperature and
   * `top_p`): the option `evidence` of `generate()`, with what it needs.
   */
  logprobs?: boolean | null;
  /** How many of the likeliest tokens are told at each position, at most 5. */
  top_logprobs?: number | null;
}

/** What a text is asked for. */
export interface CompletionParams extends CompletionOptions {
  prompt: string;
  /** Most tokens of the text; 16 if not given, as with OpenAI. */
  max_tokens?: number | null;
}

/** What a completion took, with what drafting has saved. */
export interface CompletionUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  /** Not OpenAI's: what this package measured. */
  outrider: {
    /** Forward passes of the server's model; without drafts one for each token. */
    server_passes: number;
    /** Forward passes that drafts have saved. */
    saved_passes: number;
    drafted: number;
    accepted: number;
    uplink_bytes: number;
    downlink_bytes: number;
    elapsed_ms: number;
  };
}

/** A log-probability as OpenAI's API has it. */
export interface TopLogprob {
  token: string;
  bytes: number[] | null;
  logprob: number;
}

/** The log-probability of a token that was chosen; -9999 where the server told none, or where it is 0. */
export interface TokenLogprob extends TopLogprob {
  top_logprobs: TopLogprob[];
}

/** Log-probabilities of an answer, or of a chunk of it. */
export interface ChoiceLogprobs {
  content: TokenLogprob[] | null;
  refusal: null;
}

/** A call of a tool, complete. */
export interface CompletionToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** Why an answer ended. */
export type ChatFinish = 'stop' | 'length' | 'tool_calls';

/** An answer. */
export interface ChatCompletion {
  id: string;
  object: 'chat.completion';
  created: number;
  model: string;
  choices: {
    index: number;
    message: {
      role: 'assistant';
      content: string | null;
      refusal: null;
      tool_calls?: CompletionToolCall[];
    };
    logprobs: ChoiceLogprobs | null;
    finish_reason: ChatFinish;
  }[];
  usage: CompletionUsage;
}

/** A part of an answer that is being written. */
export interface ChatCompletionChunk {
  id: string;
  object: 'chat.completion.chunk';
  created: number;
  model: string;
  choices: {
    index: number;
    delta: {
      role?: 'assistant';
      content?: string | null;
      tool_calls?: (CompletionToolCall & { index: number })[];
    };
    logprobs?: ChoiceLogprobs | null;
    finish_reason: ChatFinish | null;
  }[];
  usage?: CompletionUsage | null;
}

/** A text, or with `stream` a part of one. */
export interface Completion {
  id: string;
  object: 'text_completion';
  created: number;
  model: string;
  choices: { index: number; text: string; logprobs: null; finish_reason: 'stop' | 'length' }[];
  usage?: CompletionUsage;
}

/** A part of a text that is being written. */
export interface CompletionChunk extends Omit<Completion, 'choices' | 'usage'> {
  choices: { index: number; text: string; logprobs: null; finish_reason: 'stop' | 'length' | null }[];
  usage?: CompletionUsage | null;
}
