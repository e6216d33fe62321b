// The options and what there is to choose from. Written from the tables of crate `speculation`; do not edit:
// OUTRIDER_WRITE_TABLES=1 cargo test -p outrider-speculation --test tables

import type { NameDescription, NumberDescription } from './descriptions.js';

/** Data sent for each drafted token. */
export type Scheme = 'auto' | 'ahead' | 'dense' | 'qs' | 'k-sqs' | 'c-sqs' | 'tk-slt' | 'dssd' | 'coupled';

/** Code of distributions on a lattice. */
export type Code = 'enumerative' | 'adaptive';

/** Data that the server sends after a rejection. */
export type Downlink = 'full' | 'sampled';

/** Acceptance rule by which the server judges drafts. */
export type RuleName = 'exact' | 'lossy' | 'lossy-tuned' | 'chow' | 'chow-log' | 'diff' | 'diff-log' | 'opt' | 'opt-log' | 'token-v1' | 'token-v2' | 'token-v3' | 'bild-star' | 'bild' | 'mentored' | 'oracle-diff';

/** Gate that commits tokens without asking the server. */
export type GateName = 'none' | 'sprinter' | 'token-cascade' | 'sequence-cascade' | 'sequence-product';

/** Stop rule that ends a round. */
export type StopRuleName = 'fixed' | 'odld' | 'adaedl' | 'specdec' | 'bild';

/** Goal of drafting ahead. */
export type Goal = 'speed' | 'passes';

/** Choice of the accepted drafts of a round. */
export type Verification = 'token' | 'block';

/** The options that are names. */
export interface NameOptions {
  /** Data sent for each drafted token; `auto` if not given. */
  scheme?: Scheme | undefined;
  /** `auto`, `qs`, `k-sqs`, `c-sqs`: Code of distributions on a lattice; `enumerative` if not given. */
  code?: Code | undefined;
  /** `dssd`: Data that the server sends after a rejection; `sampled` if not given. */
  downlink?: Downlink | undefined;
  /** Acceptance rule by which the server judges drafts; `exact` if not given. */
  rule?: RuleName | (string & {}) | undefined;
  /** Gate that commits tokens without asking the server; `none` if not given. */
  gate?: GateName | (string & {}) | undefined;
  /** Stop rule that ends a round; `fixed` if not given. */
  stopRule?: StopRuleName | (string & {}) | undefined;
  /** `auto`, `ahead`: Goal of drafting ahead; `speed` if not given. */
  goal?: Goal | undefined;
  /** `auto`, `dense`, `qs`, `k-sqs`, `c-sqs`, `tk-slt`: Choice of the accepted drafts of a round; `block` if not given. */
  verification?: Verification | undefined;
}

/** The numbers that come with names, each with ranges and defaults of its own. */
export interface ParameterOptions {
  /** Parameter of `rule`: α of `lossy`, α of `lossy-tuned`, α of `chow`, α of `chow-log`, α of `diff`, α of `diff-log`, α of `opt`, α of `opt-log`, α of `token-v1`, α of `token-v2`, α of `token-v3`, α of `bild-star`, α of `bild`, D of `mentored`, α of `oracle-diff`. */
  ruleParameter?: number | undefined;
  /** Threshold of `gate`: τ of `sprinter`, α of `token-cascade`, α of `sequence-cascade`, α of `sequence-product`. */
  gateThreshold?: number | undefined;
  /** Threshold of `stopRule`: λ of `adaedl`, h of `specdec`, α of `bild`. */
  stopThreshold?: number | undefined;
}

