// Descents by Newton's steps with curvatures known before the first pass, of many groups at once:
// each goes on independently, so that its rows and numbers stay in a cache. Such a step is that of
// the chord method (Nocedal and Wright, Numerical Optimization, 2006, section 11.1). Changes of
// gradients along the steps correct the curvature, as in L-BFGS (the same, algorithm 7.4). The
// rules are those of learners/linear/algorithms: newton.py, parts/pairs.py and parts/batch.py. A
// group that needs anything else gives up at its current weights: a shorter step, or another
// curvature.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "../linear/api.h"
#include "../linear/systems/factor.hpp"
#include "../shared/pool.hpp"
#include "../shared/segments.hpp"
#include "../shared/working.hpp"
#include "api.h"
#include "coordinates.hpp"

namespace tusk {
namespace {

constexpr double SUFFICIENT = 1e-4;  // least fraction of the decrease that a step promised
constexpr int64_t MOST_PAIRS = 5;    // steps that correct the curvature
constexpr double LEAST_BEND = 1e-10; // relative to the lengths, a product beyond rounding
constexpr double UNKNOWN = std::numeric_limits<double>::quiet_NaN();

double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// The last steps and the changes of the gradient by them: the oldest is dropped.
class Pairs {
public:
    explicit Pairs(int64_t p) : p_(p), numbers_(2 * MOST_PAIRS * p), size_(MOST_PAIRS) {}

    void add(const double *v, const double *v_before, const double *g, const double *g_before) {
        double *s = step(n_), *y = change(n_), step_size = 0, change_size = 0;
        for (int64_t i = 0; i < p_; i++) {
            s[i] = v[i] - v_before[i];
            y[i] = g[i] - g_before[i];
            step_size += s[i] * s[i];
            change_size += y[i] * y[i];
        }
        const double bend = dot(s, y, p_);
        const bool usable = bend > LEAST_BEND * std::sqrt(step_size) * std::sqrt(change_size);
        rate_[(size_t)(n_ % MOST_PAIRS)] = usable ? 1 / bend : 0;
        n_++;
    }

    // Turns the gradient q into the direction; solve(q) applies the curvature alone.
    template <class Solve> void direction(double *q, Solve &&solve) {
        const int64_t first = std::max<int64_t>(0, n_ - MOST_PAIRS);
        for (int64_t k = n_ - 1; k >= first; k--) {
            const double size = size_[(size_t)(k % MOST_PAIRS)] = rate(k) * dot(step(k), q, p_);
            for (int64_t i = 0; i < p_; i++)
                q[i] -= size * change(k)[i];
        }
        solve(q);
        for (int64_t k = first; k < n_; k++) {
            const double more = size_[(size_t)(k % MOST_PAIRS)] - rate(k) * dot(change(k), q, p_);
            for (int64_t i = 0; i < p_; i++)
                q[i] += more * step(k)[i];
        }
    }

private:
    double *step(int64_t k) { return numbers_.data() + 2 * (k % MOST_PAIRS) * p_; }
    double *change(int64_t k) { return step(k) + p_; }
    double rate(int64_t k) const { return rate_[(size_t)(k % MOST_PAIRS)]; }

    const int64_t p_;
    int64_t n_ = 0;
    std::vector<double> numbers_, size_;
    std::array<double, MOST_PAIRS> rate_{};
};

// State of one group.
class Descent {
public:
    Descent(const tk_chord &chord, int64_t group)
        : c_(chord), g_(group), d_(chord.pass->groups[0].dim), p_(d_ + 1),
          at_{.d = d_,
              .shift = chord.shift + group * d_,
              .scale = chord.scale + group * d_,
              .l2 = chord.l2,
              .fit_intercept = chord.pass->fit_intercept != 0,
              .label_size = chord.size ? chord.size[group] : 1,
              .unit = chord.unit ? chord.unit[group] : 1,
              .weight_unit = chord.weight_unit ? chord.weight_unit[group] : 1,
              .of_label = chord.weight_unit != nullptr},
          v_(chord.v + group * p_, chord.v + (group + 1) * p_), weights_(p_), gradient_(p_),
          way_(p_), pairs_(p_) {
        c_.steps[g_] = 0;
        c_.ended[g_] = 0;
        c_.last[g_] = c_.before_violation ? c_.before_violation[g_] : UNKNOWN;
        at_.place(v_.data(), weights_.data());
    }

