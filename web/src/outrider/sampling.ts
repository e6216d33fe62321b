/** Sampling parameters that a server recommends for requests that give none: `sampling` of `/v1/info`. */
export interface Sampling {
  temperature?: number;
  topK?: number;
  topP?: number;
}

/** Sampling parameters of OpenAI's API, for what a server does not recommend. */
const openAis: Required<Sampling> = { temperature: 1, topK: 0, topP: 1 };

/** Sampling defaults of an instance. The server is asked for them once, at the first request that needs them. */
export class SamplingDefaults {
  readonly #ask: () => Promise<Sampling>;
  #known: Promise<Sampling> | null = null;

  constructor(ask: () => Promise<Sampling>) {
    this.#ask = ask;
  }

  /** Takes what the server has said without being asked. */
  set(sampling: Sampling): void {
    this.#known = Promise.resolve(sampling);
  }

  /** Returns the defaults; those of OpenAI's API where the server cannot be asked now. */
  async get(): Promise<Required<Sampling>> {
    const asking = (this.#known ??= this.#ask());
    const known = await asking.catch((): Sampling => {
      // The next request asks again.
      if (this.#known === asking) this.#known = null;
      return {};
    });
    return { ...openAis, ...known };
  }
}
