// Origins of tokens in words. No DOM.

import type { Origin } from '../outrider/index.js';

export const origins: Readonly<Record<Origin, { name: string; meaning: string }>> = {
  accepted: { name: 'Accepted', meaning: 'drafted here, accepted by the server' },
  passed: { name: 'Passed', meaning: 'written here, never verified' },
  resampled: { name: 'Resampled', meaning: 'the server’s, for a rejected draft' },
  bonus: { name: 'Bonus', meaning: 'the server’s, nothing was rejected' },
  late: { name: 'Late', meaning: 'the server’s, guessed here too late' },
  cloud: { name: 'Cloud', meaning: 'written by the server alone' },
};
