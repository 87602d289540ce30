// Boosts the groups of a pass: many small ones side by side, a large one with all threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "../shared/charged.hpp"
#include "../shared/pool.hpp"
#include "gradients.hpp"
#include "tree.hpp"

namespace tusk {
namespace {

constexpr int64_t LARGE = 1 << 21; // cells of a group that is worth several threads
constexpr double NONE = std::numeric_limits<double>::quiet_NaN();

struct Forest {
    double base = 0, base_loss = 0;
    std::vector<Tree> trees;
    std::vector<double> loss, held; // mean, after each tree that was grown

    int64_t kept() const { return (int64_t)trees.size(); }
};

// Memory per row of one group: codes, margins, what a row adds, and two orders.
struct Space {
    Charged<uint8_t> codes;
    Charged<double> margins;
    Charged<Addend> addends;
    Charged<uint32_t> which, scratch;

    int take(tusk_memory *memory, size_t n, size_t d, bool grows) {
        int code = codes.take(memory, n * d);
        code = code ? code : margins.take(memory, n);
        if (code || !grows)
            return code;
        code = addends.take(memory, n);
        code = code ? code : which.take(memory, n);
        return code ? code : scratch.take(memory, n);
    }
};

uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

// Boosting of one group.
class Boosting {
public:
    Boosting(const tk_pass &pass, const tk_boost &boost, int64_t group, int threads,
             tusk_memory *memory)
        : pass_(pass), boost_(boost), group_(pass.groups[group]), threads_(threads),
          memory_(memory), index_(group) {}

    int run(Forest *out) {
        bool narrow = group_.n_rows <= BLOCK && threads_ == 1;
        return narrow ? grow_all<Addend>(out) : grow_all<Sum>(out);
    }

private:
    template <class Cell> int grow_all(Forest *out) {
        bins_ = find_bins(group_, boost_.max_bins, least_in_bin(), threads_);
        Labels labels = labels_of(group_);
        int64_t n = group_.n_rows;
        int code = space_.take(memory_, n, group_.dim, true);
        if (code)
            return code;
        code_rows(group_, bins_, threads_, space_.codes.data());
        out->base = best_constant(labels);
        std::fill_n(space_.margins.data(), n, out->base);
        code = prepare_held(out->base);
        Grower<Cell> grower(boost_, bins_, threads_, pass_.cancel_mark, memory_);
        Units units{};
        out->base_loss =
            take_losses(labels, space_.margins.data(), threads_, space_.addends.data(), &units);
        while (!code && (int32_t)out->loss.size() < boost_.trees) {
            code = cancelled(pass_.cancel_mark) ? TK_CANCELLED : add_tree(grower, units, out);
            if (code || !went_on(*out))
                break;
            out->loss.push_back(take_losses(labels, space_.margins.data(), threads_,
                                            space_.addends.data(), &units));
            if (held_)
                out->held.push_back(take_losses(labels_of(*held_), held_space_.margins.data(),
                                                threads_, nullptr, nullptr));
            if (out_of_patience(*out))
                break;
        }
        keep_best(out);
        return code;
    }

    // Narrower bins cost time and lower no held-out loss: with leaves of at least 20 rows, of 270
    // rows of four data sets, bins of 3 rows were no better than those of 8.
    int64_t least_in_bin() const {
        return std::max<int64_t>(3, std::min<int64_t>(boost_.min_child_rows, 20) * 2 / 5);
    }

    Labels labels_of(const tusk_group &group) const {
        double positive = pass_.positive ? pass_.positive[index_] : 1;
        return {&group, boost_.objective, positive};
    }

    int prepare_held(double base) {
        held_ = boost_.held && boost_.held[index_].n_rows ? boost_.held + index_ : nullptr;
        if (!held_)
            return TK_OK;
        int code = held_space_.take(memory_, held_->n_rows, held_->dim, false);
        if (code)
            return code;
        code_rows(*held_, bins_, threads_, held_space_.codes.data());
        std::fill_n(held_space_.margins.data(), held_->n_rows, base);
        return TK_OK;
    }

    // The features of the next tree, ascending.
    std::vector<int32_t> draw_features(size_t tree) const {
        std::vector<int32_t> all(bins_.features());
        std::iota(all.begin(), all.end(), 0);
        if (boost_.feature_fraction >= 1)
            return all;
        auto wanted = (size_t)std::ceil(boost_.feature_fraction * (double)all.size());
        uint64_t state = mixed(boost_.seed + UINT64_C(0x9e3779b97f4a7c15) * (tree + 1));
        for (size_t i = 0; i < wanted; i++) {
            state += UINT64_C(0x9e3779b97f4a7c15);
            std::swap(all[i], all[i + mixed(state) % (all.size() - i)]);
        }
        all.resize(std::max<size_t>(wanted, 1));
        std::sort(all.begin(), all.end());
        return all;
    }

