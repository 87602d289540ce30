// A loop shared out to threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>
#include <vector>

namespace tusk {

// Calls body(i), which must not throw, for i = begin .. end - 1 on `threads` threads, the caller's
// among them. The others start with all signals blocked: a host's handlers run on its own threads.
template <class Body>
void parallel(int32_t begin, int32_t end, int32_t threads, const Body &body) {
    std::atomic<int32_t> next{begin};
    const auto work = [&] {
        for (int32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < end;) {
            body(i);
        }
    };
    std::vector<std::jthread> helpers;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        for (int32_t t = 1; t < std::min(threads, end - begin); ++t) {
            helpers.emplace_back(work);
        }
    } catch (...) { // fewer threads do the same work
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    work();
}

} // namespace tusk
