// Boosts the groups of a pass: many small ones concurrently, a large one with all threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "../shared/charged.hpp"
#include "../shared/common/groups.hpp"
#include "../shared/pool.hpp"
#include "../shared/telling/progress.hpp"
#include "categories/levels.hpp"
#include "forest/forest.hpp"
#include "near/near_grow.hpp"
#include "sample.hpp"

namespace tusk {
namespace {

// The rules for one group, whose leaves have their least rows and curvature, for scaled weights.
tk_boost rules_of(const tk_boost &boost, const tusk_group &group) {
    Labels labels{&group, boost.objective, 1, 0, weights_of(group)};
    tk_boost own = scaled(boost, labels.weights.scale());
    if (!own.min_child_rows)
        own.min_child_rows = tk_child_rows(group.n_rows);
    if (own.feature_fraction == 0)
        own.feature_fraction = tk_feature_fraction(group.n_rows);
    if (own.row_fraction == 0)
        own.row_fraction = tk_row_fraction(group.n_rows);
    if (boost.min_child_hessian >= 0 && boost.l2 >= 0)
        return own;
    MeanRow mean = mean_row_of(labels);
    double unit = mean.weight;
    if (has_log_link(boost.objective))
        unit *= tk_usual_curvature(boost.objective, boost.shape, mean.label);
    if (boost.min_child_hessian < 0)
        own.min_child_hessian = -unit * boost.min_child_hessian;
    if (boost.l2 < 0)
        own.l2 = unit * tk_l2(group.n_rows);
    return own;
}

// Boosting of one group.
class Boosting {
public:
    Boosting(const tk_pass &pass, const tk_boost &boost, int64_t group, int threads,
             tusk_memory *memory, const Progress &progress)
        : pass_(pass), boost_(rules_of(boost, pass.groups[group])), group_(pass.groups[group]),
          threads_(threads), memory_(memory), progress_(progress), index_(group),
          rows_(group_, boost_, positive(), classes()) {
        if (boost_.held && boost_.held[group].n_rows)
            held_ = std::make_unique<Sample>(boost_.held[group], boost_, positive(), classes());
    }

    int run(Forest *out) {
        bool narrow = group_.n_rows <= BLOCK && threads_ == 1;
        return narrow ? grow_all<Addend>(out) : grow_all<Sum>(out);
    }

private:
    template <class Cell> int grow_all(Forest *out) {
        if (categories() && !are_levels(group_, categories()))
            return TK_REFUSED;
        bins_ = find_bins(group_, boost_, categories(), threads_);
        int code = prepare(out);
        if (code)
            return code;
        Grower<Cell> grower(boost_, bins_, threads_, pass_.cancel_mark, memory_);
        out->base_loss = rows_.losses(threads_);
        double loss = out->base_loss;
        while (std::isfinite(loss) && (int32_t)out->loss.size() < boost_.trees) {
            code = cancelled(pass_.cancel_mark) ? TK_CANCELLED : add_trees(grower, out);
            if (code || !went_on(out))
                break;
            out->loss.push_back(loss = rows_.losses(threads_));
            progress_.done(1, group_.n_rows);
            if (held_)
                out->held.push_back(held_->losses(threads_));
            if (out_of_patience(*out))
                break;
        }
        keep_best(out);
        return code;
    }

    double positive() const { return pass_.positive ? pass_.positive[index_] : 1; }
    const double *classes() const {
        return boost_.classes ? boost_.classes + index_ * boost_.n_classes : nullptr;
    }

    const uint8_t *categories() const {
        return boost_.categorical ? boost_.categorical + index_ * group_.dim : nullptr;
    }

    int prepare(Forest *out) {
        if (one_side())
            rows_.make_room(most_factor(rates(), rows_.n()));
        int code = rows_.take(bins_, threads_, true, spends(), memory_);
        code = code ? code : which_.take(memory_, rows_.n());
        code = code ? code : scratch_.take(memory_, rows_.n());
        code = code || !draws() ? code : drawn_.take(memory_, rows_.n());
        code = code || !draws() ? code : margins_before_.take(memory_, rows_.n());
        code = code ? code : prepare_near();
        if (!code && held_)
            code = held_->take(bins_, threads_, false, spends(), memory_);
        if (code)
            return code;
        const tk_started *from = boost_.from;
        out->base = rows_.bases();
        if (from)
            out->base.assign(from->base, from->base + out->outputs());
        start(rows_, group_, *out);
        rows_.estimate_threshold();
        if (held_) {
            start(*held_, boost_.held[index_], *out);
            held_->measure_as(rows_);
        }
        if (draws())
            keys_ = rows_.keys();
        return TK_OK;
    }