/** The options that are numbers of their own. */
export interface NumberOptions {
  /** 0 is greedy: always the most likely token. */
  temperature?: number | undefined;
  /** Keeps the fewest most likely tokens whose probabilities reach this; 1 is off. */
  topP?: number | undefined;
  /** Keeps the k most likely tokens; 0 is off. */
  topK?: number | undefined;
  /** Equal seeds and options repeat a generation, except where a session has learned; a random one if not given. Later generations of a session start with the state of earlier ones: C-SQS with its threshold, AdaEDL with its λ. ODLD and AS² also depend on measured times. Where that changes the drafts, the text is another draw, under the exact rule from the same distribution. */
  seed?: number | undefined;
  /** Most tokens to generate. */
  maxNewTokens?: number | undefined;
  /** Temperature of the draft model alone; 0 always drafts its most likely token; the target's if not given. The target keeps its own temperature. Under the exact rule the text's distribution does not change, but the acceptance rate does; coupled and ahead agree most often at the target's temperature. Other rules mix in the distribution of the drafts, and tokens that skip verification are drawn from it. */
  draftTemperature?: number | undefined;
  /** `auto`, `k-sqs`, `tk-slt`: K: Tokens kept of each draft distribution. */
  supportSize?: number | undefined;
  /** `auto`, `qs`, `k-sqs`, `c-sqs`: ℓ: Probabilities are sent in steps of 1/ℓ. */
  latticeResolution?: number | undefined;
  /** `c-sqs`: α: Intended mean probability of the tokens left out. */
  droppedMassTarget?: number | undefined;
  /** `c-sqs`: η: Step of the threshold per token; 0 keeps it fixed. */
  stepSize?: number | undefined;
  /** `c-sqs`: β₁: First threshold of a session; less likely tokens are left out. */
  initialThreshold?: number | undefined;
  /** `dssd`, `sampled`: m: Samples that the server sends after a rejection. */
  downlinkSamples?: number | undefined;
  /** `ahead`: Guesses sent together; 0 chooses group, patience and lead by measurement. */
  groupSize?: number | undefined;
  /** `ahead`: Milliseconds that a pass of the server waits for a guess; 0 never waits. */
  patience?: number | undefined;
  /** `ahead`: Most guesses ahead of the text; 0 takes as many as pay. A lead equal to the group, with patience, is a round. */
  lead?: number | undefined;
  /** `ahead`: Guesses at the same token, the best and the second best; 0 takes as many as pay. */
  candidates?: number | undefined;
  /** `fixed`, `odld`: γ: Tokens drafted in a round; 4, or 1 with the gate sprinter if not given. */
  draftLength?: number | undefined;
  /** `none`: Rounds that may await their verdict at a time; the server has a limit of its own. With more than 1, the next rounds are drafted while the server verifies. That hides the round trip where drafting or verifying takes about as long and most rounds are accepted whole. A rejection discards the later rounds, with their bytes and drafting time, and no bonus token follows a round that is accepted whole, so that a token takes more forward passes of the server. On a short link, or with a draft that is often wrong, 1 is faster. A seed gives another text than with 1, of the same distribution. With a gate it is 1. */
  maxInFlight?: number | undefined;
  /** `auto`, `qs`, `k-sqs`, `c-sqs`: B: Most payload bits in a round; 0 is no budget. If not one draft fits, none is made. */
  bitBudget?: number | undefined;
}

/** The numbers whose default is no fixed number. */
export type UnsetOption = 'seed' | 'draftTemperature' | 'draftLength';

