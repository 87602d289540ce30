// Many concurrent short runs of a file: a disk answers several requests in the time of one.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "../leveldb/store.hpp"
#include "api.h"
#include "routes.hpp"

namespace tusk {
namespace {

struct Runs {
    const ks_runs &given;
    std::vector<std::size_t> first; // offset of each run in memory
    std::atomic<int64_t> next{0};
    std::atomic<bool> failed{false};

    explicit Runs(const ks_runs &g) : given(g), first(static_cast<std::size_t>(g.n) + 1) {
        for (int64_t k = 0; k < g.n; k++)
            first[static_cast<std::size_t>(k) + 1] =
                first[static_cast<std::size_t>(k)] + static_cast<std::size_t>(g.bytes[k]);
    }

    bool move(int64_t k, char *error) const {
        char *data = static_cast<char *>(given.data) + first[static_cast<std::size_t>(k)];
        auto size = static_cast<std::size_t>(given.bytes[k]);
        return given.writes ? write_at(given.file, data, size, given.at[k], error)
                            : read_at(given.file, data, size, given.at[k], error);
    }

    // Processes one run after the other; `error` is that of the first failure.
    void work(char *error) {
        char mine[KS_ERROR];
        for (int64_t k; !failed && (k = next++) < given.n;)
            if (!move(k, mine) && !failed.exchange(true))
                std::copy(mine, mine + KS_ERROR, error);
    }
};

} // namespace
} // namespace tusk

int ks_move_runs(const ks_runs *given, char *error) {
    return tusk::guarded(
        [&] {
            tusk::Runs runs(*given);
            std::vector<std::thread> others;
            {
                tusk::SignalsBlocked blocked; // threads inherit this
                auto wanted = std::min<int64_t>(given->threads, given->n) - 1;
                try {
                    for (int64_t k = 0; k < wanted; k++)
                        others.emplace_back([&] { runs.work(error); });
                } catch (...) { // go on with the threads started so far
                }
            }
            runs.work(error);
            for (auto &thread : others)
                thread.join();
            return runs.failed ? KS_FAILED : KS_OK;
        },
        error);
}
