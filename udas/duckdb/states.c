/* Are the states of a chunk there? */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "door.h"

#define LOOKS 16

/* Reads a word at each of n places. Where there is no memory the system says so, and no signal
 * ends the process. */
static ssize_t look(uint64_t *words, struct iovec *places, int n) {
    struct iovec here = {words, (size_t)n * sizeof *words};
    return process_vm_readv(getpid(), &here, 1, places, (unsigned long)n, 0);
}

bool states_given(duckdb_aggregate_state *states, idx_t n) {
    uint64_t words[LOOKS];
    struct iovec places[LOOKS];
    idx_t looks = n < LOOKS ? n : LOOKS;
    if (looks < 2)
        return true;
    if ((uintptr_t)states % 16) /* as no allocation of two pointers is */
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
