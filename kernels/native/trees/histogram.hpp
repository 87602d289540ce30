// Histograms: sums of gradients, curvatures and rows by bin, as integers.
//
// Integer sums are the same in any order, so neither the order of rows nor the number of threads
// changes a tree.
#pragma once

#include <cstdint>
#include <vector>

#include "bins.hpp"

namespace tusk {

// The addend of one row: its gradient, and in one word its curvature and a count of one.
using Addend = int64_t __attribute__((vector_size(16)));
constexpr int COUNT_SHIFT = 40;    // the count is above these bits of the second word
constexpr int CURVATURE_BITS = 24; // of one row
constexpr int64_t BLOCK = 1 << 16; // rows whose curvatures surely fit into COUNT_SHIFT bits
static_assert(BLOCK <= INT64_C(1) << (COUNT_SHIFT - CURVATURE_BITS));

inline Addend addend(int64_t gradient, int64_t curvature) {
    return Addend{gradient, (INT64_C(1) << COUNT_SHIFT) | curvature};
}
inline int64_t gradient_of(Addend a) {
    return a[0];
}
inline int64_t curvature_of(Addend a) {
    return a[1] & ((INT64_C(1) << COUNT_SHIFT) - 1);
}

struct Sum {
    int64_t gradient, curvature, rows;

    Sum &operator+=(const Sum &o) {
        gradient += o.gradient, curvature += o.curvature, rows += o.rows;
        return *this;
    }
    Sum &operator-=(const Sum &o) {
        gradient -= o.gradient, curvature -= o.curvature, rows -= o.rows;
        return *this;
    }
    friend Sum operator-(Sum a, const Sum &b) { return a -= b; }
};

inline Sum sum_of(Addend a) {
    return Sum{gradient_of(a), curvature_of(a), a[1] >> COUNT_SHIFT};
}
inline Sum sum_of(const Sum &s) {
    return s;
}

// Units of the integers: 2^-shift.
struct Units {
    double gradient, curvature; // value of 1
};

// The coded rows of a group, and their addends in the growing tree.
struct Rows {
    const uint8_t *codes; // (n, d)
    const Addend *addends;
    const Bins *bins;
    const uint16_t *cells = nullptr;  // (n, d) numbers of cells times two, or NULL
    const uint8_t *columns = nullptr; // (d, n) the codes once more, or NULL
    int64_t n = 0;
};

// Sums over rows[0 .. n - 1] into out, one cell per bin of all features. blocks: scratch memory.
void add_up(const Rows &rows, const uint32_t *which, int64_t n, int threads, Sum *out,
            std::vector<Addend> &blocks);
// The same for at most BLOCK rows, on the caller's thread, into cells of two thirds the size.
void add_up(const Rows &rows, const uint32_t *which, int64_t n, int threads, Addend *out,
            std::vector<Addend> &blocks);

// The same for one feature, on the caller's thread.
void add_up_one(const Rows &rows, const uint32_t *which, int64_t n, int32_t f, Sum *out);
void add_up_one(const Rows &rows, const uint32_t *which, int64_t n, int32_t f, Addend *out);

// Subtracts n cells from others.
void subtract(const Sum *less, int32_t n, Sum *from);
void subtract(const Addend *less, int32_t n, Addend *from);

} // namespace tusk
