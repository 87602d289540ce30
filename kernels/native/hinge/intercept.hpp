// The best intercept of the hinge for given weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "../shared/pool.hpp"

namespace tusk {

constexpr int64_t SAMPLED = 1024; // breakpoints in the sample that brackets the best intercept
constexpr int64_t AROUND = 64;    // breakpoints of the sample on each side of its quantile

// Classes and margins of n rows, without intercept. cost: weights of the classes -1 and +1;
// weight: of the rows, NULL: 1.
struct HingeRows {
    const int8_t *sign;
    const double *margin;
    int64_t n;
    const double *cost;
    int64_t cancel_mark;
    const double *weight = nullptr;

    double cost_of(int64_t i) const { return cost[sign[i] > 0] * (weight ? weight[i] : 1); }
};

// Finds the intercept that minimises the sum of the losses for given margins. Row i's loss has its
// corner at the intercept y_i - m_i, where the slope of the sum rises by the row's weight. So the
// best intercept is a weighted quantile of these corners. If there are several, it is the one
// nearest to `b`. A sorted sample brackets it, so that only few corners must be sorted.
class BestIntercept {
public:
    explicit BestIntercept(const HingeRows &rows) : of_(rows), n_(rows.n) {}

    double find(double b) {
        double goal = 0;
        for (int64_t i = 0; i < n_; i++)
            goal += of_.sign[i] > 0 ? of_.cost_of(i) : 0.0;
        auto [from, to] = bracket(goal);
        double found = 0;
        if (among(from, to, goal, b, &found) || among(-HUGE_VAL, HUGE_VAL, goal, b, &found))
            return found;
        return b;
    }

private:
    HingeRows of_;
    int64_t n_;
    std::vector<std::pair<double, double>> near_;

    double place(int64_t i) const { return of_.sign[i] - of_.margin[i]; }

    std::pair<double, double> bracket(double goal) const {
        int64_t step = n_ / SAMPLED;
        if (step < 2)
            return {-HUGE_VAL, HUGE_VAL};
        std::vector<std::pair<double, double>> some;
        double total = 0, whole = 0;
        for (int64_t i = 0; i < n_; i += step) {
            some.emplace_back(place(i), of_.cost_of(i));
            total += of_.cost_of(i);
        }
        for (int64_t i = 0; i < n_; i++)
            whole += of_.cost_of(i);
        std::sort(some.begin(), some.end());
        double below = 0;
        int64_t at = 0, last = (int64_t)some.size() - 1;
        while (at < last && below < goal / whole * total)
            below += some[at++].second;
        return {at > AROUND ? some[at - AROUND].first : -HUGE_VAL,
                at + AROUND < last ? some[at + AROUND].first : HUGE_VAL};
    }

    // Whether the quantile lies between two corners. If so, *found gets the best intercept.
    bool among(double from, double to, double goal, double b, double *found) {
        near_.clear();
        double below = 0;
        for (int64_t i = 0; i < n_; i++) {
            if (i % 65536 == 0 && cancelled(of_.cancel_mark))
                return false;
            double at = place(i);
            if (at < from)
                below += of_.cost_of(i);
            else if (at <= to)
                near_.emplace_back(at, of_.cost_of(i));
        }
        std::sort(near_.begin(), near_.end());
        double slack = 1e-12 * goal;
        if (below > goal - slack && from > -HUGE_VAL)
            return false;
        for (size_t k = 0; k < near_.size(); k++) {
            below += near_[k].second;
            if (below < goal - slack)
                continue;
            bool flat = below <= goal + slack;
            if (flat && k + 1 == near_.size() && to < HUGE_VAL)
                return false;
            double end = flat && k + 1 < near_.size() ? near_[k + 1].first : near_[k].first;
            *found = std::min(std::max(b, near_[k].first), end);
            return true;
        }
        return false;
    }
};

} // namespace tusk
