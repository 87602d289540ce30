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

// The sums over features that centring moves into w and the intercept.
struct Centre {
    std::vector<double> sum; // of shift_i v_i, (rank,)
    double squares = 0, linear = 0;
};

Centre centre_of(const Machine &m, const Units &u, const double *numbers) {
    Centre c{std::vector<double>(m.rank(), 0)};
    for (int64_t i = 0; i < m.features(); i++) {
        const double *one = numbers + i * (m.rank() + 1);
        double shift = u.shift[i];
        c.linear += shift * one[0];
        for (int k = 0; k < m.rank(); k++) {
            c.sum[k] += shift * one[1 + k];
            c.squares += shift * shift * one[1 + k] * one[1 + k];
        }
    }
    return c;
}

// sum_{j != i} <v_i, v_j> shift_j.
double crossed(const Machine &m, const Centre &c, const double *one, double shift) {
    double found = 0;
    for (int k = 0; k < m.rank(); k++)
        found += (c.sum[k] - shift * one[1 + k]) * one[1 + k];
    return found;
}

// Half the sum over pairs i != j of <v_i, v_j> shift_i shift_j.
double paired(const Centre &c) {
    double sum = 0;
    for (double one : c.sum)
        sum += one * one;
    return (sum - c.squares) / 2;
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
    if (u.shift.empty())
        return intercept;
    Centre c = centre_of(m, u, numbers);
    for (int64_t i = 0; i < m.features(); i++) {
        double *one = numbers + i * (m.rank() + 1);
        one[0] -= crossed(m, c, one, u.shift[i]);
    }
    return intercept - c.linear + paired(c);
}

} // namespace tusk::fm
