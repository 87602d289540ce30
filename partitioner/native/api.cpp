#include "api.h"
#include "merging.hpp"
#include "threads.hpp"

#include <new>

const tusk_pool *tusk::pool = nullptr;

struct tp_merging final : tusk::Merging {
    using Merging::Merging;
};

int tp_open(const int64_t *starts, const int32_t *features, int64_t n_rows, int32_t n_features,
            double seek, double unit, tp_merging **out) {
    try {
        *out = new tp_merging(starts, features, n_rows, n_features, seek, unit);
        return TP_OK;
    } catch (const std::bad_alloc &) {
        return TP_NO_MEMORY;
    }
}

void tp_use_pool(const tusk_pool *pool) {
    tusk::pool = pool;
}

void tp_close(tp_merging *merging) {
    delete merging;
}

int tp_affinities(tp_merging *merging, int32_t begin, int32_t end, int32_t threads) {
    try {
        merging->affinities(begin, end, threads);
        return TP_OK;
    } catch (const std::bad_alloc &) {
        return TP_NO_MEMORY;
    }
}

int tp_merge(tp_merging *merging, int32_t limit, tp_step *steps, int32_t *n_steps) {
    try {
        *n_steps = merging->merge(limit, steps);
        return TP_OK;
    } catch (const std::bad_alloc &) {
        return TP_NO_MEMORY;
    }
}

int32_t tp_partitions(const tp_merging *merging, int32_t *lowest, int32_t *rows, int32_t *sizes,
                      int32_t *matrix) {
    int32_t n = 0;
    for (const int32_t i : merging->partitions()) {
        lowest[n] = i;
        rows[n] = merging->rows(i);
        sizes[n++] = merging->size(i);
        if (matrix != nullptr) {
            for (const int32_t j : merging->partitions()) {
                *matrix++ = i == j ? merging->rows(i) : merging->affinity(i, j);
            }
        }
    }
    return n;
}
