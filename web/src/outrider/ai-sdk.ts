/**
 * Outrider as a provider of the AI SDK: `import { createOutrider } from 'outrider/ai-sdk'`. It needs the package
 * `@ai-sdk/openai-compatible`.
 * @module ai-sdk
 */

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { OpenAICompatibleProvider } from '@ai-sdk/openai-compatible';
import type { CompletionUsage } from './completions-types.js';
import { Outrider, unlessAborted } from './index.js';
import type { LoadOptions } from './index.js';

/** A language model of the AI SDK, for `generateText()`, `streamText()` and agents. */
export type OutriderLanguageModel = ReturnType<OpenAICompatibleProvider['chatModel']>;

/** The part `outrider` of the AI SDK's `providerMetadata`: the costs of an answer. A type, since it has to be JSON. */
export type OutriderMetadata = {
  /** Forward passes of the server's model; without drafts one for each token. */
  serverPasses: number;
  /** Forward passes saved by drafts. */
  savedPasses: number;
  /** Tokens that were drafted. */
  drafted: number;
  /** Drafts that the server accepted. */
  accepted: number;
  /** Bytes sent to the server. */
  uplinkBytes: number;
  /** Bytes received from the server. */
  downlinkBytes: number;
  /** Time from the start of the answer to its last token, in milliseconds. */
  elapsedMs: number;
};

/** A provider of the AI SDK whose models are drafted in the page. */
export interface OutriderProvider extends OpenAICompatibleProvider {
  /** Makes a chat model; its name changes nothing. */
  (modelId?: string): OutriderLanguageModel;
  /** Loads the instance ahead of the first request, or resolves to the one that has been loaded. */
  load(): Promise<Outrider>;
  /** Closes the instance that the provider has loaded, which the next request replaces. One that was given stays open. */
  close(): Promise<void>;
}

/** The address of the API; requests to it do not leave the page. */
const baseURL = 'https://outrider.invalid/v1';
const name = 'outrider';

/**
 * Makes a provider of the AI SDK.
 *
 * ```ts
 * const outrider = createOutrider({ server: 'https://models.example.com' });
 * const { textStream } = streamText({ model: outrider(), prompt: 'Once upon a time' });
 * ```
 *
 * @param source an instance, or the options of `Outrider.load()`, which the first request calls; after a failure the
 *   next request calls it again
 */
export function createOutrider(source: Outrider | LoadOptions = {}): OutriderProvider {
  let loaded: Promise<Outrider> | null = null;
  const load = (): Promise<Outrider> => {
    if (source instanceof Outrider) return Promise.resolve(source);
    if (loaded) return loaded;
    const loading = (loaded = Outrider.load(source));
    loading.catch(() => loaded === loading && (loaded = null));
    return loading;
  };
  const close = async (): Promise<void> => {
    const closing = loaded;
    loaded = null;
    await closing?.then(
      (outrider) => outrider.close(),
      () => {},
    );
  };
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const outrider = await unlessAborted(load(), init?.signal);
    return outrider.fetch(input, init);
  };
  const features = { includeUsage: true, supportsStructuredOutputs: true, metadataExtractor };
  const provider = createOpenAICompatible({ name, baseURL, fetch, ...features });
  return Object.assign((modelId = name) => provider(modelId), provider, { load, close });
}

/** Reads the costs of an answer from its usage. */
const metadataExtractor = {
  extractMetadata: ({ parsedBody }: { parsedBody: unknown }) => Promise.resolve(metadataOf(parsedBody)),
  createStreamExtractor: () => {
    let metadata: Metadata | undefined;
    return {
      processChunk: (chunk: unknown) => void (metadata = metadataOf(chunk) ?? metadata),
      buildMetadata: () => metadata,
    };
  },
};

type Metadata = Record<typeof name, OutriderMetadata>;

function metadataOf(body: unknown): Metadata | undefined {
  const costs = (body as { usage?: CompletionUsage | null } | null)?.usage?.outrider;
  if (!costs) return undefined;
  const metadata: OutriderMetadata = {
    ...{ serverPasses: costs.server_passes, savedPasses: costs.saved_passes },
    ...{ drafted: costs.drafted, accepted: costs.accepted, elapsedMs: costs.elapsed_ms },
    ...{ uplinkBytes: costs.uplink_bytes, downlinkBytes: costs.downlink_bytes },
  };
  return { outrider: metadata };
}
