// Payloads of some keys in one array in plain memory, with the interface of a store, to try step
// sizes without changing the store.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "../shared/pool.hpp"
#include "api.h"

struct tk_scratch {
    std::vector<uint64_t> keys;
    std::vector<tusk_frame> frames;
    std::unique_ptr<char, decltype(&std::free)> memory{nullptr, std::free};
    size_t bytes = 0;
    tusk_frame_access access{};
};

namespace tusk {
namespace {

constexpr size_t LINE = 64;

size_t payload_bytes(uint32_t width, int32_t weight_size) {
    return ((size_t)width * weight_size + LINE - 1) / LINE * LINE;
}

// The first key from `at` on that is not below `key`. It is usually near `at`, so we gallop.
using Keys = std::vector<uint64_t>::const_iterator;
Keys first_from(Keys at, Keys end, uint64_t key) {
    for (ptrdiff_t step = 1; step < end - at && at[step] < key; step *= 2)
        at += step;
    return std::lower_bound(at, end, key);
}

int acquire(tusk_frames *frames, int32_t, const uint64_t *keys, const uint32_t *, int64_t n,
            tusk_frame **out, int (*)(void *), void *, char *error) {
    auto *scratch = (tk_scratch *)frames;
    Keys at = scratch->keys.begin(), end = scratch->keys.end();
    for (int64_t i = 0; i < n; i++) {
        at = first_from(at, end, keys[i]);
        if (at == end || *at != keys[i]) {
            std::snprintf(error, TUSK_STORE_ERROR, "key %llu is not among those of the trial",
                          (unsigned long long)keys[i]);
            return TUSK_STORE_FAILED;
        }
        out[i] = &scratch->frames[at - scratch->keys.cbegin()];
    }
    return TUSK_ACQUIRED;
}

void release(tusk_frames *, int32_t, tusk_frame *const *, int64_t, int) {}

} // namespace
} // namespace tusk

using namespace tusk;

int tk_scratch_new(const uint64_t *keys, const uint32_t *widths, int64_t n, int32_t weight_size,
                   tk_scratch **out) {
    return code_of([&] {
        auto scratch = std::make_unique<tk_scratch>();
        scratch->keys.assign(keys, keys + n);
        scratch->frames.resize(n);
        for (int64_t i = 0; i < n; i++)
            scratch->bytes += payload_bytes(widths[i], weight_size);
        scratch->memory.reset((char *)std::aligned_alloc(LINE, std::max(scratch->bytes, LINE)));
        if (!scratch->memory)
            return TK_NO_MEMORY;
        char *at = scratch->memory.get();
        for (int64_t i = 0; i < n; i++) {
            scratch->frames[i] = {at, 0, widths[i]};
            at += payload_bytes(widths[i], weight_size);
        }
        scratch->access = {
            (tusk_frames *)scratch.get(), weight_size, acquire, release, nullptr, nullptr};
        tk_scratch_reset(scratch.get());
        *out = scratch.release();
        return TK_OK;
    });
}

void tk_scratch_free(tk_scratch *scratch) {
    delete scratch;
}

void tk_scratch_reset(tk_scratch *scratch) {
    std::fill_n(scratch->memory.get(), scratch->bytes, 0);
    for (tusk_frame &frame : scratch->frames)
        frame.stamp = 0;
}

const tusk_frame_access *tk_scratch_access(tk_scratch *scratch) {
    return &scratch->access;
}

tusk_frame *tk_scratch_frame(tk_scratch *scratch, int64_t i) {
    return &scratch->frames[i];
}
