// The rows of a group for boosting.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "histogram.hpp"
#include "losses/softmax.hpp"
#include "sampling.hpp"
#include "tree.hpp"

namespace tusk {

// Gradient-based one-side sampling (G. Ke et al., LightGBM, NIPS 2017, section 3 and algorithm 2).
// The rows with the largest |gradient * curvature| are drawn, a fraction `top` of all, and a
// fraction `other` of all among the others, whose gradients and curvatures then count (1 - top) /
// other times, as many as they represent. So sums over drawn rows are those over all rows on
// average.

struct OneSide {
    double top, other; // shares of all rows
};

// The rows that a tree grows on.
struct Drawn {
    int64_t n;                   // number of rows
    double factor;               // number of rows that one of the others represents
    std::vector<uint8_t> others; // of each row, 1: it was drawn from the others
};

// Largest number of rows that one of the others may represent.
double most_factor(OneSide rates, int64_t n);

// Draws rows and writes their numbers, ascending, to out. size: |gradient * curvature| of each
// row. keys: from sampling.hpp, so the drawn rows do not depend on their order.
Drawn draw_one_side(const std::vector<double> &size, const std::vector<uint64_t> &keys,
                    OneSide rates, uint64_t seed, uint32_t *out);

// Multiplies the addends of the drawn rows of the others.
void amplify(const Drawn &drawn, const uint32_t *which, Addend *addends);

// Rows of one group with their margins: an array of all rows for each output.
class Sample {
public:
    Sample(const tusk_group &group, const tk_boost &boost, double positive, const double *classes)
        : group_(group),
          labels_{&group, boost.objective, positive, boost.shape, weights_of(group)},
          classes_(classes), outputs_(boost.objective == TK_SOFTMAX ? boost.n_classes : 1) {}

    // grows: whether trees are grown on them. spends: as in code_rows. Returns a tk_code.
    int take(const Bins &bins, int threads, bool grows, bool spends, tusk_memory *memory) {
        size_t n = group_.n_rows;
        if (int code = codes_.take(memory, n * group_.dim))
            return code;
        code_rows(group_, bins, threads, codes_.data(), spends);
        int code = grows ? take_columns(threads, memory) : TK_OK;
        code = code ? code : margins_.take(memory, n * outputs_);
        if (!code && several())
            code = softmax_.take(memory, group_, classes_, outputs_);
        if (!code && grows)
            code = addends_.take(memory, n);
        if (!code && grows && labels_.objective == TK_QUANTILE_TREES) {
            code = y_.take(memory, n);
            code = code         ? code
                   : weighted() ? weighted_lacks_.take(memory, n)
                                : lacks_.take(memory, n);
            code = code || !weighted() ? code : weight_.take(memory, n);
        }
        if (code)
            return code;
        grows_ = grows;
        if (weight_.data())
            copy_weights(group_, weight_.data());
        if (y_.data())
            copy_labels(group_, y_.data());
        return TK_OK;
    }
    // For rows that fit the core's cache, the cells of their bins. Returns a tk_code.
    int number_cells(const Bins &bins, tusk_memory *memory) {
        constexpr size_t NEAR = 1 << 18; // cells of rows
        size_t d = group_.dim, count = (size_t)n() * d;
        if (count > NEAR || 2 * bins.total() > UINT16_MAX)
            return TK_OK;
        int code = cells_.take(memory, count);
        for (size_t i = 0; !code && i < count; i += d)
            for (size_t f = 0; f < d; f++)
                cells_.data()[i + f] = (uint16_t)(2 * (bins.first[f] + codes_.data()[i + f]));
        return code;
    }

    // The constants that minimise the mean loss.
    std::vector<double> bases() const {
        std::vector<double> out(outputs_);
        if (several())
            softmax_.bases(out.data());
        else
            out[0] = best_constant(labels_);
        return out;
    }
    // Sets initial margins; for numbers they are relative to the constant.
    void start(const std::vector<double> &bases) {
        if (numbers())
            labels_.origin = bases[0];
        for (int64_t k = 0; k < outputs_; k++)
            std::fill_n(margins(k), n(), bases[k] - labels_.origin);
        add_offsets(group_, margins(0));
    }

