// The options and what there is to choose from. Written from the tables of crate `speculation`; do not edit:
// OUTRIDER_WRITE_TABLES=1 cargo test -p outrider-speculation --test tables

import type { NameDescription, NumberDescription } from './descriptions.js';

/** What is sent of a draft. */
export type Scheme = 'auto' | 'ahead' | 'dense' | 'qs' | 'k-sqs' | 'c-sqs' | 'tk-slt' | 'dssd' | 'coupled';

/** How distributions on a lattice are coded. */
export type Code = 'enumerative' | 'adaptive';

/** What the server sends after a rejection. */
export type Downlink = 'full' | 'sampled';

/** How the server judges drafts. */
export type RuleName = 'exact' | 'lossy' | 'lossy-tuned' | 'chow' | 'chow-log' | 'diff' | 'diff-log' | 'opt' | 'opt-log' | 'token-v1' | 'token-v2' | 'token-v3' | 'bild-star' | 'bild' | 'mentored' | 'oracle-diff';

/** Which tokens are committed without asking the server. */
export type GateName = 'none' | 'sprinter' | 'token-cascade' | 'sequence-cascade' | 'sequence-product';

/** What else ends a round. */
export type StopRuleName = 'fixed' | 'odld' | 'adaedl' | 'specdec' | 'bild';

/** What drafting ahead is for. */
export type Goal = 'speed' | 'passes';

/** The options that are names. */
export interface NameOptions {
  /** What is sent of a draft; `auto` if not given. */
  scheme?: Scheme;
  /** `auto`, `qs`, `k-sqs`, `c-sqs`: How distributions on a lattice are coded; `enumerative` if not given. */
  code?: Code;
  /** `dssd`: What the server sends after a rejection; `sampled` if not given. */
  downlink?: Downlink;
  /** How the server judges drafts; `exact` if not given. */
  rule?: RuleName | (string & {});
  /** Which tokens are committed without asking the server; `none` if not given. */
  gate?: GateName | (string & {});
  /** What else ends a round; `fixed` if not given. */
  stopRule?: StopRuleName | (string & {});
  /** `auto`, `ahead`: What drafting ahead is for; `speed` if not given. */
  goal?: Goal;
}

/** The numbers that come with names, each with ranges and defaults of its own. */
export interface ParameterOptions {
  /** Parameter of `rule`: α of `lossy`, α of `lossy-tuned`, α of `chow`, α of `chow-log`, α of `diff`, α of `diff-log`, α of `opt`, α of `opt-log`, α of `token-v1`, α of `token-v2`, α of `token-v3`, α of `bild-star`, α of `bild`, D of `mentored`, α of `oracle-diff`. */
  ruleParameter?: number;
  /** Threshold of `gate`: τ of `sprinter`, α of `token-cascade`, α of `sequence-cascade`, α of `sequence-product`. */
  gateThreshold?: number;
  /** Threshold of `stopRule`: λ of `adaedl`, h of `specdec`, α of `bild`. */
  stopThreshold?: number;
}

