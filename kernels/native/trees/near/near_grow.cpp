// Grows one tree of a small group, leaf by leaf.

#include <algorithm>
#include <new>

#include "near_grow.hpp"
#include "near_rows.hpp"

// Sets of rows as bits, and sums over listed rows.

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tusk {

// Marks which of 64 codes are at most `bin`.
inline uint64_t up_to(const uint8_t *codes, uint8_t bin) {
    uint64_t set = 0;
#if defined(__AVX512BW__)
    set = _mm512_cmple_epu8_mask(_mm512_loadu_si512(codes), _mm512_set1_epi8((char)bin));
#elif defined(__SSE2__)
    __m128i most = _mm_set1_epi8((char)bin);
    for (int i = 0; i < 4; i++) {
        __m128i part = _mm_loadu_si128((const __m128i *)codes + i);
        auto bits = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(part, most), most));
        set |= (uint64_t)bits << 16 * i;
    }
#else
    for (int i = 0; i < 64; i++)
        set |= (uint64_t)(codes[i] <= bin) << i;
#endif
    return set;
}

// Marks which of 64 codes are `bin`.
inline uint64_t equal_to(const uint8_t *codes, uint8_t bin) {
    uint64_t below = bin ? up_to(codes, (uint8_t)(bin - 1)) : 0;
    return up_to(codes, bin) & ~below;
}

constexpr size_t ROOM_OF_LISTS = 16; // numbers that may be written beyond a list

// Writes the numbers of the rows of a set of some words, ascending. Returns their number.
inline int32_t list_rows(const uint64_t *set, int64_t words, uint32_t *out) {
    uint32_t *at = out;
#if defined(__AVX512F__)
    __m512i row = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int64_t w = 0; w < words; w++)
        for (int part = 0; part < 4; part++, row = _mm512_add_epi32(row, _mm512_set1_epi32(16))) {
            auto bits = (__mmask16)(set[w] >> 16 * part);
            _mm512_storeu_si512(at, _mm512_maskz_compress_epi32(bits, row));
            at += __builtin_popcount(bits);
        }
#else
    for (int64_t w = 0; w < words; w++)
        for (uint64_t left = set[w]; left; left &= left - 1)
            *at++ = (uint32_t)(64 * w + __builtin_ctzll(left));
#endif
    return (int32_t)(at - out);
}

// Adds listed rows to a histogram, or subtracts them with -1.
template <int SIGN = 1>
inline void add_rows(const NearRows &rows, const uint32_t *which, int32_t n, int64_t *cells) {
    int32_t d = rows.features();
    for (int32_t i = 0; i < n; i++) {
        const uint16_t *cell = rows.cells(which[i]);
        int64_t word = SIGN * rows.words()[which[i]];
#pragma GCC unroll 4
        for (int32_t f = 0; f < d; f++)
            cells[cell[f]] += word;
    }
}

bool NearGrower::fits(const tk_boost &boost, const Bins &bins, int64_t n) {
    return NearRows::fits(n, bins) && bins.by_level.empty() && !boost.monotone &&
           !boost.together && !boost.averaged && boost.l1 == 0 && boost.node_fraction >= 1 &&
           boost.objective != TK_QUANTILE_TREES;
}

int NearGrower::take(const uint8_t *codes, int64_t n) {
    if (int code = rows_.take(bins_, codes, n, memory_))
        return code;
    constexpr size_t PIECE = (2 << 20) - 4096; // bytes of a slab
    together_ = (int32_t)std::clamp<size_t>(PIECE / (rows_.histogram_size() * sizeof(int64_t)), 1,
                                            std::min<size_t>(boost_.num_leaves, n));
    chosen_.resize(rows_.stride() / 16);
    numbers_.resize(rows_.words_of_set() * 64 + ROOM_OF_LISTS);
    if (std::any_of(bins_.missing.begin(), bins_.missing.end(), [](uint8_t m) { return m; }))
        for (int32_t f = 0; f < rows_.stride(); f++)
            gaps_.push_back(f < bins_.features() && bins_.missing[f] ? bins_.values(f) : -1);
    return TK_OK;
}

bool NearGrower::pack(const Rule &rule, const Addend *addends) {
    rule_ = &rule, addends_ = addends;
    if (!rows_.pack(addends))
        return false;
    near_ = NearRule(rule, rows_.packing());
    // Sums are less than 2^30, so products of a square and two curvatures stay within floats.
    return near_.l2 <= 0x1p33F;
}

void NearGrower::choose_features(const std::vector<int32_t> &features) {
    std::fill(chosen_.begin(), chosen_.end(), (uint16_t)0);
    for (int32_t f : features)
        chosen_[f / 16] |= (uint16_t)(1 << f % 16);
    near_.features = chosen_.data();
    near_.gaps = gaps_.empty() ? nullptr : gaps_.data();
}