    template <class Cell> int add_tree(Grower<Cell> &grower, const Units &units, Forest *out) {
        uint32_t *which = space_.which.data();
        std::iota(which, which + group_.n_rows, 0U);
        Rows rows{space_.codes.data(), space_.addends.data(), &bins_};
        Tree tree;
        int code = grower.grow(Rule{&boost_, units}, rows, draw_features(out->trees.size()),
                               Order{which, space_.scratch.data(), group_.n_rows},
                               space_.margins.data(), &tree);
        if (held_ && !code) {
            const uint8_t *row = held_space_.codes.data();
            for (int64_t i = 0; i < held_->n_rows; i++, row += held_->dim)
                held_space_.margins.data()[i] += tree.of(row);
        }
        out->trees.push_back(std::move(tree));
        return code;
    }

    // A tree without a split changes nothing, and neither would the next one with all features.
    bool went_on(Forest &forest) const {
        if (forest.trees.back().nodes.size() > 1 || boost_.feature_fraction < 1)
            return true;
        forest.trees.pop_back();
        return false;
    }

    static size_t best_of(const std::vector<double> &held) {
        return (size_t)(std::min_element(held.begin(), held.end()) - held.begin());
    }

    bool out_of_patience(const Forest &forest) const {
        return held_ && boost_.patience &&
               forest.held.size() - 1 - best_of(forest.held) >= (size_t)boost_.patience;
    }

    void keep_best(Forest *out) const {
        if (held_ && boost_.patience && !out->held.empty())
            out->trees.resize(best_of(out->held) + 1);
    }

    const tk_pass &pass_;
    const tk_boost &boost_;
    const tusk_group &group_;
    int threads_;
    tusk_memory *memory_;
    int64_t index_;
    Bins bins_;
    Space space_, held_space_;
    const tusk_group *held_ = nullptr;
};

} // namespace
} // namespace tusk

struct tk_forests {
    std::vector<tusk::Forest> of;
};

using tusk::Forest;

int tk_boost_groups(const tk_pass *pass, const tk_boost *boost, tusk_memory *memory,
                    tk_forests **out) {
    *out = nullptr;
    return tusk::code_of([&] {
        auto forests = std::make_unique<tk_forests>();
        forests->of.resize(pass->n_groups);
        std::vector<int64_t> small, large;
        for (int64_t g = 0; g < pass->n_groups; g++) {
            bool is_large = pass->groups[g].n_rows * pass->groups[g].dim >= tusk::LARGE;
            (is_large ? large : small).push_back(g);
        }
        std::vector<int> codes(pass->n_groups, TK_OK);
        auto run = [&](int64_t g, int threads) {
            codes[g] = tusk::Boosting(*pass, *boost, g, threads, memory).run(&forests->of[g]);
        };
        for (int64_t g : large)
            run(g, pass->threads);
        tusk::parallel_for((int64_t)small.size(), pass->threads, [&](int64_t i) {
            if (!tusk::cancelled(pass->cancel_mark))
                run(small[i], 1);
        });
        if (tusk::cancelled(pass->cancel_mark))
            return (int)TK_CANCELLED;
        for (int code : codes)
            if (code)
                return code;
        *out = forests.release();
        return (int)TK_OK;
    });
}

void tk_forests_free(tk_forests *forests) {
    delete forests;
}

void tk_forests_about(const tk_forests *forests, tk_boosted *out) {
    for (const Forest &f : forests->of) {
        int64_t nodes = 0;
        for (const auto &tree : f.trees)
            nodes += (int64_t)tree.nodes.size();
        bool held = !f.held.empty();
        double best = held ? *std::min_element(f.held.begin(), f.held.end()) : tusk::NONE;
        *out++ = tk_boosted{f.base, f.base_loss, f.kept(), (int64_t)f.loss.size(), nodes, best};
    }
}

void tk_forests_copy(const tk_forests *forests, int64_t group, const tk_forest_arrays *to) {
    const Forest &f = forests->of[group];
    tk_forest_arrays at = *to;
    *at.start = 0;
    for (const auto &tree : f.trees) {
        at.nodes = std::copy(tree.nodes.begin(), tree.nodes.end(), at.nodes);
        at.gain = std::copy(tree.gain.begin(), tree.gain.end(), at.gain);
        at.rows = std::copy(tree.rows.begin(), tree.rows.end(), at.rows);
        at.start[1] = at.start[0] + (int64_t)tree.nodes.size();
        at.start++;
    }
    std::copy(f.loss.begin(), f.loss.end(), at.loss);
    if (at.held)
        std::copy(f.held.begin(), f.held.end(), at.held);
}