/** The options that are numbers of their own. */
export interface NumberOptions {
  /** 0 is greedy: the most likely token always. */
  temperature?: number;
  /** Keeps the fewest most likely tokens whose probabilities reach this; 1 is off. */
  topP?: number;
  /** Keeps the k most likely tokens; 0 is off. */
  topK?: number;
  /** Equal seeds and options repeat a generation, but for what a session has learned. Later generations of a session go on from what earlier ones have learned: under C-SQS from the threshold, with AdaEDL from its λ. ODLD and AS² go by the times that they measure as well. Where that changes what is drafted the text is another draw, under the exact rule from the same distribution. */
  seed?: number;
  /** Most tokens to generate. */
  maxNewTokens?: number;
  /** Temperature of the draft model alone; 0 drafts its most likely token always; the target's if not given. The target keeps its own. Under the exact rule the text is distributed the same, and more or fewer drafts are accepted; coupled and ahead agree most often at the target's temperature. Other rules mix in what the drafts are drawn from, and tokens that skip verification are drawn from it. */
  draftTemperature?: number;
  /** `auto`, `k-sqs`, `tk-slt`: K: Tokens kept of each draft distribution. */
  supportSize?: number;
  /** `auto`, `qs`, `k-sqs`, `c-sqs`: ℓ: Probabilities are sent in steps of 1/ℓ. */
  latticeResolution?: number;
  /** `c-sqs`: α: Mean probability of the tokens left out that is aimed at. */
  droppedMassTarget?: number;
  /** `c-sqs`: η: How far a token moves the threshold; 0 keeps it where it is. */
  stepSize?: number;
  /** `c-sqs`: β₁: Tokens less likely than the threshold are left out; this is a session's first. */
  initialThreshold?: number;
  /** `dssd`, `sampled`: m: Samples that the server sends after a rejection. */
  downlinkSamples?: number;
  /** `ahead`: Guesses sent together; 0 leaves that, patience and lead to what is measured. */
  groupSize?: number;
  /** `ahead`: Milliseconds that a pass of the server waits for a guess; 0 never waits. */
  patience?: number;
  /** `ahead`: Most guesses ahead of the text; 0 is as many as pay. A lead of the group, with patience, is a round. */
  lead?: number;
  /** `ahead`: Guesses at the same token, the best and the second best; 0 is as many as pay. */
  candidates?: number;
  /** `fixed`, `odld`: γ: Tokens drafted in a round; 4, or 1 with the gate sprinter if not given. */
  draftLength?: number;
  /** `none`: Rounds that may await their verdict at a time; the server has a limit of its own. With more than 1 the next rounds are drafted while the server verifies. That hides the round trip where drafting or verifying takes as long as it and most rounds are accepted whole. Where a draft is rejected the rounds behind it are discarded, with their bytes and the time they took to draft; no bonus token follows a round that is accepted whole, so that a token takes more forward passes of the server. On a short link, or with a draft that is often wrong, 1 is faster. At a seed the text is another than with 1, of the same distribution. 1 with a gate. */
  maxInFlight?: number;
  /** `auto`, `qs`, `k-sqs`, `c-sqs`: B: Most payload bits in a round; 0 is no budget. Where not one draft fits, none is made. */
  bitBudget?: number;
}

/** The numbers that hang on other options if not given. */
export type UnsetOption = 'draftTemperature' | 'draftLength';

