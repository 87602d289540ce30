// A trial training of the hinge on a few rows for planning: the stages, steps and ends of
// `learners/linear/descent.py`, `algorithms/lbfgs.py`, `algorithms/bgd.py` and `gap.py` for one
// group without row weights. In Python an iteration takes longer than its pass over such rows.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include "../spectrum/api.h"
#include "../spectrum/moves.hpp"
#include "api.h"

namespace tusk {
namespace {

constexpr double REACH = 2;        // as in gap.py
constexpr int64_t SELDOM = 20;     // iterations between two evaluations of a large gap
constexpr int64_t WIDE = 16;       // rows with separate sums
constexpr double ROUNDING = 4e-15; // relative to an objective

double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

class Rows {
public:
    explicit Rows(const tk_tried &given)
        : t_(given), d_(given.p - 1), margin_(given.n), slope_(given.n) {}

    double corner = 1;

    // The smoothed objective and its gradient.
    double look(const Vector &v, Vector &gradient) {
        margins(v);
        const double inverse = 1 / corner;
        double losses[WIDE] = {}, slopes[WIDE] = {};
        blocks([&](int64_t i, int64_t k) {
            const double z = std::max(1 - t_.sign[i] * margin_[i], 0.0);
            const double part = std::min(z, corner);
            losses[k] += part * (z - 0.5 * part); // z^2 / 2g, or z - g / 2 beyond the corner
            slope_[i] = -t_.sign[i] * part * inverse;
            slopes[k] += slope_[i];
        });
        const double share = 1 / (double)t_.n, loss = inverse * sum_of(losses);
        const double sum = sum_of(slopes);
        for (int64_t j = 0; j < d_; j++)
            gradient[j] = share * along(j) + (t_.l2 ? t_.l2[j] * v[j] : 0);
        gradient[d_] = t_.fit_intercept ? share * sum : 0;
        return share * loss + penalty(v);
    }

    // Difference between the objective at v and the bound of its dual variables.
    double gap(const Vector &v) {
        margins(v);
        const double inverse = 1 / corner;
        double sharp[WIDE] = {}, all[WIDE] = {}, signed_[WIDE] = {};
        blocks([&](int64_t i, int64_t k) {
            const double z = std::max(1 - t_.sign[i] * margin_[i], 0.0);
            sharp[k] += z;
            slope_[i] = std::min(z * inverse, 1.0);
            all[k] += slope_[i];
            signed_[k] += t_.sign[i] * slope_[i];
        });
        const double objective = sum_of(sharp) / (double)t_.n + penalty(v);
        const double total = sum_of(all), more = sum_of(signed_);
        const double totals[2] = {0.5 * (total - more), 0.5 * (total + more)};
        raise(v, totals);
        return objective - below_ - ROUNDING * std::max(objective, 1.0);
    }

    // Whether the gap of the smoothed objective is small.
    bool near(const Vector &gradient) const {
        double most = 0, squared = 0;
        for (int64_t j = 0; j < t_.p; j++)
            most = std::max(most, std::abs(gradient[j]));
        if (!t_.l2)
            return most <= t_.epsilon;
        for (int64_t j = 0; j < d_; j++)
            squared += t_.l2[j] > 0 ? gradient[j] * gradient[j] / t_.l2[j] : 0;
        return squared <= t_.epsilon;
    }

private:
    const tk_tried &t_;
    const int64_t d_;
    Vector margin_, slope_;
    double below_ = 0, line_[2] = {};

    // Calls body(i, k) for each row, k consecutive rows at a time.
    template <class Body> void blocks(Body body) const {
        int64_t i = 0;
        for (; i + WIDE <= t_.n; i += WIDE)
            for (int64_t k = 0; k < WIDE; k++)
                body(i + k, k);
        for (; i < t_.n; i++)
            body(i, 0);
    }

    static double sum_of(const double *sums) {
        double sum = 0;
        for (int64_t k = 0; k < WIDE; k++)
            sum += sums[k];
        return sum;
    }

    void margins(const Vector &v) {
        std::fill(margin_.begin(), margin_.end(), v[d_]);
        for (int64_t j = 0; j < d_; j++) {
            const float *__restrict column = t_.z + j * t_.n;
            double *__restrict margin = margin_.data();
            const double by = v[j];
            for (int64_t i = 0; i < t_.n; i++)
                margin[i] += by * column[i];
        }
    }

    // Dot product of the slopes and a feature.
    double along(int64_t j) const {
        const float *column = t_.z + j * t_.n;
        double sums[WIDE] = {};
        blocks([&](int64_t i, int64_t k) { sums[k] += slope_[i] * column[i]; });
        return sum_of(sums);
    }

    double penalty(const Vector &v) const {
        double sum = 0;
        for (int64_t j = 0; t_.l2 && j < d_; j++)
            sum += t_.l2[j] * v[j] * v[j];
        return 0.5 * sum;
    }

