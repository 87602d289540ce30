// Solves Newton's linear systems: many small symmetric systems H step = g.
#include <algorithm>
#include <atomic>

#include "../newton/factor.hpp"
#include "../shared/pool.hpp"
#include "../shared/working.hpp"
#include "api.h"

namespace tusk {
namespace {

// Solves the systems of groups first .. last - 1. Returns false once ending() is true.
template <class Ending>
bool solve_groups(const tk_system &system, int64_t first, int64_t last, Ending &&ending) {
    Factor factor(system.p);
    for (int64_t g = first; g < last; g++) {
        if (!factor.decompose(system.hessian + g * system.stride, ending))
            return false;
        factor.solve(system.gradient + g * system.p, system.step + g * system.p);
        system.rank[g] = factor.rank;
        system.pivot[g] = factor.smallest;
        if (system.inverse_diagonal)
            factor.inverse_diagonal(system.inverse_diagonal + g * system.p);
    }
    return true;
}

} // namespace
} // namespace tusk

int tk_solve(const tk_system *system) {
    return tusk::code_of([&] {
        std::atomic<int> code{TK_OK};
        auto ending = [&] {
            if (int found = tusk::ending(system->cancel_mark, system->deadline))
                code.store(found, std::memory_order_relaxed);
            return code.load(std::memory_order_relaxed) != TK_OK;
        };
        constexpr int64_t TOGETHER = 64;
        int64_t tasks = (system->n_groups + TOGETHER - 1) / TOGETHER;
        int64_t factors = std::min<int64_t>(tasks, system->threads);
        tusk::Counted scratch(factors * system->p * system->p * (int64_t)sizeof(double));
        tusk::parallel_for(tasks, system->threads, [&](int64_t task) {
            int64_t last = std::min(system->n_groups, (task + 1) * TOGETHER);
            tusk::solve_groups(*system, task * TOGETHER, last, ending);
        });
        return code.load();
    });
}