/** The options that are numbers, in the order of the page. */
export const numbers: Readonly<Record<keyof NumberOptions, NumberDescription>> = {
  temperature: { label: "Temperature", symbol: "", explanation: "0 is greedy: always the most likely token", group: 'sampling', default: 0.7, range: { min: 0, max: 5, integer: false }, step: 0.1 },
  topP: { label: "Top-p", symbol: "", explanation: "Keeps the fewest most likely tokens whose probabilities reach this; 1 is off", group: 'sampling', default: 0.95, range: { min: 0.01, max: 1, integer: false }, step: 0.05 },
  topK: { label: "Top-k", symbol: "", explanation: "Keeps the k most likely tokens; 0 is off", group: 'sampling', default: 0, range: { min: 0, max: 1000000, integer: true }, step: 1 },
  seed: { label: "Seed", symbol: "", explanation: "Equal seeds and options repeat a generation, except where a session has learned", group: 'sampling', default: null, unset: "a random one", range: { min: 0, max: 4294967295, integer: true }, step: 1 },
  maxNewTokens: { label: "Max new tokens", symbol: "", explanation: "Most tokens to generate", group: 'sampling', default: 128, range: { min: 1, max: 65536, integer: true }, step: 1 },
  draftTemperature: { label: "Draft temperature", symbol: "", explanation: "Temperature of the draft model alone; 0 always drafts its most likely token", group: 'drafting', default: null, unset: "the target's", range: { min: 0, max: 5, integer: false }, step: 0.1 },
  supportSize: { label: "Support size", symbol: "K", explanation: "Tokens kept of each draft distribution", group: 'drafting', default: 32, range: { min: 1, max: 2048, integer: true }, step: 1 },
  latticeResolution: { label: "Lattice resolution", symbol: "ℓ", explanation: "Probabilities are sent in steps of 1/ℓ", group: 'drafting', default: 100, range: { min: 1, max: 65536, integer: true }, step: 1 },
  droppedMassTarget: { label: "Dropped mass", symbol: "α", explanation: "Intended mean probability of the tokens left out", group: 'drafting', default: 0.0005, range: { min: 0, max: 1, integer: false, excluded: 'max' }, step: 0.0005 },
  stepSize: { label: "Step size", symbol: "η", explanation: "Step of the threshold per token; 0 keeps it fixed", group: 'drafting', default: 0.001, range: { min: 0, max: 10, integer: false }, step: 0.001 },
  initialThreshold: { label: "First threshold", symbol: "β₁", explanation: "First threshold of a session; less likely tokens are left out", group: 'drafting', default: 0.01, range: { min: 0, max: 1, integer: false }, step: 0.001 },
  downlinkSamples: { label: "Samples", symbol: "m", explanation: "Samples that the server sends after a rejection", group: 'drafting', default: 4, range: { min: 1, max: 64, integer: true }, step: 1 },
  groupSize: { label: "Group", symbol: "", explanation: "Guesses sent together; 0 chooses group, patience and lead by measurement", group: 'drafting', default: 0, range: { min: 0, max: 64, integer: true }, step: 1 },
  patience: { label: "Patience, ms", symbol: "", explanation: "Milliseconds that a pass of the server waits for a guess; 0 never waits", group: 'drafting', default: 0, range: { min: 0, max: 2000, integer: false }, step: 5 },
  lead: { label: "Lead", symbol: "", explanation: "Most guesses ahead of the text; 0 takes as many as pay. A lead equal to the group, with patience, is a round", group: 'drafting', default: 0, range: { min: 0, max: 64, integer: true }, step: 1 },
  candidates: { label: "Candidates", symbol: "", explanation: "Guesses at the same token, the best and the second best; 0 takes as many as pay", group: 'drafting', default: 0, range: { min: 0, max: 2, integer: true }, step: 1 },
  draftLength: { label: "Draft length", symbol: "γ", explanation: "Tokens drafted in a round", group: 'rounds', default: null, unset: "4, or 1 with the gate sprinter", range: { min: 1, max: 64, integer: true }, step: 1 },
  maxInFlight: { label: "Rounds in flight", symbol: "", explanation: "Rounds that may await their verdict at a time; the server has a limit of its own", group: 'rounds', default: 1, range: { min: 1, max: 255, integer: true }, step: 1 },
  bitBudget: { label: "Bit budget", symbol: "B", explanation: "Most payload bits in a round; 0 is no budget", group: 'rounds', default: 5000, range: { min: 0, max: 1000000, integer: true }, step: 100 },
};

