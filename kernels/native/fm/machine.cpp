#include "machine.hpp"

#include <algorithm>
#include <cmath>

namespace tusk::fm {
namespace {

constexpr int64_t SHARE = 1 << 14; // features of a task

// A hash of x, in which every bit looks random (Steele, Lea and Flood, OOPSLA 2014).
uint64_t scrambled(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Uniform from -1 to 1.
float symmetric(uint64_t hash) {
    return (float)((double)(int64_t)hash * 0x1p-63);
}

void for_features(const Machine &m, int threads, Ref<void(int64_t first, int64_t last)> body) {
    int64_t d = m.features();
    parallel_for((d + SHARE - 1) / SHARE, threads,
                 [&](int64_t i) { body(i * SHARE, std::min(d, (i + 1) * SHARE)); });
}

// Computes <v_i, sum>, and then adds shift v_i to the sum. v: (rank,) of the feature i.
double add_to(std::vector<double> &sum, const double *v, double shift) {
    double product = 0;
    for (size_t k = 0; k < sum.size(); k++) {
        product += v[k] * sum[k];
        sum[k] += shift * v[k];
    }
    return product;
}

// Effect of centring on the weights w_i, for each j != i <v_i, v_j> shift_j, and on the intercept,
// which it returns. Features before and after i are added up separately, instead of all minus i:
// if a shift is large relative to its feature's deviation, only rounding would be left.
double uncentre(const Machine &m, const std::vector<double> &shift, double *numbers) {
    const int64_t width = m.rank() + 1;
    std::vector<double> before(m.rank(), 0), behind(m.rank(), 0);
    double linear = 0, pairs = 0;
    for (int64_t i = 0; i < m.features(); i++) {
        double *one = numbers + i * width;
        linear += shift[i] * one[0];
        double product = add_to(before, one + 1, shift[i]);
        pairs += shift[i] * product;
        one[0] -= product;
    }
    for (int64_t i = m.features() - 1; i >= 0; i--)
        numbers[i * width] -= add_to(behind, numbers + i * width + 1, shift[i]);
    return pairs - linear;
}

} // namespace

void draw(Machine &m, const tk_fm &fm, const Units &u, int threads) {
    const auto reach = (float)(fm.init * std::sqrt(3.0));
    const uint64_t seed = scrambled(fm.seed);
    for_features(m, threads, [&](int64_t first, int64_t last) {
        std::fill_n(m.block(first), (last - first) * m.stride(), 0.0f);
        for (int64_t i = first; i < last; i++) {
            uint64_t hash = scrambled(seed ^ (uint64_t)i);
            for (int k = 0; u.scale.data()[i] && k < m.rank(); k++)
                m.block(i)[k] = reach * symmetric(hash = scrambled(hash));
            m.behind(i)[LINEAR_SQUARES] = m.behind(i)[FACTOR_SQUARES] = FIRST_SQUARES;
        }
    });
}

double write(const Machine &m, const Units &u, int threads, double *numbers) {
    const double *scale = u.scale.data(), f = u.label_scale;
    for_features(m, threads, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i++) {
            double *one = numbers + i * (m.rank() + 1);
            one[0] = f * scale[i] * m.behind(i)[LINEAR];
            for (int k = 0; k < m.rank(); k++)
                one[1 + k] = std::sqrt(f) * scale[i] * m.block(i)[k];
        }
    });
    double intercept = u.label_shift + f * m.bias;
    return u.shift.empty() ? intercept : intercept + uncentre(m, u.shift, numbers);
}

} // namespace tusk::fm
