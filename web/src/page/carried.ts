// Statistics across a reload: the package counts from where a text was resumed, the page shows the whole text. No DOM.

import type { Statistics } from '../outrider/index.js';

/** Statistics that are sums. */
const totals = [
  ...(['tokens', 'passed', 'streamed', 'elapsedMs', 'rounds', 'drafted', 'accepted', 'inTime'] as const),
  ...(['judged', 'wasted', 'resampled', 'uplinkBits', 'downlinkBits', 'serverPasses'] as const),
  ...(['draftMs', 'followUps'] as const),
];

/** Combines the statistics of a text that was written in two parts. Values of the last round are the second part's. */
export function carriedOn<S extends Statistics>(before: Statistics | null, now: S): S {
  if (!before) return now;
  const both: S = { ...now };
  for (const name of totals) (both as Statistics)[name] = before[name] + now[name];
  const ratio = (one: number, other: number): number => (other > 0 ? one / other : 0);
  const perDraft = (name: 'payloadBitsPerDraftedToken' | 'uplinkBitsPerDraftedToken'): number =>
    ratio(before[name] * before.drafted + now[name] * now.drafted, both.drafted);
  return {
    ...both,
    firstTokenMs: before.tokens > 0 ? before.firstTokenMs : now.firstTokenMs,
    tokensPerSecond: ratio(1000 * both.tokens, both.elapsedMs),
    acceptanceRate: ratio(both.accepted, both.judged),
    acceptedPerDrafted: ratio(both.accepted, both.drafted),
    payloadBitsPerDraftedToken: perDraft('payloadBitsPerDraftedToken'),
    uplinkBitsPerDraftedToken: perDraft('uplinkBitsPerDraftedToken'),
    uplinkBitsPerToken: ratio(both.uplinkBits, both.tokens),
    downlinkBitsPerToken: ratio(both.downlinkBits, both.tokens),
    serverPassesPerToken: ratio(both.serverPasses, both.tokens),
    tokensPerRound: ratio(both.tokens - both.passed - both.streamed, both.rounds),
  };
}
