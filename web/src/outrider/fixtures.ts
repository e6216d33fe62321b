import type { SessionInfo } from './edge.js';

/** What a server said, in tests. */
export const session: SessionInfo = {
  contextLength: 512,
  maxDraftTokens: 8,
  maxInFlight: 4,
  maxGuesses: 16,
  vocabSize: 4096,
};