    int64_t group() const { return g_; }
    const double *weights() const { return weights_.data(); } // in the caller's units

    // Evaluates the rows' sums at the weights, and moves on. Returns whether another pass is
    // needed.
    bool look(const double *sums) {
        measure(sums);
        if (looks_ > 0 && !fell())
            return false;
        take();
        if (!(violation_ <= c_.far) || violation_ <= c_.epsilon) {
            c_.ended[g_] = violation_ <= c_.epsilon;
            return false;
        }
        if (!factor_ && !factorize())
            return false;
        go();
        const double before = c_.last[g_];
        if (violation_ <= c_.enough && violation_ * violation_ <= c_.epsilon * before) {
            std::copy(v_.begin(), v_.end(), c_.v + g_ * p_); // no pass evaluates them
            c_.steps[g_]++;
            c_.ended[g_] = 1;
            return false;
        }
        return !(violation_ > c_.slow * before) && looks_ < c_.most;
    }

private:
    // The objective, its gradient by v and the violation of optimality.
    void measure(const double *sums) {
        const Measured found = at_.measure(v_.data(), weights_.data(), sums, gradient_.data());
        objective_ = found.objective;
        violation_ = found.violation;
        slack_ = ROUNDING * std::fabs(found.objective) + at_.change(found.rounding);
    }

    // Whether the objective fell enough by the last step.
    bool fell() const {
        const double *from = c_.v + g_ * p_, *slope = c_.gradient + g_ * p_;
        double promised = 0;
        for (int64_t i = 0; i < p_; i++)
            promised += (v_[i] - from[i]) * slope[i];
        return objective_ - c_.objective[g_] <= SUFFICIENT * promised + c_.slack[g_];
    }

    // Accepts the measurements, and records the last step as a pair.
    void take() {
        double *v = c_.v + g_ * p_, *gradient = c_.gradient + g_ * p_;
        if (looks_ > 0) {
            pairs_.add(v_.data(), v, gradient_.data(), gradient);
            c_.last[g_] = c_.violation[g_];
            c_.steps[g_]++;
        } else if (!std::isnan(c_.last[g_])) {
            pairs_.add(v_.data(), c_.before + g_ * p_, gradient_.data(),
                       c_.before_gradient + g_ * p_);
        }
        std::copy(v_.begin(), v_.end(), v);
        std::copy(gradient_.begin(), gradient_.end(), gradient);
        c_.objective[g_] = objective_;
        c_.violation[g_] = violation_;
        c_.slack[g_] = slack_;
        c_.history[looks_++ * c_.pass->n_groups + g_] = objective_;
    }

    bool factorize() {
        factor_ = std::make_unique<Factor>(p_);
        factor_->decompose(c_.hessian + g_ * c_.stride, [] { return false; });
        const int64_t used = d_ - std::count(at_.scale, at_.scale + d_, 0.0);
        return factor_->rank == used + (c_.pass->fit_intercept != 0) &&
               factor_->smallest >= c_.pivot;
    }

    // Takes the step.
    void go() {
        way_ = gradient_;
        pairs_.direction(way_.data(), [&](double *q) { factor_->solve(q, q); });
        for (int64_t i = 0; i < p_; i++)
            v_[i] -= way_[i];
        at_.place(v_.data(), weights_.data());
    }

