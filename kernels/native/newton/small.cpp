// Newton's method for many small groups, each of which stays on one thread from start to end: its
// rows, its curvature and the factor of that stay in the thread's cache. The steps are as in
// learners/linear/algorithms/newton.py and parts/batch.py, the objective and its violation as in
// learners/linear/problem.py. The curvature is always summed in double.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "../linear/api.h"
#include "../linear/systems/factor.hpp"
#include "../shared/pool.hpp"
#include "../shared/working.hpp"
#include "api.h"
#include "coordinates.hpp"

namespace tusk {
namespace {

constexpr double SUFFICIENT = 1e-4, LEAST_SHRUNK = 0.5, MOST_SHRUNK = 0.1;
constexpr int MOST_TRIALS = 40;
constexpr double NEAR = 0.05; // violation below which the curvature may be reused
constexpr double SLOW = 0.3;  // progress of the violation below which the curvature is renewed
constexpr double ROUNDED_PIVOT = 1e-9, LEAST_DAMPING = 1e-11, MORE_DAMPING = 100;
constexpr double MOST_DAMPING = 1e-3;

// The pass of one of the groups, on the calling thread.
tk_pass pass_of(const tk_pass &all, int64_t g) {
    tk_pass one = all;
    one.groups += g;
    one.n_groups = 1;
    one.threads = 1;
    one.common = 0;
    one.deadline = 0;
    one.positive = all.positive ? all.positive + g : nullptr;
    one.class_weight = all.class_weight ? all.class_weight + 2 * g : nullptr;
    one.parameter = all.parameter ? all.parameter + 2 * g : nullptr;
    return one;
}

// Evaluation at some weights; sums as from tk_gradient, or tk_curvature.
struct Point {
    double objective = 0, violation = 0, slack = 0;
    std::vector<double> v, gradient, sums;
};

// The descent of one group. Its buffers serve one group after another.
class Descent {
public:
    Descent(const tk_pass *pass, const tk_newton *newton)
        : all_(*pass), how_(*newton), d_(pass->groups[0].dim), p_(d_ + 1), w_(p_), step_(p_),
          hessian_(p_ * (p_ + 1) / 2), damped_(hessian_.size()), factor_(p_) {
        for (Point *point : {&here_, &there_}) {
            point->v.resize(p_);
            point->gradient.resize(p_);
            point->sums.resize(d_ + 3 + hessian_.size());
        }
    }

    // Returns a code.
    int run(int64_t g) {
        one_ = pass_of(all_, g);
        at_ = {.d = d_,
               .shift = how_.shift + g * d_,
               .scale = how_.scale + g * d_,
               .l2 = how_.l2,
               .fit_intercept = one_.fit_intercept != 0,
               .label_size = how_.label_size ? how_.label_size[g] : 1,
               .unit = how_.gradient_unit ? how_.gradient_unit[g] : 1,
               .weight_unit = how_.weight_unit ? how_.weight_unit[g] : 1,
               .of_label = how_.weight_unit != nullptr};
        damping_ = 0;
        violation_before_ = std::numeric_limits<double>::infinity();
        stale_ = false;
        std::copy_n(how_.weights + g * p_, p_, here_.v.begin());
        if (int code = look(here_, true))
            return code;
        take_curvature();
        int64_t done = 0;
        bool stuck = false;
        while (done < how_.most && !(here_.violation <= how_.epsilon) && !past(how_.deadline)) {
            if (int code = iterate(stuck))
                return code;
            if (stuck)
                break;
            how_.history[g * how_.most + done++] = here_.objective;
        }
        std::copy_n(here_.v.begin(), p_, how_.weights + g * p_);
        std::copy_n(here_.gradient.begin(), p_, how_.gradient + g * p_);
        how_.found[3 * g] = here_.objective;
        how_.found[3 * g + 1] = here_.violation;
        how_.found[3 * g + 2] = here_.slack;
        how_.iterations[g] = done;
        how_.stuck[g] = stuck;
        return TK_OK;
    }

private:
    // Makes one step; stuck: no length of it lowers the objective.
    int iterate(bool &stuck) {
        if ((!factored_ || how_.damping > 0) && !factor())
            return TK_CANCELLED;
        factor_.solve(here_.gradient.data(), step_.data());
        double along = 0, by = 1;
        for (int64_t k = 0; k < p_; k++)
            along += here_.gradient[k] * step_[k];
        const bool renew = renews();
        stuck = true;
        for (int trial = 0; trial < MOST_TRIALS && stuck; trial++) {
            for (int64_t k = 0; k < p_; k++)
                there_.v[k] = here_.v[k] - by * step_[k];
            if (int code = look(there_, renew))
                return code;
            const double rise = there_.objective - here_.objective;
            stuck = !(rise <= -SUFFICIENT * by * along + here_.slack);
            if (stuck)
                by *= std::max(shrunk(rise, -by * along), MOST_SHRUNK);
        }
        if (factor_.smallest < ROUNDED_PIVOT && by < 1) {
            // The rows hardly determine some directions, along which the step was too long.
            damping_ = std::min(std::max(MORE_DAMPING * damping_, LEAST_DAMPING), MOST_DAMPING);
            factored_ = false;
        }
        if (stuck)
            return TK_OK;
        std::swap(here_, there_);
        if (renew)
            take_curvature();
        return TK_OK;
    }