/** The options that are numbers, in the order of the page. */
export const numbers: Readonly<Record<keyof NumberOptions, NumberDescription>> = {
  temperature: { label: "Temperature", symbol: "", explanation: "0 is greedy: the most likely token always", group: 'sampling', default: 0.7, range: { min: 0, max: 5, integer: false }, step: 0.1 },
  topP: { label: "Top-p", symbol: "", explanation: "Keeps the fewest most likely tokens whose probabilities reach this; 1 is off", group: 'sampling', default: 0.95, range: { min: 0.01, max: 1, integer: false }, step: 0.05 },
  topK: { label: "Top-k", symbol: "", explanation: "Keeps the k most likely tokens; 0 is off", group: 'sampling', default: 0, range: { min: 0, max: 1000000, integer: true }, step: 1 },
  seed: { label: "Seed", symbol: "", explanation: "Equal seeds and options repeat a generation, but for what a session has learned", group: 'sampling', default: 1, range: { min: 0, max: 4294967295, integer: true }, step: 1 },
  maxNewTokens: { label: "Max new tokens", symbol: "", explanation: "Most tokens to generate", group: 'sampling', default: 128, range: { min: 1, max: 65536, integer: true }, step: 1 },
  draftTemperature: { label: "Draft temperature", symbol: "", explanation: "Temperature of the draft model alone; 0 drafts its most likely token always", group: 'drafting', default: null, unset: "the target's", range: { min: 0, max: 5, integer: false }, step: 0.1 },
  supportSize: { label: "Support size", symbol: "K", explanation: "Tokens kept of each draft distribution", group: 'drafting', default: 32, range: { min: 1, max: 2048, integer: true }, step: 1 },
  latticeResolution: { label: "Lattice resolution", symbol: "ℓ", explanation: "Probabilities are sent in steps of 1/ℓ", group: 'drafting', default: 100, range: { min: 1, max: 65536, integer: true }, step: 1 },
  droppedMassTarget: { label: "Dropped mass", symbol: "α", explanation: "Mean probability of the tokens left out that is aimed at", group: 'drafting', default: 0.0005, range: { min: 0, max: 1, integer: false, excluded: 'max' }, step: 0.0005 },
  stepSize: { label: "Step size", symbol: "η", explanation: "How far a token moves the threshold; 0 keeps it where it is", group: 'drafting', default: 0.001, range: { min: 0, max: 10, integer: false }, step: 0.001 },
  initialThreshold: { label: "First threshold", symbol: "β₁", explanation: "Tokens less likely than the threshold are left out; this is a session's first", group: 'drafting', default: 0.01, range: { min: 0, max: 1, integer: false }, step: 0.001 },
  downlinkSamples: { label: "Samples", symbol: "m", explanation: "Samples that the server sends after a rejection", group: 'drafting', default: 4, range: { min: 1, max: 64, integer: true }, step: 1 },
  groupSize: { label: "Group", symbol: "", explanation: "Guesses sent together; 0 leaves that, patience and lead to what is measured", group: 'drafting', default: 0, range: { min: 0, max: 64, integer: true }, step: 1 },
  patience: { label: "Patience, ms", symbol: "", explanation: "Milliseconds that a pass of the server waits for a guess; 0 never waits", group: 'drafting', default: 0, range: { min: 0, max: 2000, integer: false }, step: 5 },
  lead: { label: "Lead", symbol: "", explanation: "Most guesses ahead of the text; 0 is as many as pay. A lead of the group, with patience, is a round", group: 'drafting', default: 0, range: { min: 0, max: 64, integer: true }, step: 1 },
  candidates: { label: "Candidates", symbol: "", explanation: "Guesses at the same token, the best and the second best; 0 is as many as pay", group: 'drafting', default: 0, range: { min: 0, max: 2, integer: true }, step: 1 },
  draftLength: { label: "Draft length", symbol: "γ", explanation: "Tokens drafted in a round", group: 'rounds', default: null, unset: "4, or 1 with the gate sprinter", range: { min: 1, max: 64, integer: true }, step: 1 },
  maxInFlight: { label: "Rounds in flight", symbol: "", explanation: "Rounds that may await their verdict at a time; the server has a limit of its own", group: 'rounds', default: 1, range: { min: 1, max: 255, integer: true }, step: 1 },
  bitBudget: { label: "Bit budget", symbol: "B", explanation: "Most payload bits in a round; 0 is no budget", group: 'rounds', default: 5000, range: { min: 0, max: 1000000, integer: true }, step: 100 },
};

