// The shapes of OpenAI's API that are taken and given. A test holds them against the types of the package `openai`.

import type { ResponseFormat, ToolChoice } from './shaping.js';
import type { Message, TemplateVariables, TextPart, Tool } from './edge.js';

/** Parameters that both kinds of completion have. */
export interface CompletionOptions {
  /** Accepted and ignored: a session has the server's model. */
  model?: string | undefined;
  /** Returns the answer in chunks while it is written. */
  stream?: boolean | null | undefined;
  /** `include_usage` adds a last chunk with `usage`. */
  stream_options?:
    { include_usage?: boolean | null | undefined; include_obfuscation?: boolean | null | undefined } | null | undefined;
  /** Ends the text before this string, or the first of these. */
  stop?: string | readonly string[] | null | undefined;
  /** The sampling temperature; what the server recommends if not given, or else 1. */
  temperature?: number | null | undefined;
  /** The mass of nucleus sampling; what the server recommends if not given, or else 1. */
  top_p?: number | null | undefined;
  /** The seed of the random draws; a random one if not given. */
  seed?: number | null | undefined;
  /** The number of most likely tokens that are kept, as other servers have it; 0 and -1 keep all. */
  top_k?: number | null | undefined;
  /** The number of texts, which is 1. */
  n?: 1 | null | undefined;
  /** {@link ShapingOptions.presencePenalty}. */
  presence_penalty?: number | null | undefined;
  /** {@link ShapingOptions.frequencyPenalty}. */
  frequency_penalty?: number | null | undefined;
  /** {@link ShapingOptions.repetitionPenalty}, as other servers have it. */
  repetition_penalty?: number | null | undefined;
  /** {@link ShapingOptions.minP}, as other servers have it. */
  min_p?: number | null | undefined;
  /** {@link ShapingOptions.logitBias}. */
  logit_bias?: Record<string, number> | null | undefined;
  /** {@link ShapingOptions.responseFormat}. */
  response_format?: ResponseFormat | null | undefined;
  /** Accepted and ignored, as it does not change the text. */
  user?: string | null | undefined;
  /** Accepted and ignored, as it does not change the text. */
  metadata?: unknown | undefined;
  /** Accepted and ignored, as it does not change the text. */
  store?: boolean | null | undefined;
}

/** A message of a conversation; `developer` is OpenAI's newer name of the role `system`. */
export type ChatMessage =
  Message | { role: 'developer'; content: string | readonly TextPart[]; name?: string | undefined };

/** Parameters of a chat completion. */
export interface ChatCompletionParams extends CompletionOptions {
  messages: readonly ChatMessage[];
  /** The tools that the assistant may call. */
  tools?: readonly Tool[] | null | undefined;
  /** `none` hides the tools from the model; `required` and a function force a call. */
  tool_choice?: ToolChoice | null | undefined;
  /** Accepted if true, and without `tools` or with a forced call also if false. */
  parallel_tool_calls?: boolean | undefined;
  /** Further variables of the chat template, which OpenAI's API does not have; vLLM's name. */
  chat_template_kwargs?: TemplateVariables | null | undefined;
  /** The variable `enable_thinking` of the chat template. */
  enable_thinking?: boolean | null | undefined;
  /** Continues the last message, a text of the assistant, instead of answering it; vLLM's name. */
  continue_final_message?: boolean | null | undefined;
  /** Accepted if it is the opposite of `continue_final_message`. */
  add_generation_prompt?: boolean | null | undefined;
  /** Separates reasoning from the answer unless it is `none`; llama.cpp's name. */
  reasoning_format?: 'auto' | 'deepseek' | 'none' | null | undefined;
  /** Most tokens of the answer; up to the context length if not given. */
  max_completion_tokens?: number | null | undefined;
  /** The older name of `max_completion_tokens`. */
  max_tokens?: number | null | undefined;
  /**
   * Returns the server's log-probabilities, of its distribution as it is sampled (OpenAI's are those before temperature and
   * `top_p`): the option `evidence` of `generate()`, with what it needs.
   */
  logprobs?: boolean | null | undefined;
  /** The number of most likely tokens returned at each position, at most 20; fewer are known. */
  top_logprobs?: number | null | undefined;
}

/** Parameters of a text completion. */
export interface CompletionParams extends CompletionOptions {
  /** The text to continue, also as a list of one. */
  prompt: string | readonly [string];
  /** Most tokens of the text; 16 if not given, as with OpenAI. */
  max_tokens?: number | null | undefined;
}

/** Tokens of a completion, and forward passes that drafting saved. */
export interface CompletionUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  /** Measurements of this package, which OpenAI's API does not have. */
  outrider: {
    /** Forward passes of the server's model; without drafts one for each token. */
    server_passes: number;
    /** Forward passes saved by drafts. */
    saved_passes: number;
    drafted: number;
    accepted: number;
    /** Tokens of reasoning, if it is apart from the answer. */
    reasoning_tokens: number;
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

/** The log-probability of a chosen token; -9999 where it is unknown or the probability is 0. */
export interface TokenLogprob extends TopLogprob {
  top_logprobs: TopLogprob[];
}

/** Log-probabilities of an answer, or of a chunk of it. */
export interface ChoiceLogprobs {
  content: TokenLogprob[] | null;
  refusal: null;
}

/** A complete call of a tool. */
export interface CompletionToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** The reason why an answer ended. */
export type ChatFinish = 'stop' | 'length' | 'tool_calls';

/** A complete answer in a conversation. */
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
      /** The reasoning before the answer, which OpenAI's API does not have; absent if there is none. */
      reasoning_content?: string;
      tool_calls?: CompletionToolCall[];
    };
    logprobs: ChoiceLogprobs | null;
    finish_reason: ChatFinish;
  }[];
  usage: CompletionUsage;
}

/** A chunk of an answer that is being written. */
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
      reasoning_content?: string;
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

/** A chunk of a text that is being written. */
export interface CompletionChunk extends Omit<Completion, 'choices' | 'usage'> {
  choices: { index: number; text: string; logprobs: null; finish_reason: 'stop' | 'length' | null }[];
  usage?: CompletionUsage | null;
}
