// Searches for splits with all features of a vector at once. With the penalty l of a leaf, S = H +
// 2 l, h = H_l + l and t = G_l - G h / S, the children's scores G_l^2 / (H_l + l) + G_r^2 / (H_r +
// l) are G^2 / S + S t^2 / (h (S - h)). So the search maximises t^2 / (h (S - h)), which avoids
// the rounding of a difference of large scores.
#include "near_grow.hpp"

#include <algorithm>
#include <cmath>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tusk {
namespace {

struct Leaf {
    Leaf(const NearRule &rule_, const NearRows &rows, int64_t total)
        : rule(rule_), packing(rows.packing()), curvature(packing.curvature(total)),
          most_rows(packing.count(total) - rule.least_rows), gradient(packing.gradient(total)),
          slope((float)(gradient / (curvature + 2 * (double)rule.l2))),
          least_curvature(least_of(packing.count(total))) {}

    // See Rule::least_curvature.
    float least_of(int32_t rows) const {
        double share = (rule.least_rows - 0.5) / std::max(rows, 1);
        double least = std::max((double)rule.least_curvature, share * curvature);
        return (float)(rule.slack > 0 ? (least + rule.slack) * (1 + 0x1p-20) : least);
    }

    // The gain of a split with this t^2 / (h (S - h)).
    double gain(float score) const {
        double l2 = rule.l2, whole = curvature + 2 * l2, square = gradient * gradient;
        return (square / whole - square / (curvature + l2) + whole * score) * rule.gain_unit;
    }

    const NearRule &rule;
    const Packing &packing;
    int32_t curvature, most_rows; // rows of the left child, at most
    double gradient;
    float slope, least_curvature;
};

// The best candidate of some neighbouring features. Its number is twice its bin, and one more if
// missing values go left.
struct Found {
    float score = 0;
    int32_t feature = -1, candidate = -1;
};

#if defined(__AVX512F__)
constexpr int32_t WIDTH = 16;
#else
constexpr int32_t WIDTH = 8;
#endif

#if defined(__AVX512F__)

class Vector {
public:
    explicit Vector(const Leaf &leaf)
        : count_bits_(leaf.packing.count_bits), gradient_at_(leaf.packing.gradient_at()),
          counts_(_mm512_set1_epi32((1 << count_bits_) - 1)),
          curvatures_(_mm512_set1_epi32((1 << leaf.packing.curvature_bits) - 1)),
          least_rows_(_mm512_set1_epi32(leaf.rule.least_rows)),
          most_rows_(_mm512_set1_epi32(leaf.most_rows)), whole_(_mm512_set1_epi32(leaf.curvature)),
          l2_(_mm512_set1_ps(leaf.rule.l2)), least_(_mm512_set1_ps(leaf.least_curvature)),
          slope_(_mm512_set1_ps(leaf.slope)) {}

    // Scans the bins of the features in `lanes`. start: sums before the first bin.
    void scan(const int64_t *cells, int32_t bins, size_t stride, const int64_t *start,
              const int32_t *ends, __mmask16 lanes, int32_t side) {
        Sums sums{_mm512_loadu_si512(start), _mm512_loadu_si512(start + 8)};
        __m512i end = side ? _mm512_loadu_si512(ends) : _mm512_setzero_si512();
        for (int32_t b = 0; b < bins; b += 2, cells += 2 * stride) {
            step(cells, b, end, &sums, lanes, side, &even_);
            step(cells + stride, b + 1, end, &sums, lanes, side, &odd_);
        }
    }

    // The first feature of the largest score.
    Found best(int32_t first) const {
        constexpr __mmask16 ALL = 0xffff; // masked forms, as compilers warn about the others
        Best one = merged();
        __m512 scores = _mm512_maskz_div_ps(ALL, one.above, one.below), most = scores;
        most = _mm512_maskz_max_ps(ALL, most, _mm512_maskz_shuffle_f32x4(ALL, most, most, 0x4e));
        most = _mm512_maskz_max_ps(ALL, most, _mm512_maskz_shuffle_f32x4(ALL, most, most, 0xb1));
        most = _mm512_maskz_max_ps(ALL, most, _mm512_maskz_permute_ps(ALL, most, 0x4e));
        most = _mm512_maskz_max_ps(ALL, most, _mm512_maskz_permute_ps(ALL, most, 0xb1));
        float score = _mm512_cvtss_f32(most);
        if (!(score > 0))
            return {};
        int lane = __builtin_ctz(_mm512_cmp_ps_mask(scores, most, _CMP_EQ_OQ));
        int32_t numbers[WIDTH];
        _mm512_storeu_si512(numbers, one.candidate);
        return {score, first + lane, numbers[lane]};
    }

private:
    // The lower halves of sixteen words.
    static __m512i halves(__m512i low, __m512i high) {
        const __m512i even =
            _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        return _mm512_permutex2var_epi32(low, even, high);
    }

