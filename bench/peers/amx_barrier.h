// Included before every source of llama.cpp where the processor has AMX.
//
// gcc 12 at -O3 drops or delays the writes to a tile configuration before it is loaded, because its intrinsic says to
// read only the first eight bytes; the load then faults. This makes them happen first.

#if defined(__AMX_TILE__)
#include <immintrin.h>
#define _tile_loadconfig(config)                                \
    do {                                                        \
        __asm__ volatile("" : : "r"(config) : "memory");        \
        (_tile_loadconfig)(config);                             \
    } while (0)
#endif
