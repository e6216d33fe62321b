// The models in words for visitors. No DOM.

/** Names of the models in `/v1/info`. */
export interface ServedModels {
  target: string;
  /** Null if the server has none, and guesses are looked up. */
  draft: string | null;
}

/** A model's name and size for the page. */
export interface NamedModel {
  name: string;
  /** The size of the model in words. */
  size: string;
}

/** The built-in pair (pair/README.md), by the names under which it is served. */
const toys: Readonly<Record<string, string>> = {
  'outrider-draft': '0.9 million parameters',
  'outrider-target': '7 million parameters',
};

/** The cost of a grown target, which its name contains (`cargo xtask pair`). */
export function costOf(target: string): string | null {
  return /-at-the-cost-of-(.+)$/.exec(target)?.[1] ?? null;
}

export function namedTarget({ target }: ServedModels): NamedModel {
  const cost = costOf(target);
  if (cost !== null) return { name: 'toy target, grown', size: `works as hard as one of ${cost} parameters` };
  return { name: nameOf(target), size: toys[target] ?? '' };
}

/** @param bytes the length of its file; null before it is known */
export function namedDraft({ draft }: ServedModels, bytes: string | null): NamedModel {
  if (draft === null) return { name: 'none: guesses are looked up', size: '' };
  const sizes = [toys[draft], bytes === null ? undefined : `${bytes} downloaded`];
  return { name: nameOf(draft), size: sizes.filter((size) => size !== undefined).join(', ') };
}

function nameOf(model: string): string {
  return model in toys ? `toy ${model.replace('outrider-', '')}` : model;
}

/** A sentence on the quality and speed to expect of these models. */
export function modelsSentence({ target, draft }: ServedModels): string {
  const cost = costOf(target);
  if (cost !== null) {
    return (
      'The built-in models are toys, so do not judge the story. This target writes the toy’s text at the cost of a model ' +
      `of ${cost} parameters: the toy itself answers too fast to be helped.`
    );
  }
  if (target in toys) {
    return (
      'The built-in models are toys, so do not judge the story. This target is so small that it ' +
      'answers before a guess can arrive: drafting pays in front of a larger one.'
    );
  }
  const drafter = draft === null ? 'guesses are looked up in the text' : `${draft} drafts for it here`;
  return `The server’s model is ${target}; ${drafter}.`;
}
