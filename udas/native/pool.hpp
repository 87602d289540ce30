// Threads for passes over rows, and the flag that ends them early.
#pragma once

#include <chrono>
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

// Whether a time of the monotonic clock, in seconds, has passed; 0: never.
inline bool past(double deadline) {
    using namespace std::chrono;
    return deadline > 0 &&
           duration<double>(steady_clock::now().time_since_epoch()).count() >= deadline;
}

// TK_OK while work may go on.
inline int ending(int64_t mark, double deadline) {
    return cancelled(mark) ? TK_CANCELLED : past(deadline) ? TK_OUT_OF_TIME : TK_OK;
}

} // namespace tusk