    // The best candidates of each lane. Those of even and of odd bins are separate, because each
    // comparison depends on the one before.
    struct Best {
        __m512 above = _mm512_setzero_ps(), below = _mm512_set1_ps(1);
        __m512i candidate = _mm512_setzero_si512();
    };

    Best merged() const {
        __m512 odd = _mm512_mul_ps(odd_.above, even_.below);
        __m512 even = _mm512_mul_ps(even_.above, odd_.below);
        __mmask16 equal = _mm512_cmp_ps_mask(odd, even, _CMP_EQ_OQ);
        __mmask16 better = _mm512_cmp_ps_mask(odd, even, _CMP_GT_OQ);
        better |= _mm512_mask_cmplt_epi32_mask(equal, odd_.candidate, even_.candidate);
        return {_mm512_mask_mov_ps(even_.above, better, odd_.above),
                _mm512_mask_mov_ps(even_.below, better, odd_.below),
                _mm512_mask_mov_epi32(even_.candidate, better, odd_.candidate)};
    }

    struct Sums {
        __m512i low, high; // of eight features each
    };

    void step(const int64_t *cells, int32_t b, __m512i end, Sums *sums, __mmask16 lanes,
              int32_t side, Best *best) const {
        sums->low = _mm512_add_epi64(sums->low, _mm512_loadu_si512(cells));
        sums->high = _mm512_add_epi64(sums->high, _mm512_loadu_si512(cells + 8));
        if (side)
            lanes = _mm512_mask_cmpgt_epi32_mask(lanes, end, _mm512_set1_epi32(b));
        look(sums->low, sums->high, lanes, _mm512_set1_epi32(2 * b + side), best);
    }

    void look(__m512i low, __m512i high, __mmask16 lanes, __m512i number, Best *best) const {
        __m512i rows = _mm512_and_si512(halves(low, high), counts_);
        __mmask16 fits = _mm512_mask_cmpge_epi32_mask(lanes, rows, least_rows_);
        fits = _mm512_mask_cmple_epi32_mask(fits, rows, most_rows_);
        if (!fits)
            return;
        const __m128i at = _mm_cvtsi32_si128(gradient_at_), by = _mm_cvtsi32_si128(count_bits_);
        __m512i g =
            halves(_mm512_maskz_sra_epi64(0xff, low, at), _mm512_maskz_sra_epi64(0xff, high, at));
        __m512i h =
            halves(_mm512_maskz_srl_epi64(0xff, low, by), _mm512_maskz_srl_epi64(0xff, high, by));
        h = _mm512_and_si512(h, curvatures_);
        __m512 hl = _mm512_maskz_cvtepi32_ps(0xffff, h);
        __m512 hr = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_sub_epi32(whole_, h));
        fits = _mm512_mask_cmp_ps_mask(fits, hl, least_, _CMP_GE_OQ);
        fits = _mm512_mask_cmp_ps_mask(fits, hr, least_, _CMP_GE_OQ);
        hl = _mm512_add_ps(hl, l2_), hr = _mm512_add_ps(hr, l2_);
        __m512 t = _mm512_fnmadd_ps(slope_, hl, _mm512_maskz_cvtepi32_ps(0xffff, g));
        __m512 above = _mm512_mul_ps(t, t), below = _mm512_mul_ps(hl, hr);
        __mmask16 better = _mm512_mask_cmp_ps_mask(fits, _mm512_mul_ps(above, best->below),
                                                   _mm512_mul_ps(best->above, below), _CMP_GT_OQ);
        best->above = _mm512_mask_mov_ps(best->above, better, above);
        best->below = _mm512_mask_mov_ps(best->below, better, below);
        best->candidate = _mm512_mask_mov_epi32(best->candidate, better, number);
    }

    int count_bits_, gradient_at_;
    __m512i counts_, curvatures_, least_rows_, most_rows_, whole_;
    __m512 l2_, least_, slope_;
    Best even_, odd_;
};