// Several histograms share a piece of memory, since an account allocates whole slabs.
int32_t NearGrower::take_slot() {
    if (free_.empty()) {
        auto first = (int32_t)pieces_.size() * together_;
        pieces_.push_back(std::make_unique<Charged<int64_t>>());
        if (pieces_.back()->take(memory_, (size_t)together_ * rows_.histogram_size()))
            throw std::bad_alloc();
        for (int32_t slot = first + together_; slot-- > first;)
            free_.push_back(slot);
    }
    int32_t slot = free_.back();
    free_.pop_back();
    return slot;
}

bool NearGrower::may_split(int32_t n, int32_t depth) const {
    return n >= 2 * std::max<int64_t>(boost_.min_child_rows, 1) &&
           (!boost_.max_depth || depth < boost_.max_depth);
}

// Frees the histogram of a leaf that is not split.
void NearGrower::leave(Leaf &leaf) {
    if (leaf.slot >= 0)
        free_.push_back(leaf.slot);
    leaf.slot = -1;
    leaf.best = NearSplit{};
}

void NearGrower::search(Leaf &leaf) {
    if (leaf.slot < 0)
        return;
    leaf.best = near_split(near_, rows_, histogram(leaf.slot), leaf.total);
    if (leaf.best.feature < 0)
        leave(leaf);
}

// Searches again, once, for a split whose children have the least curvature with any rounding.
void NearGrower::search_surely(Leaf &leaf) {
    if (leaf.sure)
        return leave(leaf);
    leaf.sure = true;
    NearRule rule = near_;
    rule.slack = 0.5F * (float)leaf.n;
    leaf.best = near_split(rule, rows_, histogram(leaf.slot), leaf.total);
    if (leaf.best.feature < 0)
        leave(leaf);
}

// Adds up n listed rows, exactly and rounded.
NearGrower::Added NearGrower::add(int32_t n) const {
    Addend sum{0, 0};
    int64_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += addends_[numbers_[i]];
        total += rows_.words()[numbers_[i]];
    }
    return {sum_of(sum), total};
}

// Collects the rows of the root, listed and as a set, and their addends.
NearGrower::Added NearGrower::take_rows(const uint32_t *which, int64_t n) {
    std::copy_n(which, n, numbers_.data());
    if (n == rows_.n()) {
        sets_.assign(rows_.words_of_set(), ~Set{0});
        if (n % 64)
            sets_.back() = (Set{1} << n % 64) - 1;
        return {rows_.sum(), rows_.total()};
    }
    sets_.assign(rows_.words_of_set(), 0);
    for (int64_t i = 0; i < n; i++)
        sets_[which[i] / 64] |= Set{1} << which[i] % 64;
    return add((int32_t)n);
}

void NearGrower::take_root(const uint32_t *which, int64_t n) {
    Added all = take_rows(which, n);
    Leaf root{0, 0, -1, (int32_t)n, all.sum, all.total, {}};
    made_.assign(1, Made{{}, -1, -1, n, value_of(root.sum)});
    if (may_split(root.n, 0)) {
        root.slot = take_slot();
        int64_t *cells = histogram(root.slot);
        std::fill_n(cells, rows_.histogram_size(), 0);
        add_rows(rows_, numbers_.data(), root.n, cells);
        search(root);
    }
    leaves_.assign(1, root);
}

NearGrower::Divided NearGrower::divide(const Leaf &leaf, const Set *of, Set *left,
                                       Set *right) const {
    const NearSplit &best = leaf.best;
    const uint8_t *column = rows_.column(best.feature);
    int32_t gap = gaps_.empty() ? -1 : gaps_[best.feature];
    Divided found{0, false};
    for (int64_t w = 0; w < rows_.words_of_set(); w++) {
        Set goes = up_to(column + 64 * w, (uint8_t)best.bin);
        Set missing = gap < 0 ? 0 : of[w] & equal_to(column + 64 * w, (uint8_t)gap);
        found.lacks |= missing != 0;
        left[w] = (of[w] & goes) | (best.missing_left ? missing : 0);
        right[w] = of[w] & ~left[w];
        found.left += __builtin_popcountll(left[w]);
    }
    return found;
}

int32_t NearGrower::list(const Set *set) const {
    return list_rows(set, rows_.words_of_set(), numbers_.data());
}

// Whether children with these exact sums have the least curvature.
bool NearGrower::keeps_curvature(const Leaf &leaf, const Sum &left, const Sum &right) const {
    double least = rule_->least_curvature(leaf.sum);
    return rule_->curvature(left) >= least && rule_->curvature(right) >= least;
}

// Whether a split keeps the rules by exact sums, and its gain.
bool NearGrower::gains(const Leaf &leaf, const Sum &left, double *gain) const {
    const Rule &rule = *rule_;
    Sum right = leaf.sum - left;
    if (!keeps_curvature(leaf, left, right))
        return false;
    auto score = [&](const Sum &s) { return rule.score(rule.gradient(s), rule.curvature(s)); };
    double parent = score(leaf.sum);
    *gain = score(left) + score(right) - parent;
    return *gain > std::max(boost_.min_gain, NOISE * parent);
}

