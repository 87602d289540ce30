// Work on the groups of a batch.
#pragma once

#include <vector>

#include "../shared/pool.hpp"

namespace tusk::topics {

// Calls body(group, threads) for each group: several groups side by side, one by all threads.
// The first code that is none of success, in the order of groups.
template <class Body> int each_group(const tk_pass &pass, int64_t n, Body body) {
    std::vector<int> codes(n);
    bool alone = n == 1;
    parallel_for(n, alone ? 1 : pass.threads, [&](int64_t g) {
        codes[g] = code_of([&] { return body(g, alone ? pass.threads : 1); });
    });
    for (int code : codes)
        if (code != TK_OK)
            return code;
    return TK_OK;
}

} // namespace tusk::topics
