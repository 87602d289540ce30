// Runs a loop on the threads of the process's pool.
#pragma once

#include <cstdint>

#include "../../schedule/native/pool.h"

namespace tusk {

extern const tusk_pool *pool; // NULL until Python sets it: the caller's thread does all work

// Calls body(i), which must not throw, for i = begin .. end - 1 on `threads` threads, including
// the caller's.
template <class Body>
void parallel(int32_t begin, int32_t end, int32_t threads, const Body &body) {
    struct Loop {
        int32_t begin;
        const Body &body;
    } loop{begin, body};
    const tusk_task task = [](void *context, int64_t number) {
        const Loop &of = *static_cast<const Loop *>(context);
        of.body(of.begin + (int32_t)number);
        return 0;
    };
    if (pool) {
        pool->run(end - begin, threads, task, &loop);
        return;
    }
    for (int32_t i = begin; i < end; i++)
        body(i);
}

} // namespace tusk
