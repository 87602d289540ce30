// What is drawn anew for each tree: rows and features.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace tusk {

// A number that looks random (Steele, Lea and Flood, Fast splittable pseudorandom number
// generators, OOPSLA 2014).
inline uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

// The seed of the numbers that are drawn in an iteration.
inline uint64_t seed_of(uint64_t seed, uint64_t iteration) {
    return mixed(seed + UINT64_C(0x9e3779b97f4a7c15) * (iteration + 1));
}

// A share of d features, at least one, ascending.
std::vector<int32_t> draw_features(int32_t d, double share, uint64_t seed);

// Rows as their bins, labels and weights say what they contain. codes: (n, d); labels: (n,);
// weights: (n,) or NULL.
struct Contents {
    const uint8_t *codes;
    const double *labels, *weights;
    int64_t n;
    int32_t d;
};
// The units of the labels and weights of a group: its least and greatest label, and its largest
// weight.
struct Scales {
    double least = std::numeric_limits<double>::infinity(), greatest = -least, most = 1;
    void add(const double *labels, int64_t n);
};
Scales scales_of(const Contents &rows);

// A number for each row that depends on its bins, its label, its weight and how many of the same
// came before, so which rows are drawn depends neither on the order of the rows nor on the units
// of labels and weights.
std::vector<uint64_t> row_keys(const Contents &rows);

// The same without the number of equal ones before; and what makes those of equal rows differ.
// first: NULL, or of a key how many equal rows others have before these.
std::vector<uint64_t> content_keys(const Contents &rows, const Scales &scales);
using First = std::function<uint64_t(uint64_t)>;
void tell_equals_apart(std::vector<uint64_t> &keys, const Contents &rows, const First *first);

// Writes the numbers of the drawn rows, ascending. Returns how many.
int64_t drawn_rows(const std::vector<uint64_t> &keys, double share, uint64_t seed, uint32_t *out);
// The same, of all rows if none is drawn.
int64_t draw_rows(const std::vector<uint64_t> &keys, double share, uint64_t seed, uint32_t *out);

} // namespace tusk