    // For Huber's loss without a given threshold: estimates that of the losses at the first
    // margins.
    void estimate_threshold() {
        estimated_ = labels_.objective == TK_HUBER_TREES && labels_.shape == 0;
        if (estimated_)
            labels_.shape = threshold_of(labels_, margins(0));
    }
    // Uses the loss of other rows, on which trees are grown.
    void measure_as(const Sample &other) { labels_.shape = other.labels_.shape; }
    // The mean loss. Prepares the addends for the trees of the next iteration.
    double losses(int threads) {
        if (several())
            return softmax_.losses(margins(0), threads);
        if (estimated_)
            labels_.narrower = std::min(threshold_of(labels_, margins(0)), labels_.shape);
        return take_losses(labels_, margins(0), threads, grows_ ? addends_.data() : nullptr,
                           &units_);
    }
    // The mean loss only.
    double mean_loss(int threads) {
        if (several())
            return softmax_.losses(margins(0), threads);
        return take_losses(labels_, margins(0), threads, nullptr, &units_);
    }
    // If these rows are a part: sets the weights of all rows, after take().
    void weigh(const Weights &all) {
        labels_.weights = all;
        if (several())
            softmax_.weigh(all);
    }
    // The largest derivative and curvature of these rows; 1 for several classes.
    Widest widest(int threads) const {
        return several() ? Widest{1, 1} : widest_of(labels_, margins(0), threads);
    }
    // Prepares addends as part of rows with this largest derivative and curvature; for several
    // outputs after mean_loss().
    void prepare(const Widest &all, int threads) {
        if (several())
            return;
        labels_.widest = &all;
        take_losses(labels_, margins(0), threads, addends_.data(), &units_);
        labels_.widest = nullptr;
    }
    // Sums by output that determine bases.
    void sums(double *out) const {
        if (several())
            softmax_.sums(out);
        else
            *out = sum_of_labels(labels_);
    }
    // The rows with their addends in the tree of one output, after losses().
    Rows adding(int64_t output, const Bins &bins, int threads) {
        if (several())
            softmax_.addends(margins(0), output, threads, addends_.data(), &units_);
        return {codes_.data(), addends_.data(), &bins, cells_.data(), columns_.data(), n()};
    }
    // Leaves room for rows that count up to `room` times.
    void make_room(double room) {
        labels_.weights.room = room;
        softmax_.make_room(room);
    }
    // |gradient * curvature| of each row, summed over several outputs, after losses().
    std::vector<double> sizes(int threads) {
        std::vector<double> out(n());
        for (int64_t k = 0; k < outputs_; k++) {
            if (several())
                softmax_.addends(margins(0), k, threads, addends_.data(), &units_);
            for (int64_t i = 0; i < n(); i++) {
                Addend a = addends_.data()[i];
                out[i] += std::fabs((double)gradient_of(a)) * (double)curvature_of(a);
            }
        }
        return out;
    }
    void count_several_times(const Drawn &drawn, const uint32_t *which) {
        amplify(drawn, which, addends_.data());
    }

    // Label - margin, and the weight of the row, if leaves have values of their own.
    double lack(uint32_t row) const {
        return y_.data()[row] - labels_.origin - margins_.data()[row];
    }
    double weight(uint32_t row) const { return weighted() ? weight_.data()[row] : 1; }

    // The value of a leaf under the quantile's loss.
    double lacking(const uint32_t *which, int64_t n) const {
        if (weighted())
            return weighted_lacking(which, n);
        for (int64_t i = 0; i < n; i++)
            lacks_.data()[i] = lack(which[i]);
        return quantile_of(lacks_.data(), n, labels_.shape);
    }

    void add(const Tree &tree, int64_t output, int64_t row) {
        margins(output)[row] += tree.of(codes_.data() + (size_t)row * group_.dim);
    }

    int64_t n() const { return group_.n_rows; }
    double *margins(int64_t output) const { return margins_.data() + output * n(); }
    bool several() const { return labels_.objective == TK_SOFTMAX; }
    bool has_own_values() const { return y_.data() && labels_.objective == TK_QUANTILE_TREES; }
    const uint8_t *codes() const { return codes_.data(); }
    const Units &units() const { return units_; }
    double scale() const { return labels_.weights.scale(); }
    std::vector<uint64_t> keys() const {
        return with_contents([](const Contents &rows) { return row_keys(rows); });
    }
    // The result of keys_of(Contents) for the contents by which rows are drawn.
    template <class KeysOf> std::vector<uint64_t> with_contents(KeysOf keys_of) const {
        std::vector<double> y(n()), weight(weighted() ? n() : 0), offset;
        copy_labels(group_, y.data());
        if (weighted())
            copy_weights(group_, weight.data());
        if (group_.extras & TUSK_OFFSETS)
            offset.resize(n());
        add_offsets(group_, offset.data());
        return keys_of(Contents{codes_.data(), y.data(), weighted() ? weight.data() : nullptr, n(),
                                group_.dim, offset.empty() ? nullptr : offset.data()});
    }

private:
    // Copies the bins of a large group, feature by feature: a split reads one feature, of which a
    // cache holds that of many more rows. If features are freed early, that is more memory.
    int take_columns(int threads, tusk_memory *memory) {
        constexpr int64_t TILE = 1024; // rows of one piece of work
        size_t d = group_.dim, rows = n();
        if (n() * group_.dim < LARGE)
            return TK_OK;
        if (int code = columns_.take(memory, rows * d))
            return code;
        parallel_for((n() + TILE - 1) / TILE, threads, [&](int64_t tile) {
            size_t begin = tile * TILE, end = std::min<size_t>(begin + TILE, rows);
            for (size_t f = 0; f < d; f++)
                for (size_t row = begin; row < end; row++)
                    columns_.data()[f * rows + row] = codes_.data()[row * d + f];
        });
        return TK_OK;
    }

    bool numbers() const {
        const int32_t objective = labels_.objective;
        return objective == TK_SQUARED || objective == TK_HUBER_TREES ||
               objective == TK_QUANTILE_TREES;
    }
    bool weighted() const { return group_.extras & TUSK_WEIGHTS; }
    double weighted_lacking(const uint32_t *which, int64_t n) const {
        for (int64_t i = 0; i < n; i++)
            weighted_lacks_.data()[i] = {lack(which[i]), weight_.data()[which[i]]};
        return weighted_quantile_of(weighted_lacks_.data(), n, labels_.shape);
    }

    const tusk_group &group_;
    Labels labels_;
    const double *classes_;
    int64_t outputs_;
    bool grows_ = false, estimated_ = false;
    Units units_{};
    ClassLosses softmax_;
    Charged<uint8_t> codes_, columns_;
    Charged<uint16_t> cells_;
    Charged<double> margins_, y_, lacks_, weight_;
    Charged<Weighted> weighted_lacks_;
    Charged<Addend> addends_;
};

} // namespace tusk
