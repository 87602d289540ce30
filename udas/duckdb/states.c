#define _GNU_SOURCE
#include "states.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOOKS 16

/* Reads a word at each of n places. Where there is no memory the system says so, and no signal
 * ends the process. */
static ssize_t look(uint64_t *words, struct iovec *places, int n) {
    struct iovec here = {words, (size_t)n * sizeof *words};
    return process_vm_readv(getpid(), &here, 1, places, (unsigned long)n, 0);
}

/* What is left where the caller is not known. The pointer to a lone state is one of two words
 * among many such pairs, all of one size and one behind the other. So that an array of such words
 * passes for one of states, each of its words must lead to a state alive and begin where a large
 * array may: but then the pairs inside it, which do not, are refused when their own rows come, and
 * with them the statement. Small arrays that begin elsewhere are refused too. */
static bool seem_states(duckdb_aggregate_state *states, idx_t n, size_t alignment) {
    uint64_t words[LOOKS];
    struct iovec places[LOOKS];
    idx_t looks = n < LOOKS ? n : LOOKS;
    if ((uintptr_t)states % alignment)
        return false;
    for (idx_t i = 0; i < looks; i++)
        places[i] = (struct iovec){states + (n - 1) * i / (looks - 1), sizeof *words};
    for (int step = 0; step < 2; step++) { /* first the pointers, then the marks */
        ssize_t got = look(words, places, (int)looks);
        if (got < 0 && errno != EFAULT)
            return true; /* a system that lets nobody look */
        if (got != (ssize_t)(looks * sizeof *words))
            return false;
        for (idx_t i = 0; i < looks; i++)
            places[i].iov_base = (void *)(uintptr_t)words[i];
    }
    for (idx_t i = 0; i < looks; i++)
        if (words[i] != STATE_MARK)
            return false;
    return true;
}

duckdb_aggregate_state *states_of_rows(const call_sites *sites, duckdb_aggregate_state *states,
                                       idx_t n, const void *caller,
                                       duckdb_aggregate_state same[CHUNK_ROWS]) {
    if (n < 2 || !sites->alignment)
        return states;
    enum handing gives = handed_by(sites, caller);
    if (gives == AN_ARRAY)
        return states;
    if (gives == NOT_KNOWN)
        return seem_states(states, n, sites->alignment) ? states : NULL;
    if (n > CHUNK_ROWS)
        return NULL;
    for (idx_t i = 0; i < n; i++)
        same[i] = states[0];
    return same;
}
