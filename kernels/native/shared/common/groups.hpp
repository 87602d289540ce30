// Training of the groups of a batch, each independently.
#pragma once

#include <vector>

#include "../pool.hpp"

namespace tusk {

// Calls run(group, threads) for each of `large` with all threads, then for those of `small`
// concurrently. Returns the first failure code, in the order of groups.
template <class Run>
int train_groups(const tk_pass &pass, const std::vector<int64_t> &large,
                 const std::vector<int64_t> &small, Run run) {
    std::vector<int> codes(pass.n_groups, TK_OK);
    auto one = [&](int64_t g, int threads) {
        if (!cancelled(pass.cancel_mark))
            codes[g] = run(g, threads);
    };
    for (int64_t g : large)
        one(g, pass.threads);
    parallel_for((int64_t)small.size(), pass.threads, [&](int64_t i) { one(small[i], 1); });
    if (cancelled(pass.cancel_mark))
        return TK_CANCELLED;
    for (int code : codes)
        if (code != TK_OK)
            return code;
    return TK_OK;
}

} // namespace tusk
