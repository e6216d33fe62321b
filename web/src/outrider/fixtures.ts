import { builds } from './builds.js';
import type { EngineRequest } from './builds.js';
import type { SessionInfo } from './edge.js';

/** What a server said, in tests. */
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

/** Where a page would look for the engine, in tests. */
export const addresses = Object.fromEntries(
  builds.map((build) => [build, `https://example.org/${build}.wasm`]),
) as EngineRequest['addresses'];
