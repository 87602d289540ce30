// The rows of a part of a group: their addends in sums over all rows, and their margins.
#include <memory>
#include <numeric>

#include "../../shared/pool.hpp"
#include "../forest/forest.hpp"
#include "../sample.hpp"
#include "leaves.hpp"
#include "ranks.hpp"

namespace tusk {
namespace {

constexpr int64_t STRETCH = 8192; // rows of one piece of work

class Part {
public:
    Part(const tk_pass &pass, const tk_boost &boost, const tk_bins &bins, tusk_memory *memory)
        : threads_(pass.threads), cancel_mark_(pass.cancel_mark), memory_(memory),
          seed_(boost.seed), share_(boost.row_fraction), group_(*pass.groups),
          bins_(bins_from(bins)), outputs_(boost.n_classes),
          rows_(group_, boost, pass.positive ? *pass.positive : 1, boost.classes) {
        if (!boost.held || !boost.held->n_rows)
            return;
        held_group_ = *boost.held;
        held_ = std::make_unique<Sample>(held_group_, boost, pass.positive ? *pass.positive : 1,
                                         boost.classes);
    }

    int take(const tk_extent &extent) {
        int code = rows_.take(bins_, threads_, true, false, memory_);
        code = code ? code : leaves_.take(memory_, rows_.n());
        if (!code && held_)
            code = held_->take(bins_, threads_, false, false, memory_);
        weigh(extent);
        scales_ = scales_from(extent);
        return code;
    }

    void weigh(const tk_extent &extent) {
        rows_.weigh(weights_from(extent));
        if (held_)
            held_->weigh({extent.held, extent.most, 1});
    }

    std::vector<uint64_t> equal_keys() const {
        return rows_.with_contents(
            [&](const Contents &rows) { return content_keys(rows, scales_); });
    }
    void tell_apart(const First &first) {
        keys_ = rows_.with_contents([&](const Contents &rows) {
            std::vector<uint64_t> keys = content_keys(rows, scales_);
            tell_equals_apart(keys, rows, &first);
            return keys;
        });
    }

    void sums(double *out) const { rows_.sums(out); }

    int start(const double *base, const tk_started *from) {
        start(rows_, group_, base, from);
        if (held_)
            start(*held_, held_group_, base, from);
        return cancelled(cancel_mark_) ? TK_CANCELLED : TK_OK;
    }

    void losses(double *out) {
        out[0] = rows_.mean_loss(threads_);
        out[1] = held_ ? held_->mean_loss(threads_) : 0;
        Widest most = rows_.widest(threads_);
        out[2] = most.derivative, out[3] = most.curvature;
    }

    int begin(int64_t iteration, int64_t output, const tk_extent &extent, int64_t *out) {
        rows_.prepare(widest_from(extent), threads_);
        adding_ = rows_.adding(output, bins_, threads_);
        int64_t n = rows_.n();
        if (iteration >= 0 && iteration == drawn_for_) {
            n = by_side_.n;
            std::copy_n(drawn_.data(), n, leaves_.which());
            rows_.count_several_times(by_side_, leaves_.which());
        } else if (iteration >= 0 && share_ < 1) {
            n = drawn_rows(keys_, share_, seed_of(seed_, (uint64_t)iteration), leaves_.which());
        } else {
            std::iota(leaves_.which(), leaves_.which() + n, 0U);
        }
        leaves_.begin(n);
        return add_up_leaf(0, out);
    }

    // Draws by gradients before the first tree of an iteration.
    int draw(int64_t iteration, const tk_extent &extent, const tk_one_side &by) {
        std::vector<double> size = sizes(extent);
        uint64_t seed = seed_of(seed_, (uint64_t)iteration);
        drawn_.clear();
        by_side_ = {0, by.factor, std::vector<uint8_t>(size.size())};
        for (size_t row = 0; row < size.size(); row++) {
            bool other = size[row] < by.least;
            if (other && mixed(keys_[row] ^ seed) > by.last)
                continue;
            by_side_.others[row] = other;
            drawn_.push_back((uint32_t)row);
        }
        by_side_.n = (int64_t)drawn_.size();
        drawn_for_ = iteration;
        return TK_OK;
    }

