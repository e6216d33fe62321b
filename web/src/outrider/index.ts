/**
 * Outrider: a small model drafts in the browser, a large one on a server verifies.
 * @module
 */

export { builds } from './builds.js';
export type { Build, EngineInfo } from './builds.js';
export type {
  Claim,
  ComparedScheme,
  Finish,
  GenerateRequest,
  Link,
  Mode,
  ModelInfo,
  Origin,
  Round,
  RoundRecord,
  SessionInfo,
  Statistics,
  Summary,
  Token,
} from './edge.js';
export { OutriderError } from './errors.js';
export type { OutriderErrorCode } from './errors.js';
export type { Generation, SuspendedGeneration } from './generation.js';
export type { LoadProgress } from './messages.js';
export {
  choiceDefaults,
  generationDefaults,
  generationRanges,
  openLink,
  policyDefaults,
  reasonAgainst,
} from './options.js';
export type { ChoiceOption, Choices, GenerateOptions, NumberOption, Range } from './options.js';
export { Outrider } from './outrider.js';
export type { ConnectionEvent, LoadOptions } from './outrider.js';
export { policyOptions, reasonAgainstPolicy } from './policies.js';
export type {
  Head,
  Policies,
  Policy,
  PolicyNeeds,
  PolicyOption,
  PolicyParameter,
  PolicyParameterOption,
  RulePolicy,
} from './policies.js';
export { codes, downlinks, schemes } from './schemes.js';
export type { Code, Description, Downlink, Scheme, SchemeDescription, SchemeOption } from './schemes.js';