/** The options that are names, in the order of the page. */
export const names: Readonly<Record<keyof NameOptions, NameDescription>> = {
  scheme: {
    label: "Scheme",
    explanation: "Data sent for each drafted token",
    lead: "Per token:",
    group: 'drafting',
    default: 'auto',
    parameter: null,
    entries: [
      { name: "auto", label: "Automatic", explanation: "ahead where the text must be the target's own and the server takes guesses, else k-sqs.", source: "Outrider", options: ["code", "supportSize", "latticeResolution", "bitBudget", "goal", "verification"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "ahead", label: "Ahead", explanation: "the token alone, as a guess; the server goes on writing, and neither end waits.", source: "Outrider", options: ["groupSize", "patience", "lead", "candidates", "goal"], parameter: null, lossy: false, head: null, sendsDistributions: false },
      { name: "dense", label: "Dense", explanation: "the token and the probabilities of the whole vocabulary, 16 bits each.", source: "the baseline of Zheng and Yang, Communication-Efficient Collaborative LLM Inference via Distributed Speculative Decoding", options: ["verification"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "qs", label: "QS", explanation: "the token and the probabilities of the whole vocabulary, as multiples of 1/ℓ.", source: "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding, §2", options: ["code", "latticeResolution", "bitBudget", "verification"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "k-sqs", label: "K-SQS", explanation: "the token and the K most probable tokens with their probabilities, as multiples of 1/ℓ.", source: "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding, §2", options: ["code", "supportSize", "latticeResolution", "bitBudget", "verification"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "c-sqs", label: "C-SQS", explanation: "the token and all tokens above an adaptive threshold, with their probabilities, as multiples of 1/ℓ.", source: "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding, §3", options: ["code", "latticeResolution", "droppedMassTarget", "stepSize", "initialThreshold", "bitBudget", "verification"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "tk-slt", label: "TK-SLT", explanation: "the token and the K most probable tokens with their probabilities, 16 bits each.", source: "Zheng and Yang, Communication-Efficient Collaborative LLM Inference via Distributed Speculative Decoding", options: ["supportSize", "verification"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "dssd", label: "DSSD", explanation: "the token and its own probability; after a rejection the server’s probabilities come down.", source: "Ning et al., DSSD: Efficient Edge-Device LLM Deployment and Collaborative Inference via Distributed Split Speculative Decoding", options: ["downlink", "downlinkSamples"], parameter: null, lossy: false, head: null, sendsDistributions: false },
      { name: "coupled", label: "Coupled", explanation: "the token alone; page and server sample with the same noise, so that they mostly agree.", source: "Daliri, Musco, Suresh, Coupling without Communication and Drafter-Invariant Speculative Decoding", options: [], parameter: null, lossy: false, head: null, sendsDistributions: false },
    ],
  },
  code: {
    label: "Code",
    explanation: "Code of distributions on a lattice",
    lead: "Written as:",
    group: 'drafting',
    default: 'enumerative',
    parameter: null,
    entries: [
      { name: "enumerative", label: "Enumerative", explanation: "the index of the support and of the counts among all possible ones, in whole bits.", source: "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding", options: [], parameter: null, lossy: false, head: null },
      { name: "adaptive", label: "Adaptive", explanation: "an arithmetic code, whose model both ends learn from the text so far.", source: "Outrider", options: [], parameter: null, lossy: false, head: null },
    ],
  },
  downlink: {
    label: "After a rejection",
    explanation: "Data that the server sends after a rejection",
    lead: "Coming down:",
    group: 'drafting',
    default: 'sampled',
    parameter: null,
    entries: [
      { name: "full", label: "All probabilities", explanation: "the server’s probabilities of the whole vocabulary, 32 bits each.", source: "Ning et al., DSSD: Efficient Edge-Device LLM Deployment and Collaborative Inference via Distributed Split Speculative Decoding", options: [], parameter: null, lossy: false, head: null },
      { name: "sampled", label: "A few samples", explanation: "m samples from the server with their probabilities; all probabilities only if the page can keep no sample.", source: "Outrider", options: ["downlinkSamples"], parameter: null, lossy: false, head: null },
    ],
  },
  rule: {
    label: "Acceptance rule",
    explanation: "Acceptance rule by which the server judges drafts",
    lead: "",
    group: 'verification',
    default: 'exact',
    parameter: { option: 'ruleParameter', label: "Parameter" },
    entries: [
      { name: "exact", label: "exact", explanation: "The text is distributed as the target model’s own.", source: "Leviathan et al. 2023; Chen et al. 2023", options: [], parameter: null, lossy: false, head: null, hasBonus: true },
      { name: "lossy", label: "lossy", explanation: "Drafts are accepted 1/(1 − α) times as often as under the exact rule, up to always.", source: "Tran-Thien 2023, An Optimal Lossy Variant of Speculative Decoding; with β = 1 as by Zhou et al. 2024", options: [], parameter: { symbol: "α", default: 0.3, range: { min: 0, max: 1, integer: false, excluded: 'max' } }, lossy: true, head: null, hasBonus: false },
      { name: "lossy-tuned", label: "lossy-tuned", explanation: "As lossy, with the tokens that replace drafts tuned so that the text has a distribution of the same form.", source: "Tran-Thien 2023, An Optimal Lossy Variant of Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.3, range: { min: 0, max: 1, integer: false, excluded: 'max' } }, lossy: true, head: null, hasBonus: false },
      { name: "chow", label: "chow", explanation: "Draft where the draft model is sure: its most likely token has at least 1 − α.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.3, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "chow-log", label: "chow-log", explanation: "Draft where the draft model is sure: its entropy is at most α nats.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 1, range: { min: 0, max: Infinity, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "diff", label: "diff", explanation: "Draft unless the target is surer: its most likely token has over α more than the draft model's.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.1, range: { min: -1, max: 1, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "diff-log", label: "diff-log", explanation: "Draft unless the target is surer: its entropy is over α nats below the draft model's.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.3, range: { min: -Infinity, max: Infinity, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "opt", label: "opt", explanation: "As diff, with α times the chance of a rejection: the best trade of quality for rejections.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.3, range: { min: -Infinity, max: Infinity, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "opt-log", label: "opt-log", explanation: "As diff-log, with α times the chance of a rejection: the best trade of log-loss for rejections.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.5, range: { min: -Infinity, max: Infinity, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "token-v1", label: "token-v1", explanation: "Keep the tokens that the draft model gives at least what the target gives its best one, less α.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.3, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "token-v2", label: "token-v2", explanation: "Keep the tokens that the target gives at least what it gives its best one, less α.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.3, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "token-v3", label: "token-v3", explanation: "Keep the tokens that the target gives at least 1 − α times what it gives its best one.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.3, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "bild-star", label: "bild-star", explanation: "Draft where the target's log-loss on the draft model's distribution is at most α nats. Needs the scheme dense, or temperature 0.", source: "Kim et al. 2023, Speculative Decoding with Big Little Decoder; as varied by Narasimhan et al., App. F.5", options: [], parameter: { symbol: "α", default: 3, range: { min: 0, max: Infinity, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "bild", label: "bild", explanation: "As bild-star, but drafts beyond α nats are always rejected, and a token of the target follows the last. Needs the scheme dense, or temperature 0.", source: "Kim et al. 2023, Speculative Decoding with Big Little Decoder", options: [], parameter: { symbol: "α", default: 3, range: { min: 0, max: Infinity, integer: false } }, lossy: true, head: null, hasBonus: true },
      { name: "mentored", label: "mentored", explanation: "As many drafts are accepted as possible while the text’s distribution is within D nats of the target’s.", source: "Tran-Thien 2023, An Optimal Lossy Variant of Speculative Decoding", options: [], parameter: { symbol: "D", default: 0.1, range: { min: 0, max: Infinity, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "oracle-diff", label: "oracle-diff", explanation: "As diff, but drafts where the target is surer are always rejected: the oracle of sequential cascades.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.1, range: { min: -1, max: 1, integer: false } }, lossy: true, head: null, hasBonus: false },
    ],
  },
  gate: {
    label: "Gate",
    explanation: "Gate that commits tokens without asking the server",
    lead: "",
    group: 'verification',
    default: 'none',
    parameter: { option: 'gateThreshold', label: "Threshold" },
    entries: [
      { name: "none", label: "none", explanation: "Every token is verified.", source: "Leviathan et al. 2023", options: ["maxInFlight"], parameter: null, lossy: false, head: null },
      { name: "sprinter", label: "sprinter", explanation: "A token skips verification while a trained head trusts the draft model by τ or more, by default its own τ; the first token below is verified.", source: "Zhong et al., Algorithm 2", options: [], parameter: { symbol: "τ", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: true, head: "gate" },
      { name: "token-cascade", label: "token-cascade", explanation: "A token skips verification where the draft model is sure, its most likely token having at least 1 − α; elsewhere, and after ten such tokens, the target writes it.", source: "Narasimhan et al., Algorithm 2 with eq. 2", options: [], parameter: { symbol: "α", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null },
      { name: "sequence-cascade", label: "sequence-cascade", explanation: "The draft model writes the whole text, which is kept if the geometric mean of its tokens’ probabilities is at least 1 − α; otherwise the target writes it again.", source: "Narasimhan et al., eq. 1", options: [], parameter: { symbol: "α", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null },
      { name: "sequence-product", label: "sequence-product", explanation: "As sequence-cascade, by the product of the probabilities, which falls with every token.", source: "Narasimhan et al., eq. 1", options: [], parameter: { symbol: "α", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null },
    ],
  },
  stopRule: {
    label: "Stop rule",
    explanation: "Stop rule that ends a round",
    lead: "",
    group: 'rounds',
    default: 'fixed',
    parameter: { option: 'stopThreshold', label: "Threshold" },
    entries: [
      { name: "fixed", label: "fixed", explanation: "A round has γ drafts.", source: "Leviathan et al. 2023", options: ["draftLength"], parameter: null, lossy: false, head: null },
      { name: "odld", label: "odld", explanation: "A round has γ* drafts, the best length for the measured acceptance rate and times.", source: "Zheng and Yang, Algorithm 1", options: ["draftLength"], parameter: null, lossy: false, head: null },
      { name: "adaedl", label: "adaedl", explanation: "A round ends with a draft whose acceptance bound, from the draft model’s entropy, is below λ.", source: "Agrawal, Jeon, Lee 2024", options: [], parameter: { symbol: "λ", default: 0.2, range: { min: 0, max: 1, integer: false } }, lossy: false, head: null },
      { name: "specdec", label: "specdec", explanation: "A round ends when a trained head predicts a rejection with a probability above h.", source: "Huang, Guo, Wang 2024", options: [], parameter: { symbol: "h", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: false, head: "stop" },
      { name: "bild", label: "bild", explanation: "A round ends before a token of which the draft model is unsure, its most likely token having less than 1 − α; the target writes it.", source: "Kim et al. 2023", options: [], parameter: { symbol: "α", default: 0.8, range: { min: 0, max: 1, integer: false } }, lossy: false, head: null },
    ],
  },
  goal: {
    label: "Ahead for",
    explanation: "Goal of drafting ahead",
    lead: "Aims at:",
    group: 'drafting',
    default: 'speed',
    parameter: null,
    entries: [
      { name: "speed", label: "Speed", explanation: "the most tokens per second.", source: "Outrider", options: [], parameter: null, lossy: false, head: null },
      { name: "passes", label: "Fewest passes", explanation: "the fewest forward passes of the server among the modes that are no slower than the server alone.", source: "Outrider", options: [], parameter: null, lossy: false, head: null },
    ],
  },
  verification: {
    label: "Verification",
    explanation: "Choice of the accepted drafts of a round",
    lead: "Accepted are:",
    group: 'verification',
    default: 'block',
    parameter: null,
    entries: [
      { name: "token", label: "Token by token", explanation: "one draft after the other, up to the first rejected one, as in the papers.", source: "Leviathan et al. 2023; Chen et al. 2023", options: [], parameter: null, lossy: false, head: null },
      { name: "block", label: "As a block", explanation: "the drafts together, of which at least as many are accepted on average; where no draft distribution is sent and under the rules bild and oracle-diff, token by token.", source: "Sun et al. 2024, Block Verification Accelerates Speculative Decoding", options: [], parameter: null, lossy: false, head: null },
    ],
  },
};
