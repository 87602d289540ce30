// Coordinate descent on 1/2 ||Y - A w||^2 + penalty(w) for the columns of a state, with Anderson
// acceleration. Most epochs visit only nonzero weights.
#pragma once

#include <cstdint>
#include <vector>

#include "../shared/pool.hpp"
#include "blocks/blocks.hpp"
#include "penalty.hpp"

namespace tusk {

constexpr int WINDOW = 5;        // epochs that an extrapolation combines
constexpr int EPOCHS_LOOK = 12;  // epochs between two checks of all coordinates and the gap
constexpr double ROUNDED = 1e-9; // share of the objective below which rounding may hold the gap
constexpr int MOST_VAIN = 4;     // checks below it without halving the gap

// Conditions that end a fit, from the pass.
struct Limits {
    int64_t cancel_mark;
    double deadline;
    bool over() const { return ending(cancel_mark, deadline) != TK_OK; }
};

template <class State> class Descent {
public:
    // w and free: by the state's coordinates. free: nonzero for coordinates without a penalty.
    // units: blocks of coordinates, in their order.
    Descent(State &state, std::vector<double> &w, const std::vector<uint8_t> &free,
            const Penalty &penalty, const Limits &limits, const std::vector<Unit> &units = {})
        : state_(state), w_(w), free_(free), penalty_(penalty), limits_(limits), units_(units) {}

    // Descends until the gap is at most `tolerance`, or rounding prevents further progress.
    // Returns the number of epochs.
    int64_t run(double tolerance, int64_t most) {
        double least = INFINITY;
        for (int64_t epoch = 0, vain = 0;;) {
            GapSums sums = gap_sums();
            double gap = sums.gap(penalty_);
            vain = gap < 0.5 * least ? 0 : vain + (gap < ROUNDED * sums.primal());
            least = std::min(least, gap);
            if (gap <= tolerance || vain >= MOST_VAIN || epoch >= most || limits_.over())
                return epoch;
            if (round() == 0)
                return epoch + 1;
            epoch += EPOCHS_LOOK;
        }
    }

    // The sums over the state's coordinates.
    GapSums gap_sums() const {
        GapSums sums;
        sums.product = sums.squares = state_.squares();
        auto single = [&](size_t j) {
            double u = state_.gradient(j);
            sums.product += w_[j] * u;
            if (!free_[j])
                sums.add(penalty_, w_[j], u);
            else if (state_.curvature[j] > 0)
                sums.unfitted += std::abs(u) / std::sqrt(state_.curvature[j]);
        };
        each(single, [&](const Unit &unit) {
            double w2 = 0, s2 = 0;
            for (size_t j = unit.at; j < unit.at + unit.count; j++) {
                double u = state_.gradient(j), s = u - penalty_.l2 * w_[j];
                sums.product += w_[j] * u;
                w2 += w_[j] * w_[j];
                s2 += s * s;
            }
            sums.add_block(penalty_, unit.root, w2, s2);
        });
        sums.unfitted *= std::sqrt(2 * sums.primal());
        return sums;
    }

private:
    State &state_;
    std::vector<double> &w_;
    const std::vector<uint8_t> &free_;
    const Penalty &penalty_;
    const Limits &limits_;
    std::vector<Unit> units_;
    std::vector<double> past_[WINDOW + 1]; // w, followed by the state's numbers
    int kept_ = 0;

    // Calls single(j) for coordinates that are alone and block(unit) for the others, in order.
    template <class Single, class Together> void each(Single single, Together block) const {
        size_t j = 0;
        for (const Unit &unit : units_) {
            for (; j < unit.at; j++)
                single(j);
            block(unit);
            j = unit.at + unit.count;
        }
        for (; j < w_.size(); j++)
            single(j);
    }

    // Visits all coordinates, or those that are not 0. Returns the largest change of the
    // objective's root.
    double sweep(bool all) {
        double most = 0;
        auto single = [&](size_t j) {
            double curvature = state_.curvature[j];
            if (!(curvature > 0) || (!all && w_[j] == 0 && !free_[j]))
                return;
            double z = state_.gradient(j) + curvature * w_[j];
            put(j, free_[j] ? z / curvature : penalty_.least(z, curvature), most);
        };
        std::vector<double> u, to;
        each(single, [&](const Unit &unit) {
            double *w = w_.data() + unit.at;
            if (!all && std::all_of(w, w + unit.count, [](double one) { return one == 0; }))
                return;
            u.resize(unit.count);
            to.resize(unit.count);
            for (size_t k = 0; k < unit.count; k++)
                u[k] = state_.gradient(unit.at + k);
            unit.least(penalty_, u.data(), w, to.data());
            for (size_t k = 0; k < unit.count; k++)
                put(unit.at + k, to[k], most);
        });
        return most;
    }

    // Moves a weight. most: the largest change of the objective's root so far.
    void put(size_t j, double to, double &most) {
        double by = to - w_[j];
        if (by == 0)
            return;
        state_.move(j, by);
        w_[j] = to;
        most = std::max(most, std::abs(by) * std::sqrt(state_.curvature[j]));
    }

    // Runs the epochs between two checks. Returns the largest change of the first one.
    double round() {
        kept_ = 0;
        keep();
        double first = sweep(true);
        extrapolate();
        for (int i = 1; i < EPOCHS_LOOK; i++) {
            if (sweep(false) == 0)
                break;
            extrapolate();
        }
        return first;
    }

    double objective() const {
        double sum = 0.5 * state_.squares();
        each([&](size_t j) { sum += free_[j] ? 0 : penalty_.of(w_[j]); },
             [&](const Unit &unit) {
                 double w2 = 0;
                 for (size_t j = unit.at; j < unit.at + unit.count; j++)
                     w2 += w_[j] * w_[j];
                 sum += penalty_.of_block(unit.root, w2);
             });
        return sum;
    }

    void keep() {
        std::vector<double> &to = past_[kept_++];
        to.assign(w_.begin(), w_.end());
        to.insert(to.end(), state_.numbers.begin(), state_.numbers.end());
    }

    void put(const std::vector<double> &from) {
        std::copy_n(from.begin(), w_.size(), w_.begin());
        std::copy(from.begin() + (int64_t)w_.size(), from.end(), state_.numbers.begin());
    }

    // The combination of the last iterates whose combined changes are least, taken where the
    // objective is lower there.
    void extrapolate() {
        keep();
        if (kept_ <= WINDOW)
            return;
        double factor[WINDOW];
        if (combination(factor))
            take(factor);
        kept_ = 0;
        keep();
    }

    void take(const double *factor) {
        std::vector<double> &to = past_[0];
        std::fill(to.begin(), to.end(), 0.0);
        for (int i = 0; i < WINDOW; i++)
            for (size_t j = 0; j < to.size(); j++)
                to[j] += factor[i] * past_[i + 1][j];
        for (size_t j = 0; j < w_.size(); j++)
            if (penalty_.positive && !free_[j] && to[j] < 0)
                return;
        double before = objective();
        put(to);
        if (!(objective() < before))
            put(past_[WINDOW]);
    }

    // Solves (U U^T) z = 1 for the changes U of w, and divides by the sum of z.
    bool combination(double *factor) const {
        double m[WINDOW][WINDOW + 1];
        for (int a = 0; a < WINDOW; a++) {
            for (int b = 0; b <= a; b++) {
                double s = 0;
                for (size_t j = 0; j < w_.size(); j++)
                    s += (past_[a + 1][j] - past_[a][j]) * (past_[b + 1][j] - past_[b][j]);
                m[a][b] = m[b][a] = s;
            }
            m[a][WINDOW] = 1;
        }
        double trace = 0;
        for (int a = 0; a < WINDOW; a++)
            trace += m[a][a];
        for (int a = 0; a < WINDOW; a++)
            m[a][a] += 1e-14 * trace;
        for (int a = 0; a < WINDOW; a++) {
            if (!(m[a][a] > 0))
                return false;
            for (int b = a + 1; b < WINDOW; b++)
                for (int c = WINDOW; c >= a; c--)
                    m[b][c] -= m[b][a] / m[a][a] * m[a][c];
        }
        double total = 0;
        for (int a = WINDOW - 1; a >= 0; a--) {
            double s = m[a][WINDOW];
            for (int c = a + 1; c < WINDOW; c++)
                s -= m[a][c] * factor[c];
            total += factor[a] = s / m[a][a];
        }
        for (int a = 0; a < WINDOW; a++)
            factor[a] /= total;
        return std::isfinite(total) && total != 0;
    }
};

} // namespace tusk