    // Raises the bound by the dual variables in slope_, whose sums by class are equalised.
    void raise(const Vector &v, const double *totals) {
        const double least = std::min(totals[0], totals[1]);
        double by[2] = {1, 1};
        for (int k = 0; k < 2 && t_.fit_intercept; k++)
            by[k] = totals[k] > 0 ? least / totals[k] : 0;
        for (int64_t i = 0; i < t_.n; i++)
            slope_[i] *= t_.sign[i] * by[t_.sign[i] > 0];
        const double share = 1 / (double)t_.n;
        const double total = share * (by[0] * totals[0] + by[1] * totals[1]);
        double squared = 0, steepest = 0, size = 0;
        for (int64_t j = 0; j < d_; j++) {
            const double pull = share * along(j);
            steepest = std::max(steepest, std::abs(pull));
            squared += t_.l2 && t_.l2[j] > 0 ? pull * pull / t_.l2[j] : 0;
            size += std::abs(v[j]);
        }
        if (t_.l2) {
            const double part = squared > total ? total / squared : 1;
            below_ = std::max(below_, part * total - part * part * squared / 2);
            return;
        }
        size = REACH * std::max(size, 1.0);
        if (total - size * steepest > line_[0] - size * line_[1]) {
            line_[0] = total;
            line_[1] = steepest;
        }
        below_ = std::max(line_[0] - size * line_[1], 0.0);
    }
};

class Descent {
public:
    Descent(const tk_tried &given, int method, double *weights)
        : t_(given), quasi_(method == TK_QUASI_NEWTON), rows_(given),
          v_(weights, weights + given.p), gradient_(given.p), direction_(given.p),
          before_(given.p), moved_(given.p), changed_(given.p),
          end_(processor_seconds() + given.seconds) {}

    // The number of iterations, or minus it without convergence.
    int64_t run() {
        const int64_t share = std::max<int64_t>(1, t_.most / t_.n_corners);
        bool ended = false;
        for (int64_t k = 0; k < t_.n_corners && !late_; k++) {
            const bool last = k + 1 == t_.n_corners;
            rows_.corner = t_.corners[k];
            const int64_t left = std::max<int64_t>(t_.most - made_, 0);
            ended = stage(last ? left : std::min(share, left), last);
        }
        return ended && !late_ ? made_ : -made_;
    }

    const Vector &weights() const { return v_; }

private:
    const tk_tried &t_;
    const bool quasi_;
    Rows rows_;
    Vector v_, gradient_, direction_, before_, moved_, changed_;
    double objective_ = 0;
    const double end_;
    bool late_ = false;
    int64_t made_ = 0;

    // Runs a stage; returns whether it converged: the last stage by the gap, others by the
    // gradient.
    bool stage(int64_t most, bool last) {
        Moves moves;
        Vector seen;
        double step = rows_.corner / (double)t_.p; // from the gradient's Lipschitz constant
        objective_ = rows_.look(v_, gradient_);
        for (int64_t k = 0;; k++) {
            if (done(k, last))
                return true;
            late_ = processor_seconds() > end_;
            if (k == most || late_)
                return false;
            seen.push_back(objective_);
            const size_t from = seen.size() > LAST ? seen.size() - LAST : 0;
            double allowed = 1e-14 * std::abs(objective_);
            if (quasi_)
                aim(moves, step);
            else
                allowed += *std::max_element(seen.begin() + from, seen.end()) - objective_;
            if (!quasi_)
                for (int64_t j = 0; j < t_.p; j++)
                    direction_[j] = -gradient_[j];
            if (!search(step, allowed))
                return false;
            made_++;
            if (quasi_)
                moves.remember(moved_, changed_);
            else
                step = spectral_step(moved_, changed_, step);
        }
    }

    bool done(int64_t k, bool last) {
        if (last)
            return (rows_.near(gradient_) || k % SELDOM == 0) && rows_.gap(v_) <= t_.epsilon / 2;
        double most = 0;
        for (double one : gradient_)
            most = std::max(most, std::abs(one));
        return most <= t_.epsilon;
    }

    void aim(Moves &moves, double &step) {
        step = 1;
        if (moves.s.empty()) {
            direction_ = gradient_;
            step = 1 / std::max(1.0, std::sqrt(dot(gradient_, gradient_)) / t_.weight_unit);
        } else {
            moves.towards(gradient_, direction_);
        }
        for (double &one : direction_)
            one = -one;
        if (dot(direction_, gradient_) >= 0)
            for (int64_t j = 0; j < t_.p; j++)
                direction_[j] = -gradient_[j];
    }

    bool search(double &step, double allowed) {
        const double slope = dot(direction_, gradient_);
        const Vector from = v_;
        before_ = gradient_;
        for (int trial = 0; trial < MOST_TRIALS; trial++) {
            for (int64_t j = 0; j < t_.p; j++)
                v_[j] = from[j] + step * direction_[j];
            const double there = rows_.look(v_, gradient_);
            const double risen = there - objective_;
            if (risen <= SUFFICIENT * step * slope + allowed) {
                objective_ = there;
                for (int64_t j = 0; j < t_.p; j++) {
                    moved_[j] = v_[j] - from[j];
                    changed_[j] = gradient_[j] - before_[j];
                }
                return true;
            }
            step *= quasi_ ? shrunk(risen, step * slope) : LEAST_SHRUNK;
        }
        v_ = from;
        gradient_ = before_;
        return false;
    }
};

} // namespace
} // namespace tusk

int64_t tk_try_hinge(const tk_tried *rows, int method, double *weights) {
    tusk::Descent descent(*rows, method, weights);
    const int64_t made = descent.run();
    std::copy(descent.weights().begin(), descent.weights().end(), weights);
    return made;
}
