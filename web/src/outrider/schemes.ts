// What may travel with a draft, in words: the one table behind the options, the page and the documentation.

/** What travels up with the drafts; {@link schemes} says what each one is. Under all of them the text is the target's own. */
export type Scheme = 'dense' | 'qs' | 'k-sqs' | 'c-sqs' | 'tk-slt' | 'dssd' | 'coupled';

/** How probabilities on a lattice become bits; see {@link codes}. */
export type Code = 'enumerative' | 'adaptive';

/** What `dssd` sends down after a rejection; see {@link downlinks}. */
export type Downlink = 'full' | 'sampled';

/** The options that some schemes use and others ignore. */
export type SchemeOption =
  | 'code'
  | 'supportSize'
  | 'latticeResolution'
  | 'droppedMassTarget'
  | 'stepSize'
  | 'initialThreshold'
  | 'downlink'
  | 'downlinkSamples';

/** One of several named ways to do something. */
export interface Description {
  /** Its name for people. */
  label: string;
  /** What travels: a sentence to be put behind a colon. */
  travels: string;
  /** Where it was first described. */
  source: string;
}

/** An uplink scheme. */
export interface SchemeDescription extends Description {
  /** The options that it uses, apart from those that every scheme uses. */
  options: readonly SchemeOption[];
}

const sqs =
  'Bhattacharjee et al., Conformal Sparsification for Bandwidth-Efficient Edge-Cloud Speculative Decoding';
const tkSlt =
  'Zheng and Yang, Communication-Efficient Collaborative LLM Inference via Distributed Speculative Decoding';
const dssd =
  'Ning et al., DSSD: Efficient Edge-Device LLM Deployment and Collaborative Inference via Distributed Split Speculative Decoding';
const coupled =
  'Daliri, Musco, Suresh, Coupling without Communication and Drafter-Invariant Speculative Decoding';

/** The uplink schemes, roughly from those that send most to those that send least. */
export const schemes: Readonly<Record<Scheme, SchemeDescription>> = {
  dense: {
    label: 'Dense',
    travels: 'the token and the probabilities of the whole vocabulary, 16 bits each.',
    source: `the baseline of ${tkSlt}`,
    options: [],
  },
  qs: {
    label: 'QS',
    travels: 'the token and the probabilities of the whole vocabulary, as multiples of 1/ℓ.',
    source: `${sqs}, §2`,
    options: ['code', 'latticeResolution'],
  },
  'tk-slt': {
    label: 'TK-SLT',
    travels: 'the token and the K most probable tokens with their probabilities, 16 bits each.',
    source: tkSlt,
    options: ['supportSize'],
  },
  'k-sqs': {
    label: 'K-SQS',
    travels: 'the token and the K most probable tokens with their probabilities, as multiples of 1/ℓ.',
    source: `${sqs}, §2`,
    options: ['code', 'supportSize', 'latticeResolution'],
  },
  'c-sqs': {
    label: 'C-SQS',
    travels:
      'the token and all tokens above a threshold that adapts, with their probabilities, as multiples of 1/ℓ.',
    source: `${sqs}, §3`,
    options: ['code', 'latticeResolution', 'droppedMassTarget', 'stepSize', 'initialThreshold'],
  },
  dssd: {
    label: 'DSSD',
    travels: 'the token and its own probability; after a rejection the server’s probabilities come down.',
    source: dssd,
    options: ['downlink', 'downlinkSamples'],
  },
  coupled: {
    label: 'Coupled',
    travels: 'the token alone; page and server sample with the same noise, so that they mostly agree.',
    source: coupled,
    options: [],
  },
};

/** How probabilities on a lattice become bits. */
export const codes: Readonly<Record<Code, Description>> = {
  enumerative: {
    label: 'Enumerative',
    travels: 'the number of the support and of the counts among all there can be, in whole bits.',
    source: sqs,
  },
  adaptive: {
    label: 'Adaptive',
    travels: 'the same, in an arithmetic code whose model both ends learn from the text so far.',
    source: 'Outrider',
  },
};

/** What `dssd` sends down after a rejection. */
export const downlinks: Readonly<Record<Downlink, Description>> = {
  full: {
    label: 'All probabilities',
    travels: 'the server’s probabilities of the whole vocabulary, 32 bits each.',
    source: dssd,
  },
  sampled: {
    label: 'A few samples',
    travels:
      'm samples of the server’s with their probabilities; only if the page can keep none of them, all probabilities.',
    source: 'Outrider',
  },
};