    // Features stay in memory if earlier trees are applied to them.
    bool spends() const { return boost_.spends && !boost_.from; }

    // Prepares the faster growth of trees of small groups.
    int prepare_near() {
        if (!NearGrower::fits(boost_, bins_, rows_.n()))
            return threads_ == 1 ? rows_.number_cells(bins_, memory_) : TK_OK;
        near_ = std::make_unique<NearGrower>(boost_, bins_, pass_.cancel_mark, memory_);
        return near_->take(rows_.codes(), rows_.n());
    }

    // Sets the margins before the first grown tree.
    void start(Sample &rows, const tusk_group &group, const Forest &out) {
        rows.start(out.base);
        if (boost_.from)
            add_started(*boost_.from, group, out.outputs(), threads_, pass_.cancel_mark,
                        rows.margins(0));
    }

    // Grows the trees of one iteration, one for each output.
    template <class Cell> int add_trees(Grower<Cell> &grower, Forest *out) {
        int64_t outputs = out->outputs();
        size_t iteration = before(outputs) + out->loss.size();
        uint64_t seed = seed_of(boost_.seed, iteration);
        int64_t n = draw(iteration, seed);
        for (int64_t k = 0; k < outputs; k++) {
            if (boost_.feature_fraction < 1 || features_.empty())
                features_ = draw_features(group_.dim, boost_.feature_fraction, seed_of(seed, k));
            int code = add_tree(grower, features_, k, n, out);
            if (code)
                return code;
        }
        return TK_OK;
    }

    bool draws() const { return draws_rows(boost_); }
    bool one_side() const { return boost_.other_rate > 0; }
    OneSide rates() const { return {boost_.top_rate, boost_.other_rate}; }

    // Writes the rows of an iteration to drawn_. Returns their number.
    int64_t draw(size_t iteration, uint64_t seed) {
        by_side_ = Drawn{};
        if (one_side() && (double)iteration >= std::floor(1 / boost_.learning_rate)) {
            by_side_ = draw_one_side(rows_.sizes(threads_), keys_, rates(), seed, drawn_.data());
            return by_side_.n;
        }
        if (boost_.row_fraction < 1)
            return draw_rows(keys_, boost_.row_fraction, seed, drawn_.data());
        if (draws())
            std::iota(drawn_.data(), drawn_.data() + rows_.n(), 0U);
        return rows_.n();
    }

    template <class Cell>
    int add_tree(Grower<Cell> &grower, const std::vector<int32_t> &features, int64_t k, int64_t n,
                 Forest *out) {
        if (draws())
            std::copy_n(drawn_.data(), n, which_.data());
        else
            in_stretches(n, [&](int64_t begin, int64_t end) {
                std::iota(which_.data() + begin, which_.data() + end, (uint32_t)begin);
            });
        Rows rows = rows_.adding(k, bins_, threads_);
        if (by_side_.n)
            rows_.count_several_times(by_side_, drawn_.data());
        auto lacking = [&](const uint32_t *which, int64_t some) {
            return rows_.lacking(which, some);
        };
        LeafValue own(lacking);
        Tree tree;
        Rule rule{&boost_, rows_.units(), rows_.scale()};
        double *margins = rows_.margins(k);
        if (draws())
            std::copy_n(margins, rows_.n(), margins_before_.data());
        int code =
            near_ && near_->pack(rule, rows.addends)
                ? near_->grow(features, which_.data(), n, margins, &tree)
                : grower.grow(rule, rows, features, Order{which_.data(), scratch_.data(), n},
                              rows_.has_own_values() ? &own : nullptr, margins, &tree);
        if (draws() && tree.nodes.size() == 1) { // its value would only follow the draw
            std::copy_n(margins_before_.data(), rows_.n(), margins);
            tree.nodes[0].value = 0;
        } else if (!code) {
            add_to_others(tree, k, n);
        }
        out->trees.push_back(std::move(tree));
        return code;
    }

