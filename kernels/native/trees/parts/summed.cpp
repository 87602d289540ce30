// Grows trees by sums over rows in parts, leaf by leaf like grow.cpp. The sums of several leaves
// are requested from parts at once, so that a tree takes few rounds. These are the leaves with the
// largest gains at the time; the order of grow.cpp determines which leaf is split. If the number
// of leaves of a forest is unlimited, the rows of a leaf with few of them are requested, and its
// branch grows here. The features that a split draws depend on the number of nodes before it, so
// leaves are split in the order of grow.cpp.
#include <algorithm>
#include <memory>
#include <numeric>

#include "../../shared/charged.hpp"
#include "../../shared/pool.hpp"
#include "../categories/category_split.hpp"
#include "../losses/softmax.hpp"
#include "../sampling.hpp"
#include "given.hpp"

namespace tusk {
namespace {

using Histogram = std::vector<Sum>;

class Summed {
public:
    Summed(const tk_boost &boost, const tk_bins &bins, const tk_growing &growing)
        : given_(boost), boost_(boost), bins_(bins_from(bins)), growing_(growing),
          branches_(boost_, bins_, (int)growing.threads, growing.cancel_mark, nullptr) {}

    void begin(int64_t iteration, int64_t output, const tk_extent &extent, const Sum *root) {
        bool several = boost_.objective == TK_SOFTMAX;
        Weights weights = weights_from(extent);
        Units units =
            several ? ClassLosses::units_for(weights) : units_for(widest_from(extent), weights);
        boost_ = scaled(given_, weights.scale());
        rule_ = {&boost_, units, weights.scale()};
        choose_features(iteration, output);
        made_.clear(), leaves_.clear(), asked_.clear(), unmade_.clear();
        next_ = 1;
        Leaf leaf;
        leaf.sums.assign(root, root + bins_.total());
        leaf.sums.resize(bins_.total() + LANES, Sum{0, 0, 0}); // as many as a search reads beyond
                                                               // the last
        for (int32_t b = 0; b < bins_.count(0); b++) // every row is in one bin of feature 0
            leaf.sum += root[b];
        made_.push_back(Made{{}, -1, -1, leaf.sum.rows, value_of(leaf)});
        whole_ = boost_.averaged && boost_.num_leaves >= leaf.sum.rows / least_rows();
        search(leaf);
        leaves_.push_back(std::move(leaf));
        stack_ = {0};
    }

    int64_t wanted(int64_t most, tk_part_split *out) {
        asked_.clear();
        if (whole_)
            return wanted_of_whole(most, out);
        go_on();
        // Some of the remaining splits will be of leaves that do not exist yet.
        int64_t left = boost_.num_leaves - (int64_t)leaves_.size();
        int64_t some = std::min((left + 1) / 2, most);
        for (int32_t place : by_gain()) {
            if (some-- <= 0)
                break;
            if (leaves_[place].ahead || !needs_sums(leaves_[place]))
                continue;
            asked_.push_back(place);
            *out++ = split_of(leaves_[place]);
        }
        if (asked_.empty())
            write();
        return (int64_t)asked_.size();
    }

    void given(const Sum *sums) {
        for (int32_t place : asked_) {
            Leaf &leaf = leaves_[place];
            leaf.of_small.assign(sums, sums + bins_.total());
            leaf.of_small.resize(leaf.sums.size(), Sum{0, 0, 0});
            leaf.ahead = true;
            sums += bins_.total();
        }
    }

    // Leaves whose rows are requested, the next one first, with not many more rows than the limit.
    int64_t rows_wanted(int64_t most, int32_t *out) const {
        int64_t n = 0, left = whole_ && unmade_.empty() ? growing_.branch_rows : 0;
        for (size_t i = stack_.size(); i-- > 0 && n < most && left > 0; n++) {
            const Leaf &leaf = leaves_[stack_[i]];
            if (!leaf.branches)
                break;
            *out++ = leaf.number;
            left -= leaf.sum.rows;
        }
        return n;
    }

