import { builds } from './builds.js';
import type { EngineRequest } from './builds.js';
import type { SessionInfo } from './edge.js';
import { SamplingDefaults } from './sampling.js';

/** The limits that a server grants in tests. */
export const session: SessionInfo = {
  contextLength: 512,
  maxDraftTokens: 8,
  maxInFlight: 4,
  maxGuesses: 16,
  maxBranches: 4,
  ownDraws: false,
  fewestPasses: false,
  vocabSize: 4096,
};

/** Addresses of the engine's builds in tests. */
export const addresses = Object.fromEntries(
  builds.map((build) => [build, `https://example.org/${build}.wasm`]),
) as EngineRequest['addresses'];

/** Sampling of a server that recommends nothing in tests. */
export const sampling = new SamplingDefaults(async () => ({}));