    // Adds the values of a tree to the rows on which it did not grow.
    void add_to_others(const Tree &tree, int64_t k, int64_t n) {
        const uint32_t *drawn = drawn_.data();
        if (n < rows_.n())
            in_stretches(rows_.n(), [&](int64_t begin, int64_t end) {
                const uint32_t *next = std::lower_bound(drawn, drawn + n, (uint32_t)begin);
                for (int64_t row = begin; row < end; row++) {
                    if (next < drawn + n && *next == row)
                        next++;
                    else
                        rows_.add(tree, k, row);
                }
            });
        if (held_)
            in_stretches(held_->n(), [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; row++)
                    held_->add(tree, k, row);
            });
    }

    // Calls body(begin, end) for parts of n rows, by all threads.
    template <class Body> void in_stretches(int64_t n, Body body) const {
        constexpr int64_t STRETCH = 1 << 14;
        parallel_for((n + STRETCH - 1) / STRETCH, threads_,
                     [&](int64_t i) { body(i * STRETCH, std::min(n, (i + 1) * STRETCH)); });
    }

    static bool any_split(std::vector<Tree>::const_iterator first,
                          std::vector<Tree>::const_iterator end) {
        return std::any_of(first, end, [](const Tree &tree) { return tree.nodes.size() > 1; });
    }

    // Trees without a split change nothing, and neither would those of the next iteration if
    // nothing is drawn.
    bool went_on(Forest *forest) const {
        auto first = forest->trees.end() - forest->outputs();
        if (any_split(first, forest->trees.end()) || boost_.feature_fraction < 1 || draws())
            return true;
        forest->trees.erase(first, forest->trees.end());
        return false;
    }

    // Number of iterations in earlier trees.
    size_t before(int64_t outputs) const {
        return boost_.from ? (size_t)(boost_.from->trees / outputs) : 0;
    }

    static size_t best_of(const std::vector<double> &held) {
        return (size_t)(std::min_element(held.begin(), held.end()) - held.begin());
    }

    bool out_of_patience(const Forest &forest) const {
        return held_ && boost_.patience &&
               forest.held.size() - 1 - best_of(forest.held) >= (size_t)boost_.patience;
    }

    void keep_best(Forest *out) const {
        if (!any_split(out->trees.begin(), out->trees.end()))
            out->trees.clear(), out->loss.clear(), out->held.clear();
        const double *held = held_ && boost_.patience ? out->held.data() : nullptr;
        int64_t kept =
            tk_kept_iterations(out->base_loss, out->loss.data(), held, (int64_t)out->loss.size());
        out->trees.resize(kept * out->outputs());
    }

    const tk_pass &pass_;
    const tk_boost boost_;
    const tusk_group &group_;
    int threads_;
    tusk_memory *memory_;
    const Progress &progress_;
    int64_t index_;
    Bins bins_;
    Sample rows_;
    std::unique_ptr<Sample> held_;
    std::unique_ptr<NearGrower> near_; // for a small group
    Charged<uint32_t> which_, scratch_, drawn_;
    Charged<double> margins_before_; // the last tree
    std::vector<int32_t> features_;  // of the growing tree
    std::vector<uint64_t> keys_;     // of rows; none if all rows are drawn
    Drawn by_side_{};                // for this iteration; n is 0 if rows are not drawn by
                                     // gradients
};

} // namespace
} // namespace tusk

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
        tusk::Progress progress((int64_t)boost->trees * pass->n_groups, pass->n_groups);
        int code = tusk::train_groups(*pass, large, small, [&](int64_t g, int threads) {
            Forest *grown = &forests->of[g];
            int code =
                boost->averaged
                    ? tusk::grow_forest({*pass, *boost, g, threads, memory, progress}, grown)
                    : tusk::Boosting(*pass, *boost, g, threads, memory, progress).run(grown);
            progress.done(boost->trees - (int64_t)grown->loss.size(), 0); // skipped iterations
            return code;
        });
        if (code == TK_OK)
            *out = forests.release();
        return code;
    });
}
