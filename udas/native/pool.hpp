// Threads for passes over rows, and the flag that ends them early.
#pragma once

#include <cstdint>
#include <functional>

namespace tusk {

// Calls body(task) for task = 0 .. n - 1 on up to `threads` threads, the caller's among them, and
// returns when all are done. Several callers may run at once: they share the workers. No worker
// spins.
void parallel_for(int64_t n, int threads, const std::function<void(int64_t)> &body);

int64_t cancel_count();
inline bool cancelled(int64_t mark) {
    return mark >= 0 && cancel_count() != mark;
}

} // namespace tusk