    // Grows the branch of the next such leaf. Returns a tk_code.
    int given_rows(const uint8_t *codes, const Addend *addends, int64_t n) {
        Leaf &leaf = leaves_[stack_.back()];
        std::vector<uint32_t> which(n), scratch(n);
        std::iota(which.begin(), which.end(), 0U);
        auto first = (int32_t)made_.size();
        int code = branches_.grow_branch({leaf.node, first, leaf.depth, leaf.limits}, rule_,
                                         Rows{codes, addends, &bins_}, all_features(),
                                         Order{which.data(), scratch.data(), n});
        if (code)
            return code;
        auto number = [&](int32_t node) { return node > 0 ? first + node - 1 : node; };
        for (size_t i = 0; i < branches_.made().size(); i++) {
            Made one = branches_.made()[i];
            one.left = number(one.left), one.right = number(one.right);
            if (i)
                made_.push_back(one);
            else
                one.value = made_[leaf.node].value, made_[leaf.node] = one;
        }
        leaf.branches = false;
        stack_.pop_back();
        return TK_OK;
    }

    const Tree &tree() const { return tree_; }

private:
    struct Leaf {
        int32_t node = 0, depth = 0;
        int32_t number = 0;    // its number in the parts
        int32_t left = -1;     // number of the left child, once it was requested
        bool ahead = false;    // whether the sums of a child have arrived
        bool branches = false; // whether its branch grows here, by its rows
        Sum sum{0, 0, 0};
        Limits limits;
        Split best;
        Histogram sums, of_small;
    };

    int64_t least_rows() const { return std::max<int64_t>(boost_.min_child_rows, 1); }
    bool has_few_rows(const Leaf &leaf) const {
        return whole_ && leaf.sum.rows <= growing_.branch_rows;
    }
    bool may_split(const Leaf &leaf) const {
        return leaf.sum.rows >= 2 * least_rows() &&
               (!boost_.max_depth || leaf.depth < boost_.max_depth);
    }
    bool smaller_left(const Leaf &leaf) const {
        return leaf.best.left.rows <= leaf.sum.rows - leaf.best.left.rows;
    }
    // Whether a child of a leaf may be split by its sums.
    bool needs_sums(const Leaf &leaf) const {
        Leaf large;
        large.depth = leaf.depth + 1;
        large.sum.rows = std::max(leaf.best.left.rows, leaf.sum.rows - leaf.best.left.rows);
        return may_split(large) && !has_few_rows(large);
    }
    // Of boosted trees that grow on drawn rows, the value of a single leaf would only follow the
    // draw (boost.cpp).
    void write() {
        if (made_.size() == 1 && draws_rows(boost_) && !boost_.averaged)
            made_[0].value = 0;
        write_tree(made_, bins_, rule_.scale, &tree_);
    }

    double value_of(const Leaf &leaf) const {
        return boost_.learning_rate * rule_.value(leaf.sum, leaf.limits);
    }

    void choose_features(int64_t iteration, int64_t output) {
        seed_ = seed_of(seed_of(boost_.seed, (uint64_t)iteration), (uint64_t)output);
        choose(draw_features(bins_.features(), boost_.feature_fraction, seed_));
        branches_.draw_features_by(seed_);
    }
    void choose(const std::vector<int32_t> &features) {
        numbers_.clear(), categories_.clear();
        for (int32_t f : features)
            (bins_.category(f) ? categories_ : numbers_).push_back(f);
    }
    std::vector<int32_t> all_features() const { return draw_features(bins_.features(), 1, 0); }

    Split best_of(const Leaf &leaf) const {
        return best_split_of(rule_, bins_, leaf.sums.data(), leaf.sum, numbers_, categories_,
                             leaf.limits);
    }

    // As in grow.cpp: twice as many features are drawn if none of them splits the leaf.
    Split best_of_drawn(const Leaf &leaf) {
        uint64_t seed = seed_of(seed_, (uint64_t)leaf.node);
        for (double share = boost_.node_fraction;; share *= 2, seed = mixed(seed + 1)) {
            choose(draw_features(bins_.features(), share, seed));
            Split best = best_of(leaf);
            if (best.feature >= 0 || share >= 1)
                return best;
        }
    }

