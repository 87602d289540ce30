// Solves Newton's linear systems: many small symmetric systems H step = g.
//
// The method is Cholesky factorization, H = L L'. A coordinate whose pivot vanishes depends on
// those before it, as collinear or constant features do. It is left out, like aliased coefficients
// in R's lm, and the system of the others is solved exactly.
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "../shared/pool.hpp"
#include "../shared/working.hpp"
#include "api.h"

namespace tusk {
namespace {

constexpr double DEPENDENT = 1e-13;
constexpr int64_t LOOK_EVERY =
    256; // entries of a row between checks: at most some million products

struct Factor {
    int64_t p;
    std::vector<double> l; // (p, p), lower triangle
    std::vector<bool> kept;
    int64_t rank = 0;
    double smallest = 1;

    explicit Factor(int64_t size) : p(size), l(size * size), kept(size) {}

    // Factorizes the packed lower triangle. Calls ending() often, and returns false once that is
    // true.
    template <class Ending> bool decompose(const double *h, const Ending &ending) {
        rank = 0;
        smallest = 1;
        for (int64_t j = 0; j < p; j++) {
            const double *row = h + j * (j + 1) / 2;
            double diagonal = row[j];
            for (int64_t k = 0; k < j; k++) {
                if (k % LOOK_EVERY == LOOK_EVERY - 1 && ending())
                    return false;
                double s = row[k];
                for (int64_t i = 0; i < k; i++)
                    s -= l[j * p + i] * l[k * p + i];
                l[j * p + k] = kept[k] ? s / l[k * p + k] : 0;
            }
            double pivot = diagonal;
            for (int64_t k = 0; k < j; k++)
                pivot -= l[j * p + k] * l[j * p + k];
            kept[j] = pivot > DEPENDENT * diagonal && std::isfinite(pivot);
            l[j * p + j] = kept[j] ? std::sqrt(pivot) : 0;
            if (!kept[j]) {
                std::fill_n(l.begin() + j * p, j, 0.0);
                continue;
            }
            rank++;
            smallest = std::min(smallest, pivot / diagonal);
        }
        return true;
    }

    void solve(const double *g, double *step) const {
        for (int64_t j = 0; j < p; j++) {
            double s = g[j];
            for (int64_t k = 0; k < j; k++)
                s -= l[j * p + k] * step[k];
            step[j] = kept[j] ? s / l[j * p + j] : 0;
        }
        for (int64_t j = p - 1; j >= 0; j--) {
            if (!kept[j])
                continue;
            double s = step[j];
            for (int64_t k = j + 1; k < p; k++)
                s -= l[k * p + j] * step[k];
            step[j] = s / l[j * p + j];
        }
    }

    // diag(H^-1)[j] = sum_i (L^-1)[i][j]^2
    void inverse_diagonal(double *out) const {
        std::vector<double> column(p);
        for (int64_t j = 0; j < p; j++) {
            if (!kept[j]) {
                out[j] = std::numeric_limits<double>::quiet_NaN();
                continue;
            }
            double total = 0;
            for (int64_t i = j; i < p; i++) {
                double s = i == j;
                for (int64_t k = j; k < i; k++)
                    s -= l[i * p + k] * column[k];
                column[i] = kept[i] ? s / l[i * p + i] : 0;
                total += column[i] * column[i];
            }
            out[j] = total;
        }
    }
};

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
