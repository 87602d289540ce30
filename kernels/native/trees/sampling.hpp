// Random draws for each tree: rows and features.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "api.h"

namespace tusk {

// Whether boosting grows each tree on some of the rows.
inline bool draws_rows(const tk_boost &boost) {
    return boost.row_fraction < 1 || boost.other_rate > 0;
}

// A hash that looks random (Steele, Lea and Flood, Fast splittable pseudorandom number generators,
// OOPSLA 2014).
inline uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

// The seed of the numbers that are drawn in an iteration.
inline uint64_t seed_of(uint64_t seed, uint64_t iteration) {
    return mixed(seed + UINT64_C(0x9e3779b97f4a7c15) * (iteration + 1));
}

// Draws a fraction of d features, at least one, ascending.
std::vector<int32_t> draw_features(int32_t d, double share, uint64_t seed);

// The content of rows: their bins, labels, weights and offsets. codes: (n, d); labels: (n,);
// weights, offsets: (n,) or NULL.
struct Contents {
    const uint8_t *codes;
    const double *labels, *weights;
    int64_t n;
    int32_t d;
    const double *offsets = nullptr;
};
// The units of the labels and weights of a group: its least and greatest label, and its largest
// weight.
struct Scales {
    double least = std::numeric_limits<double>::infinity(), greatest = -least, most = 1;
    void add(const double *labels, int64_t n);
};
Scales scales_of(const Contents &rows);

// A key for each row that depends on its bins, its label, its weight and the number of equal rows
// before it, so the drawn rows depend neither on the order of the rows nor on the units of labels
// and weights.
std::vector<uint64_t> row_keys(const Contents &rows);

// The same without the number of equal rows before; and a function that makes keys of equal rows
// distinct. first: NULL, or for a key the number of equal rows of others before these.
std::vector<uint64_t> content_keys(const Contents &rows, const Scales &scales);
using First = std::function<uint64_t(uint64_t)>;
void tell_equals_apart(std::vector<uint64_t> &keys, const Contents &rows, const First *first);

// Writes the numbers of the drawn rows, ascending. Returns their number.
int64_t drawn_rows(const std::vector<uint64_t> &keys, double share, uint64_t seed, uint32_t *out);
// The same, but all rows if none is drawn.
int64_t draw_rows(const std::vector<uint64_t> &keys, double share, uint64_t seed, uint32_t *out);

} // namespace tusk
