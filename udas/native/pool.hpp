// Threads for passes over rows, and the flag that ends them early.
#pragma once

#include <cstdint>
#include <functional>

#include "api.h"

namespace tusk {

// What crosses into C is a code, never an exception: only memory can be missing.
template <class Body> int code_of(Body body) noexcept {
    try {
        return body();
    } catch (...) {
        return TK_NO_MEMORY;
    }
}

// Calls body(task) for task = 0 .. n - 1 on up to `threads` threads, the caller's among them, and
// returns when all are done, or throws std::bad_alloc when one threw. Several callers may run at
// once: they share the workers. No worker spins.
void parallel_for(int64_t n, int threads, const std::function<void(int64_t)> &body);

int64_t cancel_count();
inline bool cancelled(int64_t mark) {
    return mark >= 0 && cancel_count() != mark;
}

} // namespace tusk
