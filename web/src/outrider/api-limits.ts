// Limits of the server's API that its sessions do not have.

/** Largest number of most likely tokens that are kept. */
export const MOST_TOP_K = 2 ** 32 - 1;
/** Highest temperature. */
export const HOTTEST = 2;
/** Most strings that stop a text. */
export const MOST_STOPS = 4;
/** Most bytes of such a string. */
export const LONGEST_STOP = 256;