/** The options that are names, in the order of the page. */
export const names: Readonly<Record<keyof NameOptions, NameDescription>> = {
  scheme: {
    label: "Scheme",
    explanation: "What is sent of a draft",
    lead: "Per token:",
    group: 'drafting',
    default: 'auto',
    parameter: null,
    entries: [
      { name: "auto", label: "Automatic", explanation: "ahead where the text is to be the target's own and the server allows it, else k-sqs.", source: "Outrider", options: ["code", "supportSize", "latticeResolution", "bitBudget", "goal"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "ahead", label: "Ahead", explanation: "the token alone, a guess at the text that the server writes on meanwhile; nobody waits.", source: "Outrider", options: ["groupSize", "patience", "lead", "candidates", "goal"], parameter: null, lossy: false, head: null, sendsDistributions: false },
      { name: "dense", label: "Dense", explanation: "the token and the probabilities of the whole vocabulary, 16 bits each.", source: "the baseline of Zheng and Yang, Communication-Efficient Collaborative LLM Inference via Distributed Speculative Decoding", options: [], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "qs", label: "QS", explanation: "the token and the probabilities of the whole vocabulary, as multiples of 1/ℓ.", source: "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding, §2", options: ["code", "latticeResolution", "bitBudget"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "k-sqs", label: "K-SQS", explanation: "the token and the K most probable tokens with their probabilities, as multiples of 1/ℓ.", source: "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding, §2", options: ["code", "supportSize", "latticeResolution", "bitBudget"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "c-sqs", label: "C-SQS", explanation: "the token and all tokens above a threshold that adapts, with their probabilities, as multiples of 1/ℓ.", source: "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding, §3", options: ["code", "latticeResolution", "droppedMassTarget", "stepSize", "initialThreshold", "bitBudget"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "tk-slt", label: "TK-SLT", explanation: "the token and the K most probable tokens with their probabilities, 16 bits each.", source: "Zheng and Yang, Communication-Efficient Collaborative LLM Inference via Distributed Speculative Decoding", options: ["supportSize"], parameter: null, lossy: false, head: null, sendsDistributions: true },
      { name: "dssd", label: "DSSD", explanation: "the token and its own probability; after a rejection the server’s probabilities come down.", source: "Ning et al., DSSD: Efficient Edge-Device LLM Deployment and Collaborative Inference via Distributed Split Speculative Decoding", options: ["downlink", "downlinkSamples"], parameter: null, lossy: false, head: null, sendsDistributions: false },
      { name: "coupled", label: "Coupled", explanation: "the token alone; page and server sample with the same noise, so that they mostly agree.", source: "Daliri, Musco, Suresh, Coupling without Communication and Drafter-Invariant Speculative Decoding", options: [], parameter: null, lossy: false, head: null, sendsDistributions: false },
    ],
  },
  code: {
    label: "Code",
    explanation: "How distributions on a lattice are coded",
    lead: "Written as:",
    group: 'drafting',
    default: 'enumerative',
    parameter: null,
    entries: [
      { name: "enumerative", label: "Enumerative", explanation: "the number of the support and of the counts among all there can be, in whole bits.", source: "Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding", options: [], parameter: null, lossy: false, head: null },
      { name: "adaptive", label: "Adaptive", explanation: "the same, in an arithmetic code whose model both ends learn from the text so far.", source: "Outrider", options: [], parameter: null, lossy: false, head: null },
    ],
  },
  downlink: {
    label: "After a rejection",
    explanation: "What the server sends after a rejection",
    lead: "Coming down:",
    group: 'drafting',
    default: 'sampled',
    parameter: null,
    entries: [
      { name: "full", label: "All probabilities", explanation: "the server’s probabilities of the whole vocabulary, 32 bits each.", source: "Ning et al., DSSD: Efficient Edge-Device LLM Deployment and Collaborative Inference via Distributed Split Speculative Decoding", options: [], parameter: null, lossy: false, head: null },
      { name: "sampled", label: "A few samples", explanation: "m samples of the server’s with their probabilities; only if the page can keep none of them, all probabilities.", source: "Outrider", options: ["downlinkSamples"], parameter: null, lossy: false, head: null },
    ],
  },
  rule: {
    label: "Acceptance rule",
    explanation: "How the server judges drafts",
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
      { name: "bild", label: "bild", explanation: "As bild-star, but drafts beyond α nats are rejected for certain, and a token of the target follows the last. Needs the scheme dense, or temperature 0.", source: "Kim et al. 2023, Speculative Decoding with Big Little Decoder", options: [], parameter: { symbol: "α", default: 3, range: { min: 0, max: Infinity, integer: false } }, lossy: true, head: null, hasBonus: true },
      { name: "mentored", label: "mentored", explanation: "As many drafts are accepted as possible while the text’s distribution is within D nats of the target’s.", source: "Tran-Thien 2023, An Optimal Lossy Variant of Speculative Decoding", options: [], parameter: { symbol: "D", default: 0.1, range: { min: 0, max: Infinity, integer: false } }, lossy: true, head: null, hasBonus: false },
      { name: "oracle-diff", label: "oracle-diff", explanation: "As diff, but drafts where the target is surer are rejected for certain: the oracle of sequential cascades.", source: "Narasimhan et al., Faster Cascades via Speculative Decoding", options: [], parameter: { symbol: "α", default: 0.1, range: { min: -1, max: 1, integer: false } }, lossy: true, head: null, hasBonus: false },
    ],
  },
  gate: {
    label: "Gate",
    explanation: "Which tokens are committed without asking the server",
    lead: "",
    group: 'verification',
    default: 'none',
    parameter: { option: 'gateThreshold', label: "Threshold" },
    entries: [
      { name: "none", label: "none", explanation: "Every token is verified.", source: "Leviathan et al. 2023", options: ["maxInFlight"], parameter: null, lossy: false, head: null },
      { name: "sprinter", label: "sprinter", explanation: "A token skips verification while a trained head trusts the draft model by τ or more; the first that it does not is verified.", source: "Zhong et al., Algorithm 2", options: [], parameter: { symbol: "τ", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: true, head: "gate" },
      { name: "token-cascade", label: "token-cascade", explanation: "A token skips verification where the draft model is sure, its most likely token having at least 1 − α; elsewhere, and after ten such tokens, the target writes it.", source: "Narasimhan et al., Algorithm 2 with eq. 2", options: [], parameter: { symbol: "α", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null },
      { name: "sequence-cascade", label: "sequence-cascade", explanation: "The draft model writes the whole text, which is kept if the geometric mean of its tokens’ probabilities is at least 1 − α; or else the target writes it anew.", source: "Narasimhan et al., eq. 1", options: [], parameter: { symbol: "α", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null },
      { name: "sequence-product", label: "sequence-product", explanation: "As sequence-cascade, by the product of the probabilities, which falls with every token.", source: "Narasimhan et al., eq. 1", options: [], parameter: { symbol: "α", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: true, head: null },
    ],
  },
  stopRule: {
    label: "Stop rule",
    explanation: "What else ends a round",
    lead: "",
    group: 'rounds',
    default: 'fixed',
    parameter: { option: 'stopThreshold', label: "Threshold" },
    entries: [
      { name: "fixed", label: "fixed", explanation: "A round has γ drafts.", source: "Leviathan et al. 2023", options: ["draftLength"], parameter: null, lossy: false, head: null },
      { name: "odld", label: "odld", explanation: "A round has γ* drafts, the best length for the acceptance and the times as they are measured.", source: "Zheng and Yang, Algorithm 1", options: ["draftLength"], parameter: null, lossy: false, head: null },
      { name: "adaedl", label: "adaedl", explanation: "A round ends with a draft whose acceptance is bounded by less than λ, by the draft model’s entropy.", source: "Agrawal, Jeon, Lee 2024", options: [], parameter: { symbol: "λ", default: 0.2, range: { min: 0, max: 1, integer: false } }, lossy: false, head: null },
      { name: "specdec", label: "specdec", explanation: "A round ends when, as a trained head says, some draft is rejected with a probability above h.", source: "Huang, Guo, Wang 2024", options: [], parameter: { symbol: "h", default: 0.5, range: { min: 0, max: 1, integer: false } }, lossy: false, head: "stop" },
      { name: "bild", label: "bild", explanation: "A round ends before a token of which the draft model is unsure, its most likely token having less than 1 − α; the target writes it.", source: "Kim et al. 2023", options: [], parameter: { symbol: "α", default: 0.8, range: { min: 0, max: 1, integer: false } }, lossy: false, head: null },
    ],
  },
  goal: {
    label: "Ahead for",
    explanation: "What drafting ahead is for",
    lead: "Aims at:",
    group: 'drafting',
    default: 'speed',
    parameter: null,
    entries: [
      { name: "speed", label: "Speed", explanation: "the most tokens per second.", source: "Outrider", options: [], parameter: null, lossy: false, head: null },
      { name: "passes", label: "Fewest passes", explanation: "the fewest forward passes of the server among the ways that are no slower than the server alone.", source: "Outrider", options: [], parameter: null, lossy: false, head: null },
    ],
  },
};
