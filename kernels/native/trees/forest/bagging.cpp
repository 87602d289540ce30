// Grows random forests.

#include <algorithm>
#include <numeric>

#include "../../shared/common/exact_sum.hpp"
#include "../categories/levels.hpp"
#include "../losses/gradients.hpp"
#include "forest.hpp"

namespace tusk {
namespace {

class Bagging {
public:
    explicit Bagging(const Bagged &job)
        : job_(job), group_(job.pass.groups[job.group]), weights_(weights_of(group_)),
          boost_(scaled(job.boost, weights_.scale())),
          classes_(boost_.classes ? boost_.classes + job.group * boost_.n_classes : nullptr),
          outputs_(classes_ ? boost_.n_classes : 1) {}

    int run(Forest *out) {
        const uint8_t *by_level = categories();
        if (by_level && !are_levels(group_, by_level))
            return TK_REFUSED;
        bins_ = find_bins(group_, boost_, by_level, job_.threads);
        int code = prepare(out);
        if (code)
            return code;
        bool narrow = group_.n_rows <= BLOCK && job_.threads == 1;
        return narrow ? grow_all<Addend>(out) : grow_all<Sum>(out);
    }

private:
    const uint8_t *categories() const {
        return boost_.categorical ? boost_.categorical + job_.group * group_.dim : nullptr;
    }

    // Labels for an output: numbers, or whether the label is a class.
    Labels labels(int64_t output) const {
        double positive = classes_             ? classes_[output]
                          : job_.pass.positive ? job_.pass.positive[job_.group]
                                               : 1;
        return {&group_, boost_.objective, positive, boost_.shape, weights_};
    }

    int prepare(Forest *out) {
        size_t n = group_.n_rows;
        if (int code = codes_.take(job_.memory, n * group_.dim))
            return code;
        code_rows(group_, bins_, job_.threads, codes_.data(), boost_.spends);
        int code = addends_.take(job_.memory, n);
        code = code ? code : which_.take(job_.memory, n);
        code = code ? code : scratch_.take(job_.memory, n);
        code = code ? code : order_.take(job_.memory, n);
        code = code ? code : drawn_.take(job_.memory, n);
        code = code ? code : trees_of_.take(job_.memory, n);
        code = code ? code : margins_.take(job_.memory, n);
        code = code ? code : told_.take(job_.memory, n * outputs_);
        code = code ? code : y_.take(job_.memory, n);
        code = code ? code : weight_.take(job_.memory, n);
        if (code)
            return code;
        copy_labels(group_, y_.data());
        copy_weights(group_, weight_.data());
        std::fill_n(trees_of_.data(), n, 0U);
        std::fill_n(told_.data(), n * outputs_, 0.0);
        take_bases(out);
        take_order();
        return TK_OK;
    }

    void take_bases(Forest *out) {
        for (int64_t k = 0; k < outputs_; k++)
            mean_.push_back(best_constant(labels(k)));
        out->base = mean_;
        if (boost_.objective == TK_GINI && outputs_ == 1)
            out->base[0] -= 0.5;
        out->base_loss = 0;
        for (int64_t k = 0; k < outputs_; k++) {
            std::fill_n(margins_.data(), group_.n_rows, mean_[k]);
            out->base_loss +=
                take_losses(labels(k), margins_.data(), job_.threads, nullptr, nullptr);
        }
    }

    // Orders rows by their content, so that draws do not depend on their original order.
    void take_order() {
        bool weighted = group_.extras & TUSK_WEIGHTS;
        auto keys = row_keys({codes_.data(), y_.data(), weighted ? weight_.data() : nullptr,
                              group_.n_rows, group_.dim});
        uint32_t *order = order_.data();
        std::iota(order, order + group_.n_rows, 0U);
        std::sort(order, order + group_.n_rows, [&](uint32_t a, uint32_t b) {
            return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
        });
    }

    // Draws rows with replacement: counts by row, and the distinct rows' numbers. Returns their
    // number.
    int64_t draw(uint64_t seed) {
        int64_t n = group_.n_rows;
        int64_t wanted = drawn_of(boost_.row_fraction, n);
        uint32_t *times = drawn_.data();
        std::fill_n(times, n, 0U);
        for (int64_t i = 0; i < wanted; i++)
            times[order_.data()[drawn_place(seed, i, n)]]++;
        uint32_t *to = numbers_of_rows();
        for (int64_t row = 0; row < n; row++)
            to = std::fill_n(to, times[row], (uint32_t)row);
        return wanted;
    }
    uint32_t *numbers_of_rows() const { return which_.data(); }