    void search(Leaf &leaf) {
        leaf.best = Split{};
        leaf.branches = may_split(leaf) && has_few_rows(leaf);
        if (!may_split(leaf) || leaf.branches)
            leaf.sums = {};
        if (leaf.sums.empty())
            return;
        leaf.best = boost_.averaged ? best_of_drawn(leaf) : best_of(leaf);
        if (leaf.best.feature < 0)
            leaf.sums = {};
    }

    // Leaves that gain, by falling gain; ties by number.
    std::vector<int32_t> by_gain() const {
        std::vector<int32_t> out;
        for (int32_t place = 0; place < (int32_t)leaves_.size(); place++)
            if (leaves_[place].best.feature >= 0)
                out.push_back(place);
        std::stable_sort(out.begin(), out.end(), [&](int32_t a, int32_t b) {
            return leaves_[a].best.gain > leaves_[b].best.gain;
        });
        return out;
    }

    // Splits leaves as long as the needed sums have arrived.
    void go_on() {
        while ((int32_t)leaves_.size() < boost_.num_leaves) {
            auto less = [](const Leaf &a, const Leaf &b) { return a.best.gain < b.best.gain; };
            auto best = std::max_element(leaves_.begin(), leaves_.end(), less);
            if (best->best.feature < 0)
                break;
            bool last = (int32_t)leaves_.size() + 1 == boost_.num_leaves;
            if (!last && !best->ahead && needs_sums(*best))
                return;
            split(*best, last);
        }
        for (Leaf &leaf : leaves_)
            leaf.best = Split{};
    }

    // Like split_all of grow.cpp.
    void go_on_whole() {
        while (!stack_.empty()) {
            int32_t place = stack_.back();
            Leaf &leaf = leaves_[place];
            bool splits = leaf.best.feature >= 0;
            if (leaf.branches || (splits && !leaf.ahead && needs_sums(leaf)))
                return;
            stack_.pop_back();
            if (!splits)
                continue;
            if (!leaf.ahead)
                unmade_.push_back(split_of(leaf)), unmade_.back().wanted = -1;
            split(leaf, false);
            stack_.push_back((int32_t)leaves_.size() - 1);
            stack_.push_back(place);
        }
    }

    // First the splits without the sums of a child, then leaves in order.
    int64_t wanted_of_whole(int64_t most, tk_part_split *out) {
        go_on_whole();
        if (stack_.empty()) {
            write();
            return 0;
        }
        int64_t n = std::min((int64_t)unmade_.size(), most);
        std::copy_n(unmade_.begin(), n, out);
        unmade_.erase(unmade_.begin(), unmade_.begin() + n);
        bool rows = leaves_[stack_.back()].branches;
        for (size_t i = stack_.size(); !rows && i-- > 0 && n < most;) {
            Leaf &leaf = leaves_[stack_[i]];
            if (leaf.best.feature < 0 || leaf.ahead || !needs_sums(leaf))
                continue;
            asked_.push_back(stack_[i]);
            out[n++] = split_of(leaf);
        }
        return n;
    }

    tk_part_split split_of(Leaf &leaf) {
        const Split &best = leaf.best;
        if (leaf.left < 0)
            leaf.left = next_, next_ += 2;
        Side side = side_of(best, bins_);
        tk_part_split out{leaf.number,
                          leaf.left,
                          leaf.left + 1,
                          best.feature,
                          0,
                          best.by_level,
                          {side.bin, side.also, side.set},
                          {}};
        out.wanted = smaller_left(leaf) ? out.left : out.right;
        std::copy_n(best.set.words, 4, out.set);
        return out;
    }

    // The larger child's sums are the parent's minus those of the smaller one.
    void fill(Leaf &parent, Leaf &left, Leaf &right) const {
        Leaf &small = smaller_left(parent) ? left : right;
        Leaf &large = smaller_left(parent) ? right : left;
        large.sums = std::move(parent.sums);
        subtract(parent.of_small.data(), bins_.total(), large.sums.data());
        small.sums = std::move(parent.of_small);
    }

