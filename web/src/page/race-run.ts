// The race: three ways to one text in turn, three times over. At once they would take the processor from each other.

import { openLink } from '../outrider/index.js';
import type { Link, Outrider, Token } from '../outrider/index.js';
import { defaultPolicies } from './policies.js';
import type { RaceView } from './race-view.js';
import { lanes, REPETITIONS } from './race.js';
import type { Lane } from './race.js';
import type { Runner, Task } from './runner.js';
import { complain, report } from './stage.js';

/** Tokens that are written before the race to warm up. */
const WARM_UP = 12;

/** The settings that all lanes share. */
export type RaceTask = Pick<Task, 'prompt' | 'values' | 'choices'>;

function taskOf({ mode, scheme }: Lane, { prompt, values, choices }: RaceTask): Task {
  const policies = mode === 'speculative' ? defaultPolicies() : null;
  return { prompt, mode, values, choices: { ...choices, scheme }, policies, compares: false };
}

/** @param link the link as it is now */
export async function runRace(
  outrider: Outrider,
  runner: Runner,
  view: RaceView,
  asked: RaceTask,
  link: () => Link,
): Promise<void> {
  view.begin(asked.values.maxNewTokens ?? 1);
  if (!(await warmUp(outrider, runner, view, asked, link))) return;
  const { changes } = runner;
  const takesGuesses = outrider.session.maxGuesses > 0;
  const running = lanes.filter(({ name }) => name !== 'ahead' || takesGuesses);
  if (!takesGuesses) view.skip('ahead', 'This server takes no guesses: it cannot be drafted ahead of.');
  const turns = Array.from({ length: REPETITIONS }, () => running).flat();
  for (const lane of turns) {
    const { name } = lane;
    view.beginRun(name);
    const summary = await runner.run(outrider, taskOf(lane, asked), (round) => view.add(name, round));
    if (!summary || summary.finish === 'cancelled') break;
    view.finish(name, summary);
  }
  view.end(runner.changes !== changes, outrider.session.ownDraws);
}

/**
 * Writes the first tokens on the link as it really is, and counts nothing: both models have then read the prompt, so that
 * no lane pays for it. The distributions that rounds send are drawn from these, since their evidence costs bytes.
 * @returns whether the race can begin
 */
async function warmUp(
  outrider: Outrider,
  runner: Runner,
  view: RaceView,
  asked: RaceTask,
  link: () => Link,
): Promise<boolean> {
  const lane = lanes.find(({ scheme }) => scheme === 'k-sqs');
  if (!lane) return true;
  const most = Math.min(WARM_UP, asked.values.maxNewTokens ?? WARM_UP);
  const task = taskOf(lane, { ...asked, values: { ...asked.values, maxNewTokens: most } });
  const tokens: Token[] = [];
  outrider.setLink(openLink);
  const running = runner.run(outrider, { ...task, evidence: true, counts: false }, (round) => {
    tokens.push(...round.tokens);
  });
  report('Both models read the prompt');
  const summary = await running;
  outrider.setLink(link());
  view.showDistributions(lane.name, tokens);
  // A server may refuse evidence; the first lane meets all other errors, too.
  if (!summary) complain('');
  return summary?.finish !== 'cancelled';
}