#else

// The same by plain loops over the lanes, which compilers turn into vectors.
class Vector {
public:
    explicit Vector(const Leaf &leaf) : leaf_(leaf) { std::fill_n(below_, WIDTH, 1.0F); }

    void scan(const int64_t *cells, int32_t bins, size_t stride, const int64_t *start,
              const int32_t *ends, uint32_t lanes, int32_t side) {
        int64_t sums[WIDTH];
        std::copy_n(start, WIDTH, sums);
        for (int32_t b = 0; b < bins; b++, cells += stride)
            for (int32_t lane = 0; lane < WIDTH; lane++) {
                sums[lane] += cells[lane];
                if ((lanes >> lane & 1) && (!side || ends[lane] > b))
                    look(sums[lane], lane, 2 * b + side);
            }
    }

    Found best(int32_t first) const {
        Found found;
        for (int32_t lane = 0; lane < WIDTH; lane++) {
            float score = above_[lane] / below_[lane];
            if (score > found.score)
                found = {score, first + lane, candidate_[lane]};
        }
        return found;
    }

private:
    void look(int64_t sum, int32_t lane, int32_t number) {
        int32_t rows = leaf_.packing.count(sum), h = leaf_.packing.curvature(sum);
        if (rows < leaf_.rule.least_rows || rows > leaf_.most_rows)
            return;
        auto hl = (float)h, hr = (float)(leaf_.curvature - h);
        if (hl < leaf_.least_curvature || hr < leaf_.least_curvature)
            return;
        hl += leaf_.rule.l2, hr += leaf_.rule.l2;
        float t = (float)leaf_.packing.gradient(sum) - leaf_.slope * hl;
        float above = t * t, below = hl * hr;
        if (above * below_[lane] > above_[lane] * below)
            above_[lane] = above, below_[lane] = below, candidate_[lane] = number;
    }

    const Leaf &leaf_;
    float above_[WIDTH] = {}, below_[WIDTH];
    int32_t candidate_[WIDTH] = {};
};

#endif

// Sums of the missing values of each feature of a vector. Returns the lanes with missing values.
uint32_t missing_of(const int64_t *cells, size_t stride, const int32_t *gaps, int64_t *out) {
    uint32_t lanes = 0;
    for (int32_t lane = 0; lane < WIDTH; lane++) {
        out[lane] = gaps[lane] < 0 ? 0 : cells[gaps[lane] * stride + lane];
        lanes |= (uint32_t)(out[lane] != 0) << lane;
    }
    return lanes;
}

} // namespace

NearRule::NearRule(const Rule &rule, const Packing &packing) {
    const tk_boost &boost = *rule.boost;
    double unit = std::ldexp(rule.units.curvature, packing.curvature_shift);
    least_rows = (int32_t)std::clamp<int64_t>(boost.min_child_rows, 1, MOST_NEAR_ROWS + 1);
    l2 = (float)(boost.l2 / unit);
    least_curvature = (float)std::max(boost.min_child_hessian / unit, 1.0);
    gain_unit = std::ldexp(rule.units.gradient, packing.gradient_shift);
    gain_unit *= gain_unit / unit;
}

NearSplit near_split(const NearRule &rule, const NearRows &rows, const int64_t *histogram,
                     int64_t total) {
    static const int64_t nothing[WIDTH] = {};
    const Leaf leaf(rule, rows, total);
    size_t stride = rows.stride();
    Found best;
    for (int32_t first = 0; first < rows.features(); first += WIDTH) {
        uint32_t lanes = rule.features[first / 16] >> first % 16 & ((1U << WIDTH) - 1);
        const int64_t *cells = histogram + first;
        Vector vector(leaf);
        vector.scan(cells, rows.bins(), stride, nothing, nullptr, lanes, 0);
        int64_t missing[WIDTH];
        uint32_t lacking =
            rule.gaps ? lanes & missing_of(cells, stride, rule.gaps + first, missing) : 0;
        if (lacking)
            vector.scan(cells, rows.bins(), stride, missing, rule.gaps + first, lacking, 1);
        Found found = vector.best(first);
        if (found.score > best.score)
            best = found;
    }
    double gain = best.feature < 0 ? 0 : leaf.gain(best.score);
    if (!(gain > 0))
        return {};
    return {gain, best.feature, best.candidate / 2, best.candidate % 2 == 1};
}

} // namespace tusk