    template <class Cell> int grow_all(Forest *out) {
        Grower<Cell> grower(boost_, bins_, job_.threads, job_.pass.cancel_mark, job_.memory);
        bool split = false;
        for (int32_t t = 0; t < boost_.trees; t++) {
            if (cancelled(job_.pass.cancel_mark))
                return TK_CANCELLED;
            uint64_t seed = seed_of(boost_.seed, t);
            for (int64_t k = 0; k < outputs_; k++) {
                int code = add_tree(grower, seed, k, out);
                if (code)
                    return code;
                split |= out->trees.back().nodes.size() > 1;
            }
            out->loss.push_back(out_of_bag(out->base_loss));
            job_.progress.done(1, group_.n_rows);
        }
        if (!split)
            out->trees.clear();
        return TK_OK;
    }

    // Grows a tree; the trees of one iteration have the same rows.
    template <class Cell>
    int add_tree(Grower<Cell> &grower, uint64_t seed, int64_t k, Forest *out) {
        int64_t n = draw(seed), rows = group_.n_rows;
        Labels of = labels(k);
        of.weights.total *= MOST_DRAWN;
        Units units{};
        std::fill_n(margins_.data(), rows, mean_[k]);
        take_losses(of, margins_.data(), job_.threads, addends_.data(), &units);
        std::vector<int32_t> all(group_.dim);
        std::iota(all.begin(), all.end(), 0);
        grower.draw_features_by(seed_of(seed, k));
        Tree tree;
        int code = grower.grow(Rule{&boost_, units, weights_.scale()},
                               Rows{codes_.data(), addends_.data(), &bins_}, all,
                               Order{which_.data(), scratch_.data(), n}, nullptr, nullptr, &tree);
        if (!code)
            tell(tree, k);
        out->trees.push_back(std::move(tree));
        return code;
    }

    // Adds the values of a tree to rows that it did not draw.
    void tell(const Tree &tree, int64_t k) {
        double *told = told_.data() + k * group_.n_rows;
        for (int64_t row = 0; row < group_.n_rows; row++) {
            if (drawn_.data()[row])
                continue;
            told[row] += tree.of(codes_.data() + (size_t)row * group_.dim);
            trees_of_.data()[row] += k == 0;
        }
    }

    // Out-of-bag mean loss. none: its value if there are no such rows.
    double out_of_bag(double none) const {
        ExactSum loss, total;
        for (int64_t row = 0; row < group_.n_rows; row++) {
            if (!trees_of_.data()[row])
                continue;
            double scale = boost_.trees / (double)trees_of_.data()[row];
            for (int64_t k = 0; k < outputs_; k++) {
                double told = mean_[k] + scale * told_.data()[k * group_.n_rows + row];
                double lacks = told - target(row, k);
                loss.add(weight_.data()[row] * lacks * lacks / 2);
            }
            total.add(weight_.data()[row]);
        }
        double weight = total.value();
        return weight > 0 ? loss.value() / weight : none;
    }
    double target(int64_t row, int64_t k) const {
        double y = y_.data()[row];
        return boost_.objective == TK_GINI ? y == labels(k).positive : y;
    }

    const Bagged &job_;
    const tusk_group &group_;
    Weights weights_;
    tk_boost boost_; // for scaled weights; its learning rate is 1 / trees
    const double *classes_;
    int64_t outputs_;
    Bins bins_;
    std::vector<double> mean_; // of each output
    Charged<uint8_t> codes_;
    Charged<Addend> addends_;
    Charged<uint32_t> which_, scratch_, order_, drawn_; // drawn: how often each row is
    Charged<uint32_t> trees_of_;                        // number of trees that did not draw a row
    Charged<double> margins_, told_, y_, weight_;       // told: (outputs, n) sums of their leaves
};

} // namespace

int grow_forest(const Bagged &job, Forest *out) {
    return Bagging(job).run(out);
}

} // namespace tusk
