/* Are the states of a chunk there? */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "door.h"

#define LOOKS 16
#define SAMPLES 8

/* What two pointers are aligned to, and what an array of a whole vector is, in every allocator
 * that keeps large pieces apart from small ones (DuckDB's on Linux). */
enum { ANY_ARRAY = 16, LARGE_ARRAY = 64 };

/* Learned from vectors that DuckDB allocates as it does its arrays of states. */
static size_t vector_alignment(void) {
    duckdb_data_chunk chunks[SAMPLES];
    duckdb_logical_type type = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    uintptr_t low_bits = 0;
    for (int i = 0; i < SAMPLES; i++) {
        chunks[i] = duckdb_create_data_chunk(&type, 1);
        duckdb_vector v = duckdb_data_chunk_get_vector(chunks[i], 0);
        low_bits |= (uintptr_t)duckdb_vector_get_data(v);
    }
    for (int i = 0; i < SAMPLES; i++)
        duckdb_destroy_data_chunk(&chunks[i]);
    duckdb_destroy_logical_type(&type);
    return low_bits % LARGE_ARRAY ? ANY_ARRAY : LARGE_ARRAY;
}

size_t learn_state_alignment(void) {
    return strncmp(duckdb_library_version(), "v1.", 3) == 0 ? vector_alignment() : 0;
}

/* Reads a word at each of n places. Where there is no memory the system says so, and no signal
 * ends the process. */
static ssize_t look(uint64_t *words, struct iovec *places, int n) {
    struct iovec here = {words, (size_t)n * sizeof *words};
    return process_vm_readv(getpid(), &here, 1, places, (unsigned long)n, 0);
}

/* The pointer to a lone state is one of two words among many such pairs, all of one size and one
 * behind the other. So that an array of such words passes for one of states, each of its words
 * must lead to a state alive and begin where a large array may: but then the pairs inside it,
 * which do not, are refused when their own rows come, and with them the statement. */
bool states_given(const door *d, duckdb_aggregate_state *states, idx_t n) {
    uint64_t words[LOOKS];
    struct iovec places[LOOKS];
    idx_t looks = n < LOOKS ? n : LOOKS;
    if (looks < 2 || !d->state_alignment)
        return true;
    if ((uintptr_t)states % d->state_alignment)
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
