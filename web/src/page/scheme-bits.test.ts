import { expect, test } from 'vitest';
import type { RoundRecord } from '../outrider/index.js';
import { comparedSchemes, SchemeBits, transferMs } from './scheme-bits.js';

/** A round of `count` drafts; a draft costs 12 bits coupled, 100 under K-SQS, and so on; the frame costs 80. */
function record(count: number, payloadBits: number): RoundRecord {
  return {
    round: 0,
    drafted: Array(count).fill(7),
    accepted: 0,
    token: 7,
    payloadBits,
    uplinkBits: payloadBits + 80,
    downlinkBits: 64,
    draftMs: 1,
    roundTripMs: 2,
    threshold: null,
    otherBits: {
      dense: 65_536 * count,
      qs: 900 * count,
      'k-sqs': 100 * count,
      'k-sqs/adaptive': 60 * count,
      'c-sqs': 80 * count,
      'tk-slt': 650 * count,
      dssd: 28 * count,
      coupled: 12 * count,
    },
  };
}

const costOf = (bits: SchemeBits, scheme: string) => bits.costs.find((cost) => cost.scheme === scheme);

test('eight costs are compared, one of them sent', () => {
  expect(comparedSchemes).toHaveLength(8);
  expect(new Set(comparedSchemes)).toEqual(new Set(Object.keys(record(1, 1).otherBits)));
  for (const code of ['enumerative', 'adaptive'] as const) {
    for (const scheme of ['dense', 'qs', 'k-sqs', 'c-sqs', 'tk-slt', 'dssd', 'coupled'] as const) {
      const sent = new SchemeBits(scheme, code).costs.filter((cost) => cost.sent);
      expect(sent.map((cost) => cost.scheme)).toEqual([
        scheme === 'k-sqs' && code === 'adaptive' ? 'k-sqs/adaptive' : scheme,
      ]);
    }
  }
  expect(new SchemeBits('auto', 'enumerative').sent).toBe('k-sqs');
});

test('bits are those of all rounds, per drafted token and not per round', () => {
  const bits = new SchemeBits('k-sqs', 'enumerative');
  bits.add(record(4, 400));
  bits.add(record(1, 140));
  expect(bits).toMatchObject({ drafted: 5, rounds: 2, label: 'K-SQS' });
  // Sent is what was counted when it was sent, the rest was computed.
  expect(costOf(bits, 'k-sqs')).toMatchObject({ payloadBitsPerDraftedToken: 108, roundBits: 270 + 80 });
  expect(costOf(bits, 'coupled')).toMatchObject({ payloadBitsPerDraftedToken: 12, roundBits: 30 + 80 });
  expect(costOf(bits, 'dense')?.payloadBitsPerDraftedToken).toBe(65_536);
});

test('a code that is in use is named, and takes the place of its scheme', () => {
  const bits = new SchemeBits('c-sqs', 'adaptive');
  bits.add(record(2, 90));
  expect(bits.label).toBe('C-SQS, adaptive');
  expect(costOf(bits, 'c-sqs')).toMatchObject({ label: 'C-SQS, adaptive', sent: true, payloadBitsPerDraftedToken: 45 });
  expect(costOf(bits, 'k-sqs/adaptive')).toMatchObject({ label: 'K-SQS, adaptive', sent: false });
  expect(new SchemeBits('dssd', 'adaptive').label).toBe('DSSD');
});

test('rounds without drafts change nothing, and nothing is no number', () => {
  const bits = new SchemeBits('dense', 'enumerative');
  bits.add(record(0, 0));
  expect(bits.drafted).toBe(0);
  expect(costOf(bits, 'dense')?.payloadBitsPerDraftedToken).toBeNaN();
  bits.add(record(2, 131_072));
  expect(costOf(bits, 'dense')).toMatchObject({ payloadBitsPerDraftedToken: 65_536, roundBits: 131_152 });
});

test('a cost that the engine does not know is no number, the others stand', () => {
  const bits = new SchemeBits('k-sqs', 'enumerative');
  bits.add({ ...record(1, 100), otherBits: { coupled: 12 } });
  expect(costOf(bits, 'qs')?.payloadBitsPerDraftedToken).toBeNaN();
  expect(costOf(bits, 'coupled')?.payloadBitsPerDraftedToken).toBe(12);
});

test('time is bits over rate, and no number without a limit', () => {
  expect(transferMs(20_000, 20_000)).toBe(1_000);
  expect(transferMs(350, 5_000)).toBe(70);
  expect(transferMs(350, null)).toBeNaN();
});
