/** Longest time that a timer takes. */
const LONGEST_MS = 2 ** 31 - 1;

/** Waits for a promise, or rejects with `late` if it takes longer than `ms` milliseconds. */
export async function within<T>(ms: number, promise: Promise<T>, late: Error): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    // Timers of browsers have no more bits.
    if (ms <= LONGEST_MS) timer = setTimeout(() => reject(late), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
