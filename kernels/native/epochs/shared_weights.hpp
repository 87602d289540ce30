// Weights that several threads read and write without a lock. Relaxed atomics avoid data races and
// compile to plain moves.
#pragma once

#include <atomic>

namespace tusk {

template <class W> inline W read_shared(W &x) {
    return std::atomic_ref<W>(x).load(std::memory_order_relaxed);
}
template <class W> inline void write_shared(W &x, W v) {
    std::atomic_ref<W>(x).store(v, std::memory_order_relaxed);
}

} // namespace tusk
