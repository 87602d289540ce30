/* A worker as kernels are: acquires chunks of keys, adds to its slot of each, and lets go. */
#include <stdint.h>
#include <stdlib.h>

#include "frames.h"

static uint64_t next(uint64_t *state) { /* xorshift64*, Vigna 2016 */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

/* Weights of a key: from 8 on to some thousands. */
uint32_t width_of(int64_t key) {
    return 8 + (uint32_t)((uint64_t)key * 2654435761u % (key % 16 ? 200 : 9000));
}

/* About one of `gap` keys below n_keys, from a random one on; returns how many. */
static int64_t draw(uint64_t *state, int64_t n_keys, int64_t gap, int64_t most, uint64_t *keys,
                    uint32_t *widths) {
    int64_t n = 0, key = (int64_t)(next(state) % (uint64_t)n_keys);
    for (; n < most && key < n_keys; key += 1 + (int64_t)(next(state) % (uint64_t)(2 * gap)))
        keys[n] = (uint64_t)key, widths[n++] = width_of(key);
    return n;
}

/* Takes keys as `draw` says, and counts in added, of shape (n_keys), what it added to each. Where
 * payloads are delivered, says what it takes next while it holds others. Returns the code of the
 * acquire that failed, or 0. */
int work(const tusk_frame_access *access, int32_t worker, int64_t n_keys, int64_t gap,
         int64_t most, int64_t rounds, int64_t *added) {
    uint64_t *keys[2], state = (uint64_t)worker + 88172645463325252u;
    uint32_t *widths[2];
    for (int i = 0; i < 2; i++) {
        keys[i] = malloc((size_t)most * sizeof **keys);
        widths[i] = malloc((size_t)most * sizeof **widths);
    }
    tusk_frame **frames = malloc((size_t)most * sizeof *frames);
    char error[TUSK_STORE_ERROR] = "";
    int code = 0;
    int64_t n = draw(&state, n_keys, gap, most, keys[0], widths[0]);
    for (int64_t round = 0; round < rounds && !code; round++) {
        const uint64_t *mine = keys[round % 2];
        int other = (round + 1) % 2;
        code = access->acquire(access->frames, worker, mine, widths[round % 2], n, frames, NULL,
                               NULL, error);
        if (code)
            break;
        int64_t n_next = draw(&state, n_keys, gap, most, keys[other], widths[other]);
        if (access->expect && round + 1 < rounds)
            access->expect(access->frames, worker, keys[other], n_next);
        for (int64_t i = 0; i < n; i++) {
            ((float *)frames[i]->weights)[worker] += 1;
            added[mine[i]]++;
        }
        access->release(access->frames, worker, frames, n, 1);
        n = n_next;
    }
    for (int i = 0; i < 2; i++) {
        free(keys[i]);
        free(widths[i]);
    }
    free(frames);
    return code;
}
