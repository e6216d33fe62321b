// How the tables of options describe an option. The generated `choices.ts` has these types.

/** The options that hold the number of a policy. */
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
  /** The name that people read. */
  label: string;
  /** The papers' letter; empty if it has none. */
  symbol: string;
  /** A phrase that says what the option does. */
  explanation: string;
  group: Group;
  /** The default; null where it depends on other options. */
  default: number | null;
  /** A phrase for the default where it depends on other options. */
  unset?: string;
  range: Range;
  /** The distance that an arrow key moves the value. */
  step: number;
}

/** An option that is a name. */
export interface NameDescription {
  label: string;
  /** A phrase that says what the option decides. */
  explanation: string;
  /** The beginning of a sentence about the chosen entry; empty if entries have whole sentences. */
  lead: string;
  group: Group;
  default: string;
  /** The option for the number of the chosen entry; null if there is none. */
  parameter: { option: PolicyParameterOption; label: string } | null;
  entries: readonly Policy[];
}

/** A linear head that can be trained on the draft model's hidden states. */
export type Head = 'gate' | 'stop';

/** One entry of an option that is a name. */
export interface Policy {
  /** The name in options and papers. */
  name: string;
  /** The name that people read. */
  label: string;
  /** One sentence; for schemes, codes and downlinks a phrase that follows a colon. */
  explanation: string;
  /** The paper that first described it. */
  source: string;
  /** Options that this entry reads and others of its kind do not. */
  options: readonly string[];
  /** The number that comes with it; null if none does. */
  parameter: PolicyParameter | null;
  /** True if the text may not be distributed as the server's model's own. */
  lossy: boolean;
  /** The trained head that the draft model needs; null if none. */
  head: Head | null;
  /** For rules: true if the server adds a token after a round in which all drafts are accepted. */
  hasBonus?: boolean;
  /** For schemes: true if any rule can judge what is sent, not only the exact one. */
  sendsDistributions?: boolean;
}

/** The number that comes with a policy. */
export interface PolicyParameter {
  /** The letter that the papers use. */
  symbol: string;
  default: number;
  range: Range;
}
