// How the tables of options describe an option. The generated `choices.ts` has these types.

/** The options that are a policy's number. */
export type PolicyParameterOption = 'ruleParameter' | 'gateThreshold' | 'stopThreshold';

/** The parts of the page. */
export type Group = 'sampling' | 'drafting' | 'verification' | 'rounds';

/** The allowed values of an option, bounds included. */
export interface Range {
  min: number;
  max: number;
  integer: boolean;
  /** The bound that is itself not allowed. */
  excluded?: 'max';
}

/** An option that is a number. */
export interface NumberDescription {
  /** Its name for people. */
  label: string;
  /** The papers' letter; empty if it has none. */
  symbol: string;
  /** What it is, as a phrase. */
  explanation: string;
  group: Group;
  /** Null where it hangs on other options. */
  default: number | null;
  /** What is then taken, as a phrase. */
  unset?: string;
  range: Range;
  /** How far an arrow key moves it. */
  step: number;
}

/** An option that is a name. */
export interface NameDescription {
  label: string;
  /** What it decides, as a phrase. */
  explanation: string;
  /** How a sentence on what is chosen begins; empty if entries have sentences of their own. */
  lead: string;
  group: Group;
  default: string;
  /** The option that is the number of what is chosen; null if there is none. */
  parameter: { option: PolicyParameterOption; label: string } | null;
  entries: readonly Policy[];
}

/** A linear head that can be trained on the draft model's hidden states. */
export type Head = 'gate' | 'stop';

/** One of several named ways to do something. */
export interface Policy {
  /** As options and papers have it. */
  name: string;
  /** Its name for people. */
  label: string;
  /** One sentence; of schemes, codes and downlinks what travels, to be put behind a colon. */
  explanation: string;
  /** Where it was first described. */
  source: string;
  /** The options that it reads, of those that not all of its kind read. */
  options: readonly string[];
  /** The number that comes with it; null if none does. */
  parameter: PolicyParameter | null;
  /** Whether the text may be distributed otherwise than the server's model would have it. */
  lossy: boolean;
  /** The head that the draft model must have for it; null if none. */
  head: Head | null;
  /** Of rules: whether the server adds a token after a round in which all drafts are accepted. */
  hasBonus?: boolean;
  /** Of schemes: whether any rule can judge what is sent; otherwise only the exact one can. */
  sendsDistributions?: boolean;
}

/** The number that comes with a policy. */
export interface PolicyParameter {
  /** The papers' letter. */
  symbol: string;
  default: number;
  range: Range;
}
