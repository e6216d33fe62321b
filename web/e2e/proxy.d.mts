export declare class Proxy {
  readonly url: string;
  readonly received: Map<string, number>;
  readonly requests: { path: string; range: string | null }[];
  static before(url: string, link?: { bitsPerSecond?: number; roundTripMs?: number }): Promise<Proxy>;
  cutAfter(path: string, bytes: number, downMs?: number): void;
  readonly isDown: boolean;
  restore(): void;
  bytes(fits: (path: string) => boolean): number;
  cut(): void;
  swallow(): void;
  close(): void;
  [Symbol.dispose](): void;
}
