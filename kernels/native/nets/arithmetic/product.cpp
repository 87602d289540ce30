#include "product.hpp"

namespace tusk {
namespace {

#if defined(__AVX512F__)
constexpr int TALL = 8;
#else
constexpr int TALL = 4;
#endif

struct Right {
    const float *at;
    int64_t n, inner;
};

template <int ROWS, int VECS>
inline void begin(vf (&sum)[ROWS][VECS], Start start, const float *row, const float *c,
                  int64_t n) {
    for (int i = 0; i < ROWS; i++)
        for (int v = 0; v < VECS; v++)
            sum[i][v] = start == Start::zero     ? vf{}
                        : start == Start::itself ? load(c + i * n + v * WIDE)
                                                 : load(row + v * WIDE);
}

// Computes ROWS rows of c, VECS vectors of each.
template <int ROWS, int VECS>
void tile(const Left &l, const Right &r, float *c, Start start, const float *row) {
    vf sum[ROWS][VECS];
    begin(sum, start, row, c, r.n);
    const float *left = l.at, *right = r.at;
    for (int64_t k = 0; k < r.inner; k++, left += l.column, right += r.n) {
        vf each[VECS];
        for (int v = 0; v < VECS; v++)
            each[v] = load(right + v * WIDE);
        for (int i = 0; i < ROWS; i++)
            for (int v = 0; v < VECS; v++)
                sum[i][v] += left[i * l.row] * each[v];
    }
    for (int i = 0; i < ROWS; i++)
        for (int v = 0; v < VECS; v++)
            store(c + i * r.n + v * WIDE, sum[i][v]);
}

// Computes all rows of some columns.
template <int VECS>
void columns(Left l, const Right &r, int64_t m, float *c, Start start, const float *row) {
    auto down = [&]<int ROWS>() {
        tile<ROWS, VECS>(l, r, c, start, row);
        l.at += ROWS * l.row;
        c += ROWS * r.n;
        m -= ROWS;
    };
    while (m >= TALL)
        down.template operator()<TALL>();
    if (m >= 4)
        down.template operator()<4>();
    if (m >= 2)
        down.template operator()<2>();
    if (m)
        down.template operator()<1>();
}

} // namespace

void multiply(const Left &l, const float *r, const Sizes &sizes, float *c, Start start,
              const float *row) {
    auto [m, inner, n] = sizes;
    int64_t at = 0;
    for (; at + 2 * WIDE <= n; at += 2 * WIDE)
        columns<2>(l, Right{r + at, n, inner}, m, c + at, start, row ? row + at : row);
    if (at < n)
        columns<1>(l, Right{r + at, n, inner}, m, c + at, start, row ? row + at : row);
}

} // namespace tusk