// Reads only the smaller child's n listed rows. The larger child's sums are the parent's minus
// these.
void NearGrower::fill_children(int32_t n, Leaf &small, Leaf &large) {
    if (!may_split(large.n, large.depth))
        return leave(large);
    int64_t *of_large = histogram(large.slot);
    if (!may_split(small.n, small.depth))
        return add_rows<-1>(rows_, numbers_.data(), n, of_large);
    small.slot = take_slot();
    int64_t *of_small = histogram(small.slot);
    std::fill_n(of_small, rows_.histogram_size(), 0);
    add_rows(rows_, numbers_.data(), n, of_small);
    for (size_t i = 0; i < rows_.histogram_size(); i++)
        of_large[i] -= of_small[i];
}

// Splits a leaf; the left child replaces it.
void NearGrower::split(int32_t number) {
    Leaf parent = leaves_[number];
    size_t words = rows_.words_of_set();
    sets_.resize((leaves_.size() + 2) * words); // the last one is scratch
    Set *of_left = set_of(number), *of_right = set_of(leaves_.size());
    Set *of_parent = set_of(leaves_.size() + 1);
    std::copy_n(of_left, words, of_parent);
    Divided rows = divide(parent, of_parent, of_left, of_right);
    bool left_small = 2 * rows.left <= parent.n;
    int32_t n = list(left_small ? of_left : of_right);
    Added added = add(n);
    Sum other = parent.sum - added.sum;
    Split split{};
    if (!gains(parent, left_small ? added.sum : other, &split.gain)) {
        std::copy_n(of_parent, words, of_left);
        Leaf &leaf = leaves_[number];
        return keeps_curvature(leaf, added.sum, other) ? leave(leaf) : search_surely(leaf);
    }
    split.feature = parent.best.feature, split.bin = parent.best.bin;
    // If no row lacks the feature, rows without it in predictions go to the larger child.
    split.missing_left = rows.lacks ? parent.best.missing_left : 2 * rows.left >= parent.n;
    auto node = (int32_t)made_.size();
    int32_t depth = parent.depth + 1;
    Leaf small{node + !left_small, depth, -1, n, added.sum, added.total, {}};
    Leaf large{node + left_small,          depth, parent.slot, parent.n - n, other,
               parent.total - added.total, {}};
    Made &made = made_[parent.node];
    made.split = split, made.left = node, made.right = node + 1;
    bool last = (int32_t)leaves_.size() + 1 == boost_.num_leaves;
    last ? leave(large) : fill_children(n, small, large);
    Leaf &left = left_small ? small : large, &right = left_small ? large : small;
    for (Leaf *child : {&left, &right}) {
        made_.push_back(Made{{}, -1, -1, child->n, value_of(child->sum)});
        search(*child);
    }
    leaves_[number] = left;
    leaves_.push_back(right);
}

// The leaf with the largest gain, or any that gains if their number is unlimited; -1: none gains.
int32_t NearGrower::next_leaf() {
    while (all_ && !to_do_.empty()) {
        int32_t leaf = to_do_.back();
        if (leaves_[leaf].best.feature >= 0)
            return leaf;
        to_do_.pop_back();
    }
    if (all_ || (int32_t)leaves_.size() >= boost_.num_leaves)
        return -1;
    auto by_gain = [](const Leaf &a, const Leaf &b) { return a.best.gain < b.best.gain; };
    auto best = std::max_element(leaves_.begin(), leaves_.end(), by_gain);
    return best->best.feature < 0 ? -1 : (int32_t)(best - leaves_.begin());
}

int NearGrower::grow_leaves() {
    to_do_.assign(1, 0);
    for (int32_t leaf; (leaf = next_leaf()) >= 0;) {
        if (cancelled(cancel_mark_))
            return TK_CANCELLED;
        size_t before = leaves_.size();
        split(leaf);
        if (leaves_.size() > before)
            to_do_.push_back((int32_t)before);
    }
    return TK_OK;
}

int NearGrower::grow(const std::vector<int32_t> &features, const uint32_t *which, int64_t n,
                     double *margins, Tree *out) {
    choose_features(features);
    all_ = boost_.num_leaves >= n / std::max<int64_t>(boost_.min_child_rows, 1);
    take_root(which, n);
    int code = grow_leaves();
    for (Leaf &leaf : leaves_)
        leave(leaf);
    if (code)
        return code;
    add_values(margins);
    write_tree(made_, bins_, rule_->scale, out);
    return TK_OK;
}

void NearGrower::add_values(double *margins) const {
    for (size_t i = 0; i < leaves_.size(); i++) {
        double value = made_[leaves_[i].node].value;
        int32_t n = list(set_of(i));
        for (int32_t k = 0; k < n; k++)
            margins[numbers_[k]] += value;
    }
}

} // namespace tusk