    int ranks(const tk_ranks &ranks, const tk_extent &extent, int64_t *counts, double *weights) {
        if (ranks.of == TK_LACKS) {
            count_ranks(ranks, counts, weights, [&](auto count) {
                for (int64_t i = 0; i < placed_; i++) {
                    uint32_t row = leaves_.which()[i];
                    count(key_of(rows_.lack(row)), leaves_.scratch()[i], rows_.weight(row));
                }
            });
            return cancelled(cancel_mark_) ? TK_CANCELLED : TK_OK;
        }
        std::vector<double> size = sizes(extent);
        uint64_t seed = seed_of(seed_, (uint64_t)ranks.iteration);
        bool chances = ranks.of == TK_CHANCES;
        count_ranks(ranks, counts, weights, [&](auto count) {
            for (size_t row = 0; row < size.size(); row++)
                if (!chances)
                    count(key_of(size[row]), 0, 1);
                else if (size[row] < ranks.least)
                    count(mixed(keys_[row] ^ seed), 0, 1);
        });
        return cancelled(cancel_mark_) ? TK_CANCELLED : TK_OK;
    }

    void next(const tk_ranks &ranks, uint64_t *out) const {
        std::fill_n(out, ranks.slots, UINT64_MAX);
        for (int64_t i = 0; i < placed_; i++) {
            uint64_t key = key_of(rows_.lack(leaves_.which()[i]));
            uint32_t slot = leaves_.scratch()[i];
            if (key > ranks.first[slot])
                out[slot] = std::min(out[slot], key);
        }
    }

    // Finds slots in a finished tree, so the scratch memory of its leaves is free.
    void place(bool all, const tk_node *nodes, const tk_side *sides, const uint64_t *sets,
               const int32_t *slot) {
        if (all)
            std::iota(leaves_.which(), leaves_.which() + rows_.n(), 0U);
        placed_ = all ? rows_.n() : leaves_.rows(0).n;
        const uint8_t *codes = rows_.codes();
        int64_t d = bins_.features();
        parallel_for((placed_ + STRETCH - 1) / STRETCH, threads_, [&](int64_t piece) {
            int64_t end = std::min(placed_, (piece + 1) * STRETCH);
            for (int64_t i = piece * STRETCH; i < end; i++) {
                const uint8_t *row = codes + (int64_t)leaves_.which()[i] * d;
                leaves_.scratch()[i] = (uint32_t)slot[leaf_of(row, nodes, sides, sets)];
            }
        });
    }

    int divide(const tk_part_split &split, int64_t *out) {
        if (cancelled(cancel_mark_))
            return TK_CANCELLED;
        if (!leaves_.has(split.left))
            leaves_.divide(split, adding_.codes, bins_.features(), threads_);
        return out ? add_up_leaf(split.wanted, out) : (int)TK_OK;
    }

    int add(int64_t output, const tk_node *nodes, const tk_side *sides, const uint64_t *sets) {
        for (Sample *rows : {&rows_, held_.get()})
            if (rows)
                add_to(*rows, output, nodes, sides, sets);
        return cancelled(cancel_mark_) ? TK_CANCELLED : TK_OK;
    }

    int64_t bins() const { return bins_.total(); }

private:
    void start(Sample &rows, const tusk_group &group, const double *base, const tk_started *from) {
        rows.start({base, base + outputs_});
        if (from)
            add_started(*from, group, outputs_, threads_, cancel_mark_, rows.margins(0));
    }

    int add_up_leaf(int32_t leaf, int64_t *out) {
        Range range = leaves_.rows(leaf);
        static_assert(sizeof(Sum) == 3 * sizeof(int64_t));
        add_up(adding_, leaves_.which() + range.begin, range.n, threads_, (Sum *)out, blocks_);
        return cancelled(cancel_mark_) ? TK_CANCELLED : TK_OK;
    }

    void add_to(Sample &rows, int64_t output, const tk_node *nodes, const tk_side *sides,
                const uint64_t *sets) {
        int64_t n = rows.n(), d = bins_.features();
        double *margins = rows.margins(output);
        const uint8_t *codes = rows.codes();
        parallel_for((n + STRETCH - 1) / STRETCH, threads_, [&](int64_t piece) {
            int64_t end = std::min(n, (piece + 1) * STRETCH);
            for (int64_t row = piece * STRETCH; row < end; row++)
                margins[row] += value_of(codes + row * d, nodes, sides, sets);
        });
    }

    std::vector<double> sizes(const tk_extent &extent) {
        rows_.prepare(widest_from(extent), threads_);
        return rows_.sizes(threads_);
    }