    void split(Leaf &leaf, bool last) {
        Leaf parent = std::move(leaf), left, right;
        const Split &best = parent.best;
        left.depth = right.depth = parent.depth + 1;
        left.node = (int32_t)made_.size(), right.node = left.node + 1;
        left.number = parent.left, right.number = parent.left + 1;
        left.sum = best.left, right.sum = parent.sum - best.left;
        ChildLimits limits = limits_behind(rule_, best, right.sum, parent.limits);
        left.limits = limits.left, right.limits = limits.right;
        made_[parent.node].split = best;
        made_[parent.node].left = left.node;
        made_[parent.node].right = right.node;
        for (const Leaf *child : {&left, &right})
            made_.push_back(Made{{}, -1, -1, child->sum.rows, value_of(*child)});
        if (!last && parent.ahead)
            fill(parent, left, right);
        search(left);
        search(right);
        leaf = std::move(left);
        leaves_.push_back(std::move(right));
    }

    tk_boost given_, boost_; // the latter for scaled weights
    Bins bins_;
    tk_growing growing_;
    Grower<Sum> branches_;
    Rule rule_{};
    uint64_t seed_ = 0;
    std::vector<int32_t> numbers_, categories_; // the tree's features, or those of a split
    std::vector<Made> made_;
    std::vector<Leaf> leaves_;
    std::vector<int32_t> asked_;        // leaves for which a child's sums come next
    int32_t next_ = 1;                  // number of the next leaf
    bool whole_ = false;                // the number of leaves is unlimited, and then:
    std::vector<int32_t> stack_;        // leaves, the last one is split next
    std::vector<tk_part_split> unmade_; // splits that parts have not made yet
    Tree tree_;
};

} // namespace
} // namespace tusk

struct tk_summed {
    tusk::Summed summed;
};

int tk_summed_new(const tk_boost *boost, const tk_bins *bins, const tk_growing *growing,
                  tk_summed **out) {
    *out = nullptr;
    return tusk::code_of([&] {
        *out = new tk_summed{{*boost, *bins, *growing}};
        return (int)TK_OK;
    });
}

void tk_summed_free(tk_summed *summed) {
    delete summed;
}

int tk_summed_begin(tk_summed *summed, int64_t iteration, int64_t output, const tk_extent *extent,
                    const int64_t *root) {
    return tusk::code_of([&] {
        summed->summed.begin(iteration, output, *extent, (const tusk::Sum *)root);
        return (int)TK_OK;
    });
}

int64_t tk_summed_wanted(tk_summed *summed, int64_t most, tk_part_split *out) {
    int64_t n = -1;
    tusk::code_of([&] {
        n = summed->summed.wanted(most, out);
        return (int)TK_OK;
    });
    return n;
}

int tk_summed_given(tk_summed *summed, const int64_t *sums) {
    return tusk::code_of([&] {
        summed->summed.given((const tusk::Sum *)sums);
        return (int)TK_OK;
    });
}

int64_t tk_summed_rows_wanted(const tk_summed *summed, int64_t most, int32_t *leaves) {
    return summed->summed.rows_wanted(most, leaves);
}

int tk_summed_given_rows(tk_summed *summed, const uint8_t *codes, const int64_t *addends,
                         int64_t n) {
    return tusk::code_of(
        [&] { return summed->summed.given_rows(codes, (const tusk::Addend *)addends, n); });
}

void tk_summed_sizes(const tk_summed *summed, int64_t *out) {
    const tusk::Tree &tree = summed->summed.tree();
    out[0] = (int64_t)tree.nodes.size(), out[1] = (int64_t)tree.codes.size();
    out[2] = (int64_t)tree.sets.size();
}

void tk_summed_copy(const tk_summed *summed, const tk_summed_arrays *to) {
    const tusk::Tree &tree = summed->summed.tree();
    std::copy(tree.nodes.begin(), tree.nodes.end(), to->nodes);
    std::copy(tree.gain.begin(), tree.gain.end(), to->gain);
    std::copy(tree.rows.begin(), tree.rows.end(), to->rows);
    std::copy(tree.sets.begin(), tree.sets.end(), to->sets);
    for (size_t i = 0; i < tree.side.size(); i++)
        to->sides[i] = {tree.side[i].bin, tree.side[i].also, tree.side[i].set};
    for (size_t i = 0; i < tree.codes.size(); i++)
        std::copy_n(tree.codes[i].words, 4, to->codes + 4 * i);
}