    // Whether the curvature is summed at the end of the step; near the optimum it hardly changes.
    bool renews() {
        const double now = here_.violation, before = violation_before_;
        violation_before_ = now;
        if (how_.quadratic)
            return false;
        const bool renew = how_.damping > 0 || now > NEAR || (stale_ && now > SLOW * before);
        stale_ = !renew;
        return renew;
    }

    // For a step by which the objective rose by `rise`, the fraction at a parabola's minimum;
    // promised: by the slope, negative.
    static double shrunk(double rise, double promised) {
        const double bent = rise - promised;
        if (!(std::isfinite(bent) && bent > 0))
            return 0;
        return std::min(-promised / (2 * bent), LEAST_SHRUNK);
    }

    // Evaluates the objective at point.v, with the sums of the curvature if requested.
    int look(Point &point, bool curvature) {
        double *sums = point.sums.data();
        at_.place(point.v.data(), w_.data());
        const int code = curvature ? tk_curvature(&one_, w_.data(), at_.shift, at_.scale, 1, sums)
                                   : tk_gradient(&one_, w_.data(), sums);
        if (code)
            return code;
        const Measured found = at_.measure(point.v.data(), w_.data(), sums, point.gradient.data());
        point.objective = found.objective;
        point.violation = found.violation;
        const double of = std::abs(found.objective), rounding = found.rounding;
        point.slack =
            ROUNDING * of + (how_.quadratic ? std::sqrt(2 * of) * rounding + rounding * rounding
                                            : at_.change(rounding));
        return TK_OK;
    }

    // The curvature of the objective from the sums of here_.
    void take_curvature() {
        const double *sums = here_.sums.data() + d_ + 3, *scale = at_.scale;
        const double n = here_.sums[1];
        for (size_t k = 0; k < hessian_.size(); k++)
            hessian_[k] = sums[k] / n;
        for (int64_t j = 0; j < d_; j++)
            hessian_[diagonal(j)] += how_.l2 * scale[j] * scale[j];
        if (!one_.fit_intercept)
            std::fill(hessian_.end() - p_, hessian_.end(), 0.0);
        factored_ = false;
    }

    static int64_t diagonal(int64_t j) { return j * (j + 1) / 2 + j; }

    // Returns whether nothing cancelled it.
    bool factor() {
        const double *h = hessian_.data();
        const double more = how_.damping * here_.violation * at_.unit / at_.weight_unit;
        if (damping_ > 0 || more > 0) {
            damped_ = hessian_;
            for (int64_t j = 0; j < p_; j++)
                damped_[diagonal(j)] = damped_[diagonal(j)] * (1 + damping_) + more;
            h = damped_.data();
        }
        factored_ = factor_.decompose(h, [&] { return cancelled(one_.cancel_mark); });
        return factored_;
    }

    const tk_pass &all_;
    const tk_newton &how_;
    const int64_t d_, p_;
    tk_pass one_{};
    Coordinates at_{};
    Point here_, there_;
    std::vector<double> w_, step_, hessian_, damped_;
    Factor factor_;
    bool factored_ = false, stale_ = false;
    double damping_ = 0, violation_before_ = 0;
};

} // namespace
} // namespace tusk

int tk_newton_groups(const tk_pass *pass, const tk_newton *newton) {
    using namespace tusk;
    return code_of([&] {
        constexpr int64_t TOGETHER = 8; // groups that share buffers
        const int64_t n = pass->n_groups, p = pass->groups[0].dim + 1;
        const int64_t tasks = (n + TOGETHER - 1) / TOGETHER;
        Counted scratch(std::min<int64_t>(tasks, pass->threads) * 4 * p * p *
                        (int64_t)sizeof(double));
        std::atomic<int> code{TK_OK};
        parallel_for(tasks, pass->threads, [&](int64_t task) {
            Descent descent(pass, newton);
            const int64_t last = std::min(n, (task + 1) * TOGETHER);
            for (int64_t g = task * TOGETHER; g < last && code.load() == TK_OK; g++)
                if (int found = descent.run(g))
                    code.store(found);
        });
        return code.load();
    });
}
