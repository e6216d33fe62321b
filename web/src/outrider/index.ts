/**
 * Outrider: a small model drafts in the browser, a large one on a server verifies.
 * @module
 */

export { builds, engines } from './builds.js';
export type { Build, EngineInfo, EngineKind } from './builds.js';
export type { RequestOptions } from './aborting.js';
/** @internal The package's other entries share them. */
export { abortion, unlessAborted } from './aborting.js';
export type { ChatCompletions, Completions, CompletionStream } from './completions.js';
export type * from './completions-types.js';
export type { LocalContext } from './context.js';
export type {
  AheadRecord,
  AheadWay,
  Candidate,
  Claim,
  ComparedScheme,
  Finish,
  GenerateRequest,
  Guess,
  Link,
  Message,
  Mode,
  ModelInfo,
  Origin,
  Piece,
  Prompt,
  Round,
  RoundRecord,
  RoundScheme,
  SessionInfo,
  Statistics,
  Summary,
  TextPart,
  Token,
  TokenEvidence,
  TemplateVariables,
  Tool,
  ToolCall,
  WayRecord,
} from './edge.js';
export type { Limits } from './limits.js';
export { OutriderError } from './errors.js';
export type { OutriderErrorCode } from './errors.js';
export type { Generation, GenerationEvent, SuspendedGeneration } from './generation.js';
export type { LoadProgress } from './messages.js';
export { openLink, reasonAgainst } from './options.js';
export type { ConversationOptions, GenerateOptions } from './options.js';
export type { ResponseFormat, ShapingOptions, ToolChoice } from './shaping.js';
export { Outrider } from './outrider.js';
export type { WritingMode } from './outrider.js';
export type { ConnectionEvent, LoadOptions } from './load-options.js';
export type { KeptModel } from './store.js';
export { names, numbers } from './choices.js';
export type { Code, Downlink, GateName, Goal, RuleName, Scheme, StopRuleName, Verification } from './choices.js';
export { reasonAgainstPolicy, willBeAhead } from './policies.js';
export type { Heads } from './policies.js';
export {
  choiceDefaults,
  codes,
  downlinks,
  generationDefaults,
  generationRanges,
  goals,
  policies,
  policyDefaults,
  policyOptions,
  schemes,
  verifications,
} from './tables.js';
export type {
  ChoiceOption,
  Choices,
  Head,
  NameDescription,
  NumberDescription,
  NumberOption,
  Policies,
  Policy,
  PolicyOption,
  PolicyParameter,
  PolicyParameterOption,
  Range,
} from './tables.js';
