// The rows of a part of a group for growing a random forest: their addends in sums over all rows,
// and the values of trees that did not draw them.
#include <memory>
#include <numeric>

#include "../../shared/charged.hpp"
#include "../../shared/pool.hpp"
#include "../forest/forest.hpp"
#include "leaves.hpp"

namespace tusk {
namespace {

constexpr int64_t STRETCH = 8192; // rows of one piece of work

// The set of indices, among those of all parts, of rows of this part.
class Places {
public:
    // place: rising, each below n.
    void set(const uint32_t *place, size_t count, int64_t n) {
        words_.assign((size_t)n / 64 + 1, 0);
        before_.assign(words_.size(), 0);
        for (size_t i = 0; i < count; i++)
            words_[place[i] / 64] |= UINT64_C(1) << place[i] % 64;
        for (size_t w = 1; w < words_.size(); w++)
            before_[w] = before_[w - 1] + (uint32_t)__builtin_popcountll(words_[w - 1]);
    }
    // The number of an index among those of this part; -1: it is of another part.
    int64_t number(size_t place) const {
        uint64_t word = words_[place / 64], bit = UINT64_C(1) << place % 64;
        if (!(word & bit))
            return -1;
        return (int64_t)before_[place / 64] + __builtin_popcountll(word & (bit - 1));
    }

private:
    std::vector<uint64_t> words_;  // a bit for each index
    std::vector<uint32_t> before_; // bits of earlier words
};

class BaggedPart {
public:
    BaggedPart(const tk_pass &pass, const tk_boost &boost, const tk_bins &bins,
               const tk_extent &extent, tusk_memory *memory)
        : threads_(pass.threads), cancel_mark_(pass.cancel_mark), memory_(memory), boost_(boost),
          group_(*pass.groups), bins_(bins_from(bins)),
          outputs_(boost.classes ? boost.n_classes : 1), mean_((size_t)outputs_),
          scales_(scales_from(extent)) {
        if (boost.classes)
            positive_.assign(boost.classes, boost.classes + outputs_);
        else
            positive_ = {pass.positive ? *pass.positive : 1};
    }

    int take() {
        auto n = (size_t)group_.n_rows;
        int code = codes_.take(memory_, n * group_.dim);
        code = code ? code : make_room(group_.n_rows);
        code = code ? code : addends_.take(memory_, n);
        code = code ? code : order_.take(memory_, n);
        code = code ? code : drawn_.take(memory_, n);
        code = code ? code : trees_of_.take(memory_, n);
        code = code ? code : margins_.take(memory_, n);
        code = code ? code : told_.take(memory_, n * outputs_);
        code = code ? code : y_.take(memory_, n);
        code = code ? code : weight_.take(memory_, n);
        if (code)
            return code;
        code_rows(group_, bins_, threads_, codes_.data(), false);
        copy_labels(group_, y_.data());
        copy_weights(group_, weight_.data());
        std::fill_n(trees_of_.data(), n, 0U);
        std::fill_n(told_.data(), n * outputs_, 0.0);
        return cancelled(cancel_mark_) ? TK_CANCELLED : TK_OK;
    }

    void sums(double *out) const {
        for (int64_t k = 0; k < outputs_; k++)
            out[k] = sum_of_labels(labels(k));
    }

    std::vector<uint64_t> equal_keys() const { return content_keys(contents(), scales_); }
    // Orders the rows by their keys, which it writes.
    void tell_apart(const First &first, uint64_t *out) {
        std::vector<uint64_t> keys = equal_keys();
        tell_equals_apart(keys, contents(), &first);
        uint32_t *order = order_.data();
        std::iota(order, order + group_.n_rows, 0U);
        std::sort(order, order + group_.n_rows, [&](uint32_t a, uint32_t b) {
            return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
        });
        for (int64_t i = 0; i < group_.n_rows; i++)
            out[i] = keys[order[i]];
    }
    // place: for each row in that order its index among all_rows.
    void place(const uint32_t *place, int64_t all_rows) {
        places_.set(place, (size_t)group_.n_rows, all_rows);
        all_rows_ = all_rows;
    }

    // out: contribution to the mean loss, and the largest derivative of each output.
    void start(const double *mean, double total, double *out) {
        total_ = total;
        std::copy_n(mean, outputs_, mean_.begin());
        out[0] = 0;
        for (int64_t k = 0; k < outputs_; k++) {
            Labels of = labels(k);
            std::fill_n(margins_.data(), group_.n_rows, mean_[k]);
            out[0] += take_losses(of, margins_.data(), threads_, nullptr, nullptr);
            out[k + 1] = widest_of(of, margins_.data(), threads_).derivative;
        }
    }

