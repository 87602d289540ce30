// Grows one tree, leaf by leaf.
#include <algorithm>
#include <cstring>
#include <new>

#include "../shared/pool.hpp"
#include "categories/category_split.hpp"
#include "sampling.hpp"
#include "tree.hpp"

namespace tusk {

template <class Cell>
Grower<Cell>::Grower(const tk_boost &boost, const Bins &bins, int threads, int64_t cancel_mark,
                     tusk_memory *memory)
    : boost_(boost), bins_(bins), threads_(threads), cancel_mark_(cancel_mark), memory_(memory) {
    constexpr int64_t PIECE = (2 << 20) - 4096; // bytes of a slab
    auto size = (int64_t)(histogram_size() * sizeof(Cell));
    together_ = (int32_t)std::clamp<int64_t>(PIECE / size, 1, boost.num_leaves);
}

template <class Cell> bool Grower<Cell>::may_split(const Leaf &leaf) const {
    return leaf.n >= 2 * std::max<int64_t>(boost_.min_child_rows, 1) &&
           (!boost_.max_depth || leaf.depth < boost_.max_depth);
}

// Several histograms share a piece of memory, since an account allocates whole slabs.
template <class Cell> int32_t Grower<Cell>::take_slot() {
    if (free_.empty()) {
        auto first = (int32_t)sums_.size() * together_;
        sums_.push_back(std::make_unique<Charged<Cell>>());
        if (sums_.back()->take(memory_, (size_t)together_ * histogram_size()))
            throw std::bad_alloc();
        for (int32_t slot = first + together_; slot-- > first;) {
            std::memset(histogram(slot) + bins_.total(), 0, LANES * sizeof(Cell));
            free_.push_back(slot);
        }
    }
    int32_t slot = free_.back();
    free_.pop_back();
    return slot;
}

template <class Cell> void Grower<Cell>::give_back(int32_t slot) {
    if (slot >= 0)
        free_.push_back(slot);
}

// Whether adding up the rows for drawn features takes less time than subtracting all bins of a
// sibling.
template <class Cell> bool Grower<Cell>::has_few_rows(const Leaf &leaf) const {
    double drawn = boost_.node_fraction * bins_.features();
    return boost_.averaged && (double)leaf.n * drawn <= 2.0 * bins_.total();
}

template <class Cell> double Grower<Cell>::value_of(const Leaf &leaf) const {
    return boost_.learning_rate * rule_->value(leaf.sum, leaf.limits);
}

template <class Cell> void Grower<Cell>::renew(const LeafValue &own) {
    for (const Leaf &leaf : leaves_)
        made_[leaf.node].value = boost_.learning_rate * own(rows_of(leaf), leaf.n);
}

template <class Cell> Split Grower<Cell>::best_of(const Leaf &leaf, const Cell *sums) {
    return best_split_of(*rule_, bins_, sums, leaf.sum, numbers_, categories_, leaf.limits);
}

// The histogram of a leaf; for one with few rows, only of the drawn features.
template <class Cell> const Cell *Grower<Cell>::sums_of_drawn(const Leaf &leaf) {
    if (leaf.slot >= 0)
        return histogram(leaf.slot);
    if (own_slot_ == NO_SLOT)
        own_slot_ = take_slot();
    Cell *sums = histogram(own_slot_);
    for (const auto *some : {&numbers_, &categories_})
        for (int32_t f : *some)
            add_up_one(*rows_, rows_of(leaf), leaf.n, f, sums + bins_.first[f]);
    return sums;
}

// Whether all rows of a leaf have equal addends, so that no split gains.
template <class Cell> bool Grower<Cell>::is_pure(const Leaf &leaf) const {
    const uint32_t *which = rows_of(leaf);
    Addend first = rows_->addends[which[0]];
    return std::all_of(which, which + leaf.n, [&](uint32_t row) {
        Addend one = rows_->addends[row];
        return one[0] == first[0] && one[1] == first[1];
    });
}

// The best split by drawn features, twice as many if none of them splits the leaf.
template <class Cell> Split Grower<Cell>::best_of_drawn(const Leaf &leaf) {
    if (is_pure(leaf))
        return Split{};
    uint64_t seed = seed_of(seed_, number_of(leaf.node));
    for (double share = boost_.node_fraction;; share *= 2, seed = mixed(seed + 1)) {
        choose_features(draw_features(bins_.features(), share, seed));
        bool few =
            leaf.slot == BY_ROWS && tusk::has_few_rows(*rule_, leaf.n) && categories_.empty();
        Split best = few ? best_split_of_few(*rule_, bins_, *rows_,
                                             {rows_of(leaf), leaf.n, leaf.sum}, numbers_)
                         : best_of(leaf, sums_of_drawn(leaf));
        if (best.feature >= 0 || share >= 1)
            return best;
    }
}

template <class Cell> void Grower<Cell>::search(Leaf &leaf) {
    leaf.best = Split{};
    if (leaf.slot == NO_SLOT)
        return;
    leaf.best = boost_.averaged ? best_of_drawn(leaf) : best_of(leaf, histogram(leaf.slot));
}

// Frees the histogram of a leaf that is not split.
template <class Cell> void Grower<Cell>::leave(Leaf &leaf) {
    if (leaf.best.feature >= 0)
        return;
    give_back(leaf.slot);
    leaf.slot = NO_SLOT;
}

// Searches with two threads, unless features are drawn, whose list is shared.
template <class Cell> void Grower<Cell>::search_both(Leaf &left, Leaf &right) {
    Leaf *both[] = {&left, &right};
    bool alone = boost_.averaged || left.slot == NO_SLOT || right.slot == NO_SLOT;
    parallel_for(2, alone ? 1 : threads_, [&](int64_t i) { search(*both[i]); });
    leave(left);
    leave(right);
}

template <class Cell> Halves Grower<Cell>::partition(const Leaf &leaf) {
    const Split &best = leaf.best;
    uint32_t *other = (leaf.away ? order_.which : order_.scratch) + leaf.begin;
    LeafRows part{rows_of(leaf), other, leaf.n, &sides_};
    int32_t d = rows_->columns ? 1 : bins_.features();
    const uint8_t *codes = rows_->columns ? rows_->columns + (size_t)best.feature * rows_->n
                                          : rows_->codes + best.feature;
    return best.by_level ? partition_rows(codes, d, best.set, part, threads_)
                         : partition_rows(codes, d, side_of(best, bins_), part, threads_);
}

// Reads only the smaller child's rows. The larger child's sums are the parent's minus these.
template <class Cell>
void Grower<Cell>::fill_children(const Leaf &parent, Leaf &left, Leaf &right) {
    Leaf &small = left.n <= right.n ? left : right, &large = left.n <= right.n ? right : left;
    if (!may_split(large) || has_few_rows(large)) {
        give_back(parent.slot);
        for (Leaf *child : {&small, &large})
            child->slot = may_split(*child) ? BY_ROWS : NO_SLOT;
        return;
    }
    small.slot = take_slot();
    large.slot = parent.slot;
    Cell *of_small = histogram(small.slot), *of_large = histogram(large.slot);
    add_up(*rows_, rows_of(small), small.n, threads_, of_small, blocks_);
    subtract(of_small, bins_.total(), of_large);
    if (may_split(small))
        return;
    give_back(small.slot);
    small.slot = NO_SLOT;
}

template <class Cell> void Grower<Cell>::split(Leaf &leaf) {
    Leaf parent = leaf;
    const Split &best = parent.best;
    bool last = (int32_t)leaves_.size() + 1 == boost_.num_leaves;
    auto [n_left, moved] = partition(parent);
    bool away = parent.away != moved;
    auto node = (int32_t)made_.size();
    int64_t n_right = parent.n - n_left;
    int32_t depth = parent.depth + 1;
    Sum sum = parent.sum - best.left;
    ChildLimits limits = limits_behind(*rule_, best, sum, parent.limits);
    Leaf left{parent.begin, n_left, away, node, depth, NO_SLOT, best.left, limits.left, {}};
    Leaf right{parent.begin + n_left, n_right, away, node + 1, depth, NO_SLOT, sum,
               limits.right,          {}};
    made_[parent.node].split = best;
    made_[parent.node].left = node;
    made_[parent.node].right = node + 1;
    for (const Leaf &child : {left, right})
        made_.push_back(Made{{}, -1, -1, child.n, value_of(child)});
    if (last)
        give_back(parent.slot);
    else
        fill_children(parent, left, right);
    search_both(left, right);
    leaf = left;
    leaves_.push_back(right);
}

template <class Cell> void Grower<Cell>::choose_features(const std::vector<int32_t> &features) {
    numbers_.clear();
    categories_.clear();
    for (int32_t f : features)
        (bins_.category(f) ? categories_ : numbers_).push_back(f);
}

// Splits the leaf with the largest gain first.
template <class Cell> int Grower<Cell>::split_best() {
    while ((int32_t)leaves_.size() < boost_.num_leaves) {
        auto by_gain = [](const Leaf &a, const Leaf &b) { return a.best.gain < b.best.gain; };
        auto best = std::max_element(leaves_.begin(), leaves_.end(), by_gain);
        if (best->best.feature < 0)
            break;
        if (cancelled(cancel_mark_))
            return TK_CANCELLED;
        split(*best);
    }
    return TK_OK;
}

// Grows the same tree if the number of leaves is unlimited: each leaf at once, which needs the
// memory of one path only.
template <class Cell> int Grower<Cell>::split_all() {
    std::vector<size_t> to_do{0};
    while (!to_do.empty()) {
        size_t leaf = to_do.back();
        to_do.pop_back();
        if (leaves_[leaf].best.feature < 0)
            continue;
        if (cancelled(cancel_mark_))
            return TK_CANCELLED;
        split(leaves_[leaf]);
        to_do.push_back(leaves_.size() - 1);
        to_do.push_back(leaf);
    }
    return TK_OK;
}

template <class Cell>
int Grower<Cell>::grow(const Rule &rule, const Rows &rows, const std::vector<int32_t> &features,
                       const Order &order, const LeafValue *own, double *margins, Tree *out) {
    rule_ = &rule, rows_ = &rows;
    choose_features(features);
    order_ = order;
    leaves_.clear();
    made_.clear();
    Leaf root{0, order.n, false, 0, branch_.depth, take_slot(), {}, branch_.limits, {}};
    add_up(rows, order.which, order.n, threads_, histogram(root.slot), blocks_);
    root.sum = Sum{0, 0, 0};
    for (int32_t b = 0; b < bins_.count(0); b++) // every row is in one bin of feature 0
        root.sum += sum_of(histogram(root.slot)[b]);
    made_.push_back(Made{{}, -1, -1, order.n, value_of(root)});
    search(root);
    leave(root);
    leaves_.push_back(root);
    bool all = boost_.num_leaves >= order.n / std::max<int64_t>(boost_.min_child_rows, 1);
    if (int code = all ? split_all() : split_best())
        return code;
    for (const Leaf &leaf : leaves_)
        give_back(leaf.slot);
    if (own)
        renew(*own);
    if (margins)
        add_values(margins);
    if (out)
        write_tree(made_, bins_, rule_->scale, out);
    return TK_OK;
}

template <class Cell> void Grower<Cell>::add_values(double *margins) const {
    parallel_for((int64_t)leaves_.size(), threads_, [&](int64_t i) {
        const Leaf &leaf = leaves_[i];
        double value = made_[leaf.node].value;
        const uint32_t *row = rows_of(leaf);
        for (const uint32_t *end = row + leaf.n; row < end; row++)
            margins[*row] += value;
    });
}

template class Grower<Sum>;
template class Grower<Addend>;

} // namespace tusk
