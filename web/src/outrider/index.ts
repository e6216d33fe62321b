/**
 * Outrider: a small model drafts in the browser, a large one on a server verifies.
 * @module
 */

export type {
  Finish,
  Link,
  Mode,
  ModelInfo,
  Origin,
  Round,
  SessionInfo,
  Statistics,
  Summary,
  Token,
} from './edge.js';
export { OutriderError } from './errors.js';
export type { OutriderErrorCode } from './errors.js';
export type { Generation } from './generation.js';
export type { LoadProgress } from './messages.js';
export { generationDefaults, generationRanges, openLink, reasonAgainst } from './options.js';
export type { GenerateOptions, NumberOption, Range } from './options.js';
export { Outrider } from './outrider.js';
export type { LoadOptions } from './outrider.js';