    int begin(int64_t iteration, int64_t output, const tk_extent &extent, int64_t *out) {
        if (int code = draw(iteration))
            return code;
        Labels of = labels(output);
        Widest widest = widest_from(extent);
        Units units{};
        of.weights = weights_from(extent), of.widest = &widest;
        std::fill_n(margins_.data(), group_.n_rows, mean_[output]);
        take_losses(of, margins_.data(), threads_, addends_.data(), &units);
        uint32_t *to = leaves_.which();
        for (int64_t row = 0; row < group_.n_rows; row++)
            to = std::fill_n(to, drawn_.data()[row], (uint32_t)row);
        leaves_.begin(to - leaves_.which());
        return add_up_leaf(0, out);
    }

    // Divides a leaf; writes sums if some are requested.
    int divide(const tk_part_split &split, int64_t *out) {
        if (cancelled(cancel_mark_))
            return TK_CANCELLED;
        if (!leaves_.has(split.left))
            leaves_.divide(split, codes_.data(), bins_.features(), threads_);
        return out && split.wanted >= 0 ? add_up_leaf(split.wanted, out) : (int)TK_OK;
    }

    int64_t count(int32_t leaf) const { return leaves_.rows(leaf).n; }
    void rows(int32_t leaf, uint8_t *codes, Addend *addends) const {
        Range range = leaves_.rows(leaf);
        size_t d = group_.dim;
        for (int64_t i = range.begin; i < range.begin + range.n; i++) {
            uint32_t row = leaves_.which()[i];
            codes = std::copy_n(codes_.data() + row * d, d, codes);
            std::memcpy(addends++, addends_.data() + row, sizeof(Addend));
        }
    }

    // Adds the values of a tree to rows that it did not draw.
    int add(int64_t iteration, int64_t output, const tk_node *nodes, const tk_side *sides,
            const uint64_t *sets) {
        if (int code = draw(iteration))
            return code;
        int64_t n = group_.n_rows, d = bins_.features();
        double *told = told_.data() + output * n;
        parallel_for((n + STRETCH - 1) / STRETCH, threads_, [&](int64_t piece) {
            int64_t end = std::min(n, (piece + 1) * STRETCH);
            for (int64_t row = piece * STRETCH; row < end; row++) {
                if (drawn_.data()[row])
                    continue;
                told[row] += nodes[leaf_of(codes_.data() + row * d, nodes, sides, sets)].value;
                trees_of_.data()[row] += output == 0;
            }
        });
        return cancelled(cancel_mark_) ? TK_CANCELLED : TK_OK;
    }

    // out: losses of rows by the trees that did not draw them, and their weights.
    void losses(double *out) const {
        out[0] = out[1] = 0;
        for (int64_t row = 0; row < group_.n_rows; row++) {
            if (!trees_of_.data()[row])
                continue;
            double scale = boost_.trees / (double)trees_of_.data()[row];
            for (int64_t k = 0; k < outputs_; k++) {
                double told = mean_[k] + scale * told_.data()[k * group_.n_rows + row];
                double y = y_.data()[row];
                double lacks = told - (boost_.objective == TK_GINI ? y == positive_[k] : y);
                out[0] += weight_.data()[row] * lacks * lacks / 2;
            }
            out[1] += weight_.data()[row];
        }
    }

    int64_t bins() const { return bins_.total(); }
    int64_t features() const { return group_.dim; }

private:
    Contents contents() const {
        const double *weight = group_.extras & TUSK_WEIGHTS ? weight_.data() : nullptr;
        return {codes_.data(), y_.data(), weight, group_.n_rows, group_.dim};
    }
    Labels labels(int64_t output) const {
        return {&group_, boost_.objective, positive_[output], boost_.shape, {total_, 1, 1}};
    }

    int make_room(int64_t n) {
        room_ = n;
        return leaves_.take(memory_, n);
    }

    // Counts the draws of each row; of all draws each part keeps its own.
    int draw(int64_t iteration) {
        if (iteration == drawn_for_)
            return TK_OK;
        uint64_t seed = seed_of(boost_.seed, (uint64_t)iteration);
        uint32_t *times = drawn_.data();
        std::fill_n(times, group_.n_rows, 0U);
        int64_t own = 0, wanted = drawn_of(boost_.row_fraction, all_rows_);
        for (int64_t i = 0; i < wanted; i++) {
            int64_t number = places_.number(drawn_place(seed, i, all_rows_));
            if (number < 0)
                continue;
            times[order_.data()[number]]++;
            own++;
        }
        drawn_for_ = iteration;
        return own > room_ ? make_room(own) : (int)TK_OK;
    }