    static double value_of(const uint8_t *row, const tk_node *nodes, const tk_side *sides,
                           const uint64_t *sets) {
        return nodes[leaf_of(row, nodes, sides, sets)].value;
    }

    int threads_;
    int64_t cancel_mark_;
    tusk_memory *memory_;
    uint64_t seed_;
    double share_; // fraction of the rows that is drawn for a tree
    tusk_group group_, held_group_{};
    Bins bins_;
    int64_t outputs_;
    Sample rows_;
    std::unique_ptr<Sample> held_;
    Leaves leaves_;
    std::vector<uint64_t> keys_; // of rows, by which they are drawn
    Scales scales_;              // of all parts
    Rows adding_{};
    std::vector<Addend> blocks_;
    int64_t placed_ = 0;          // rows in `which` whose slots are in `scratch`
    std::vector<uint32_t> drawn_; // by their gradients, for an iteration
    Drawn by_side_{};
    int64_t drawn_for_ = -1;
};

} // namespace
} // namespace tusk

struct tk_part {
    tusk::Part part;
};

int tk_part_new(const tk_pass *pass, const tk_boost *boost, const tk_bins *bins,
                const tk_extent *extent, tusk_memory *memory, tk_part **out) {
    *out = nullptr;
    return tusk::code_of([&] {
        std::unique_ptr<tk_part> made(new tk_part{{*pass, *boost, *bins, memory}});
        int code = made->part.take(*extent);
        if (!code)
            *out = made.release();
        return code;
    });
}

void tk_part_free(tk_part *part) {
    delete part;
}

int tk_part_sums(const tk_part *part, double *out) {
    return tusk::code_of([&] {
        part->part.sums(out);
        return (int)TK_OK;
    });
}

int tk_part_start(tk_part *part, const double *base, const tk_started *from) {
    return tusk::code_of([&] { return part->part.start(base, from); });
}

int tk_part_losses(tk_part *part, double *out) {
    return tusk::code_of([&] {
        part->part.losses(out);
        return (int)TK_OK;
    });
}

int tk_part_keys(const tk_part *part, uint64_t *out) {
    return tusk::code_of([&] {
        std::vector<uint64_t> found = part->part.equal_keys();
        std::copy(found.begin(), found.end(), out);
        return (int)TK_OK;
    });
}

int tk_part_tell_apart(tk_part *part, const uint64_t *key, const int64_t *before, int64_t n) {
    return tusk::code_of([&] {
        part->part.tell_apart([&](uint64_t wanted) {
            const uint64_t *at = std::lower_bound(key, key + n, wanted);
            return at < key + n && *at == wanted ? (uint64_t)before[at - key] : 0;
        });
        return (int)TK_OK;
    });
}

int tk_part_begin(tk_part *part, int64_t iteration, int64_t output, const tk_extent *extent,
                  int64_t *out) {
    return tusk::code_of([&] { return part->part.begin(iteration, output, *extent, out); });
}

int tk_part_ranks(tk_part *part, const tk_ranks *ranks, const tk_extent *extent, int64_t *counts,
                  double *weights) {
    return tusk::code_of([&] { return part->part.ranks(*ranks, *extent, counts, weights); });
}

int tk_part_next(tk_part *part, const tk_ranks *ranks, uint64_t *out) {
    part->part.next(*ranks, out);
    return TK_OK;
}

int tk_part_leaves(tk_part *part, int64_t all, const tk_node *nodes, const tk_side *sides,
                   const uint64_t *sets, const int32_t *slot) {
    return tusk::code_of([&] {
        part->part.place(all, nodes, sides, sets, slot);
        return (int)TK_OK;
    });
}

int tk_part_draw(tk_part *part, int64_t iteration, const tk_extent *extent,
                 const tk_one_side *by) {
    return tusk::code_of([&] { return part->part.draw(iteration, *extent, *by); });
}

int tk_part_divide(tk_part *part, const tk_part_split *splits, int64_t n, int64_t *out) {
    return tusk::code_of([&] {
        for (int64_t i = 0; i < n; i++) {
            int64_t *to = out ? out + 3 * i * part->part.bins() : nullptr;
            if (int code = part->part.divide(splits[i], to))
                return code;
        }
        return (int)TK_OK;
    });
}

int tk_part_add(tk_part *part, int64_t output, const tk_node *nodes, const tk_side *sides,
                const uint64_t *sets) {
    return tusk::code_of([&] { return part->part.add(output, nodes, sides, sets); });
}