    const tk_chord &c_;
    const int64_t g_, d_, p_;
    const Coordinates at_;
    std::vector<double> v_, weights_, gradient_, way_;
    Pairs pairs_;
    std::unique_ptr<Factor> factor_;
    double objective_ = 0, violation_ = 0, slack_ = 0;
    int64_t looks_ = 0;
};

// A pass over some of the groups of another one.
class Some {
public:
    Some(const tk_pass *pass, const std::vector<std::unique_ptr<Descent>> &those) : pass_(*pass) {
        for (const auto &one : those) {
            const int64_t g = one->group();
            groups_.push_back(pass->groups[g]);
            if (pass->positive)
                positive_.push_back(pass->positive[g]);
            put(class_weight_, pass->class_weight, g);
            put(parameter_, pass->parameter, g);
        }
        pass_.groups = groups_.data();
        pass_.n_groups = (int64_t)groups_.size();
        pass_.positive = pass->positive ? positive_.data() : nullptr;
        pass_.class_weight = pass->class_weight ? class_weight_.data() : nullptr;
        pass_.parameter = pass->parameter ? parameter_.data() : nullptr;
        pass_.threads = 1;
    }
    const tk_pass *pass() const { return &pass_; }

private:
    static void put(std::vector<double> &to, const double *from, int64_t g) {
        if (from)
            to.insert(to.end(), from + 2 * g, from + 2 * g + 2);
    }

    tk_pass pass_;
    std::vector<tusk_group> groups_;
    std::vector<double> positive_, class_weight_, parameter_;
};

// Groups that have rows in common go on together, as long as possible.
int descend(const tk_chord &chord, const int64_t *which, int64_t n) {
    const int64_t p = chord.pass->groups[0].dim + 1;
    std::vector<std::unique_ptr<Descent>> those;
    for (int64_t i = 0; i < n; i++)
        those.push_back(std::make_unique<Descent>(chord, which[i]));
    std::vector<double> weights, sums;
    while (!those.empty()) {
        if (int code = ending(chord.pass->cancel_mark, chord.pass->deadline))
            return code;
        weights.clear();
        for (const auto &one : those)
            weights.insert(weights.end(), one->weights(), one->weights() + p);
        sums.resize(those.size() * (size_t)(p + 2));
        const Some some(chord.pass, those);
        if (int code = tk_gradient(some.pass(), weights.data(), sums.data()))
            return code;
        const double *at = sums.data();
        std::erase_if(those, [&](const auto &one) {
            const bool again = one->look(at);
            at += p + 2;
            return !again;
        });
    }
    return TK_OK;
}

std::vector<const tusk_segment *> segments_of(const tusk_group &group) {
    std::vector<const tusk_segment *> found;
    for (const tusk_segment *s : SegmentsOf(group))
        found.push_back(s);
    std::sort(found.begin(), found.end());
    return found;
}

// Starts of families in `which`, and the end: neighbours that have rows in common.
std::vector<int64_t> families(const tk_chord &chord) {
    std::vector<int64_t> begin;
    std::vector<const tusk_segment *> last;
    for (int64_t i = 0; i < chord.n; i++) {
        bool shares = false;
        if (chord.pass->common) {
            auto own = segments_of(chord.pass->groups[chord.which[i]]);
            shares = std::any_of(own.begin(), own.end(), [&](const tusk_segment *s) {
                return std::binary_search(last.begin(), last.end(), s);
            });
            last = std::move(own);
        }
        if (!shares)
            begin.push_back(i);
    }
    begin.push_back(chord.n);
    return begin;
}

} // namespace
} // namespace tusk

int tk_chord_descend(const tk_chord *chord) {
    return tusk::code_of([&] {
        const auto begin = tusk::families(*chord);
        const int64_t n = (int64_t)begin.size() - 1, p = chord->pass->groups[0].dim + 1;
        int64_t largest = 0;
        for (int64_t i = 0; i < n; i++)
            largest = std::max(largest, begin[(size_t)i + 1] - begin[(size_t)i]);
        const int64_t at_once = std::min<int64_t>(n, chord->pass->threads) * largest;
        const tusk::Counted scratch(at_once * p * (p + 32) * (int64_t)sizeof(double));
        std::atomic<int> code{TK_OK};
        tusk::parallel_for(n, chord->pass->threads, [&](int64_t i) {
            if (code.load(std::memory_order_relaxed))
                return;
            const int64_t first = begin[(size_t)i], last = begin[(size_t)i + 1];
            if (int found = tusk::descend(*chord, chord->which + first, last - first))
                code.store(found, std::memory_order_relaxed);
        });
        return code.load();
    });
}