    int add_up_leaf(int32_t leaf, int64_t *out) {
        Range range = leaves_.rows(leaf);
        static_assert(sizeof(Sum) == 3 * sizeof(int64_t));
        Rows rows{codes_.data(), addends_.data(), &bins_};
        add_up(rows, leaves_.which() + range.begin, range.n, threads_, (Sum *)out, blocks_);
        return cancelled(cancel_mark_) ? TK_CANCELLED : TK_OK;
    }

    int threads_;
    int64_t cancel_mark_;
    tusk_memory *memory_;
    tk_boost boost_;
    tusk_group group_;
    Bins bins_;
    int64_t outputs_;
    std::vector<double> mean_, positive_; // of each output
    Scales scales_;                       // of all parts
    double total_ = 1;                    // of the weights of all parts
    Charged<uint8_t> codes_;
    Charged<Addend> addends_;
    Charged<uint32_t> order_, drawn_, trees_of_; // trees_of: number of trees that did not draw a
                                                 // row
    Charged<double> margins_, told_, y_, weight_;
    Leaves leaves_;
    int64_t room_ = 0; // number of drawn rows
    Places places_;
    int64_t all_rows_ = 0, drawn_for_ = -1;
    std::vector<Addend> blocks_;
};

} // namespace
} // namespace tusk

struct tk_bagged {
    tusk::BaggedPart part;
};

int tk_bagged_new(const tk_pass *pass, const tk_boost *boost, const tk_bins *bins,
                  const tk_extent *extent, tusk_memory *memory, tk_bagged **out) {
    *out = nullptr;
    return tusk::code_of([&] {
        std::unique_ptr<tk_bagged> made(new tk_bagged{{*pass, *boost, *bins, *extent, memory}});
        int code = made->part.take();
        if (!code)
            *out = made.release();
        return code;
    });
}

void tk_bagged_free(tk_bagged *part) {
    delete part;
}

int tk_bagged_sums(const tk_bagged *part, double *out) {
    return tusk::code_of([&] {
        part->part.sums(out);
        return (int)TK_OK;
    });
}

int tk_bagged_keys(const tk_bagged *part, uint64_t *out) {
    return tusk::code_of([&] {
        std::vector<uint64_t> found = part->part.equal_keys();
        std::copy(found.begin(), found.end(), out);
        return (int)TK_OK;
    });
}

int tk_bagged_tell_apart(tk_bagged *part, const uint64_t *key, const int64_t *before, int64_t n,
                         uint64_t *out) {
    return tusk::code_of([&] {
        auto first = [&](uint64_t wanted) {
            const uint64_t *at = std::lower_bound(key, key + n, wanted);
            return at < key + n && *at == wanted ? (uint64_t)before[at - key] : 0;
        };
        part->part.tell_apart(first, out);
        return (int)TK_OK;
    });
}

int tk_bagged_place(tk_bagged *part, const uint32_t *place, int64_t all_rows) {
    return tusk::code_of([&] {
        part->part.place(place, all_rows);
        return (int)TK_OK;
    });
}

int tk_bagged_start(tk_bagged *part, const double *mean, double total, double *out) {
    return tusk::code_of([&] {
        part->part.start(mean, total, out);
        return (int)TK_OK;
    });
}

int tk_bagged_begin(tk_bagged *part, int64_t iteration, int64_t output, const tk_extent *extent,
                    int64_t *out) {
    return tusk::code_of([&] { return part->part.begin(iteration, output, *extent, out); });
}

int tk_bagged_divide(tk_bagged *part, const tk_part_split *splits, int64_t n, int64_t *out) {
    return tusk::code_of([&] {
        int64_t *to = out;
        for (int64_t i = 0; i < n; i++) {
            if (int code = part->part.divide(splits[i], to))
                return code;
            to += to && splits[i].wanted >= 0 ? 3 * part->part.bins() : 0;
        }
        return (int)TK_OK;
    });
}

int64_t tk_bagged_count(const tk_bagged *part, const int32_t *leaves, int64_t n) {
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += part->part.count(leaves[i]);
    return total;
}

void tk_bagged_rows(const tk_bagged *part, const int32_t *leaves, int64_t n, int64_t *counts,
                    uint8_t *codes, int64_t *addends) {
    for (int64_t i = 0; i < n; i++) {
        part->part.rows(leaves[i], codes, (tusk::Addend *)addends);
        counts[i] = part->part.count(leaves[i]);
        codes += counts[i] * part->part.features();
        addends += 2 * counts[i];
    }
}

int tk_bagged_add(tk_bagged *part, int64_t iteration, int64_t output, const tk_node *nodes,
                  const tk_side *sides, const uint64_t *sets) {
    return tusk::code_of([&] { return part->part.add(iteration, output, nodes, sides, sets); });
}

void tk_bagged_losses(const tk_bagged *part, double *out) {
    part->part.losses(out);
}
