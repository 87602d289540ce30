// Loss, gradient and curvature H = sum h_i z_i z_i' in one pass, where h_i = l''(m_i) and
// z = ((x - shift) * scale, 1).
//
// Each block of rows becomes a panel with rows sqrt(h_i) z_i, centred and scaled so that float is
// precise enough. H is the sum of P'P over the panels P, computed in tiles that fit in registers.
// Sparse rows with few entries need no panel: the products of their entries are added one by one.
#include <cmath>
#include <new>
#include <vector>

#include "../hinge/api.h"
#include "../shared/values.hpp"
#include "api.h"
#include "numbered.hpp"
#include "sparse/short_rows.hpp"

namespace tusk {
namespace {

template <class E> struct VectorOf;
// The size of a register. A tile's sums have to stay in registers; compilers keep longer vectors
// in memory.
#ifdef __AVX512F__
constexpr int VECTOR_BYTES = 64, TILE_ROWS = 8;
#else
constexpr int VECTOR_BYTES = 32, TILE_ROWS = 4;
#endif
template <> struct VectorOf<float> {
    using type = float __attribute__((vector_size(VECTOR_BYTES)));
};
template <> struct VectorOf<double> {
    using type = double __attribute__((vector_size(VECTOR_BYTES)));
};
template <class E> using Vector = typename VectorOf<E>::type;
template <class E> constexpr int WIDTH = VECTOR_BYTES / sizeof(E);
template <class E> constexpr int PADDED = 64 / sizeof(E); // a row's width is a multiple of it
constexpr int64_t LOOK_EVERY = 512;                       // product rows between cancel checks
constexpr size_t KEPT = 1 << 17;                          // largest product that a thread keeps

// Allocator aligned to cache lines: a vector that spans two of them takes longer to read back
// after it was written.
template <class X> struct InLines {
    using value_type = X;
    static constexpr std::align_val_t LINE{64};
    InLines() = default;
    template <class Y> InLines(const InLines<Y> &) {}
    X *allocate(size_t n) { return (X *)::operator new(n * sizeof(X), LINE); }
    void deallocate(X *p, size_t) { ::operator delete(p, LINE); }
    bool operator==(const InLines &) const { return true; }
};

// Buffers of one thread: a panel and the sums of its products.
template <class E> struct Scratch {
    int64_t width; // row length of the panel: p, padded
    std::vector<E, InLines<E>> panel;
    std::vector<double, InLines<double>> product;
    std::vector<double> gradient;
    std::vector<double> shift, scale; // padded, so that they are read in whole vectors
    ScaledRow row;                    // for sparse rows
    bool over;                        // the pass has to end, so the rest of the chunk is skipped

    void reset(int64_t p, const double *model_shift, const double *model_scale) {
        over = false;
        width = (p + PADDED<E> - 1) / PADDED<E> * PADDED<E>;
        int64_t tall = (p + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
        panel.assign(BLOCK_ROWS * std::max(width, tall), E(0));
        product.assign(tall * width, 0.0);
        gradient.assign(padded(p), 0.0);
        shift.assign(padded(p), 0.0);
        scale.assign(padded(p), 0.0);
        std::copy_n(model_shift, p - 1, shift.begin());
        std::copy_n(model_scale, p - 1, scale.begin());
    }

    // Frees large buffers, since the pool's threads outlive the pass.
    void give_back() {
        if (product.size() <= KEPT)
            return;
        decltype(panel)().swap(panel);
        decltype(product)().swap(product);
    }
};

// product[j][c] += sum_i panel[i][j] panel[i][c] for TILE_ROWS rows j and NC vectors of columns c.
template <class E, int NC>
void multiply_tile(const E *panel, int64_t width, int n, int64_t j, int64_t c, double *product) {
    Vector<E> sums[TILE_ROWS][NC] = {};
    for (int i = 0; i < n; i++) {
        const E *row = panel + i * width;
        Vector<E> right[NC];
        for (int v = 0; v < NC; v++)
            std::memcpy(&right[v], row + c + v * WIDTH<E>, VECTOR_BYTES);
        for (int t = 0; t < TILE_ROWS; t++)
            for (int v = 0; v < NC; v++)
                sums[t][v] += row[j + t] * right[v];
    }
    for (int t = 0; t < TILE_ROWS; t++)
        for (int v = 0; v < NC; v++) {
            double *out = product + (j + t) * width + c + v * WIDTH<E>;
            for (int k = 0; k < WIDTH<E>; k++)
                out[k] += (double)sums[t][v][k];
        }
}

// Adds the lower triangle of the panel's product, by tiles. With many weights this takes long, so
// it stops early if the pass has to end.
template <class E> void multiply(const tk_pass *pass, Scratch<E> &s, int64_t p, int n) {
    for (int64_t j = 0; j < p; j += TILE_ROWS) {
        if (j % LOOK_EVERY == LOOK_EVERY - TILE_ROWS &&
            ending(pass->cancel_mark, pass->deadline)) {
            s.over = true;
            return;
        }
        int64_t columns = std::min<int64_t>(j + TILE_ROWS, p), c = 0;
        for (; c + WIDTH<E> < columns; c += 2 * WIDTH<E>)
            multiply_tile<E, 2>(s.panel.data(), s.width, n, j, c, s.product.data());
        if (c < columns)
            multiply_tile<E, 1>(s.panel.data(), s.width, n, j, c, s.product.data());
    }
}

void store_as(double *p, v8d v) {
    store(p, v);
}
void store_as(float *p, v8d v) {
    v8f n = narrow(v);
    std::memcpy(p, &n, sizeof n);
}

template <class E, class Rows>
[[gnu::noinline]] void fill_panel(const Rows &rows, int n, int64_t d, const double *h,
                                  Scratch<E> &s) {
    for (int i = 0; i < n; i++) {
        double root = std::sqrt(h[i]);
        const auto *x = rows(i);
        E *row = s.panel.data() + i * s.width;
        for (int64_t k = 0; k < d; k += LANES) {
            v8d value = d - k >= LANES ? load(x + k) : load_tail(x + k, (int)(d - k));
            store_as(row + k, (value - load(&s.shift[k])) * (load(&s.scale[k]) * root));
        }
        row[d] = (E)root;
    }
}

template <class E, class T>
void fill_panel(const SparseBlock<T> &rows, int n, int64_t d, const double *h, Scratch<E> &s) {
    for (int i = 0; i < n; i++) {
        double root = std::sqrt(h[i]);
        E *row = s.panel.data() + i * s.width;
        std::fill(row, row + d, E(0));
        for (uint32_t k = rows.start[i]; k < rows.start[i + 1]; k++) {
            int32_t id = rows.index[k];
            row[id] += (E)(rows.value[k] * s.scale[id] * root);
        }
        row[d] = (E)root;
    }
}

// Adds the products of n rows to s.product.
template <class E, class Rows>
void add_products(const tk_pass *pass, const Rows &rows, int n, int64_t d, const double *h,
                  Scratch<E> &s) {
    fill_panel(rows, n, d, h, s);
    multiply(pass, s, d + 1, n);
}
template <class E, class T>
void add_products(const tk_pass *pass, const SparseBlock<T> &rows, int n, int64_t d,
                  const double *h, Scratch<E> &s) {
    if (short_rows<E>(rows, d + 1))
        return add_products(rows, h, Products{d, s.width, s.scale.data(), s.product.data()},
                            s.row);
    fill_panel(rows, n, d, h, s);
    multiply(pass, s, d + 1, n);
}

struct Model {
    const double *w, *w_padded, *shift, *scale;
};

template <class Rows>
void margins(const Rows &rows, int n, int64_t d, const Model &m, double *out) {
    margins(rows, n, d, m.w_padded, m.w[d], out);
}
template <class T>
void margins(const SparseBlock<T> &rows, int, int64_t d, const Model &m, double *out) {
    margins(rows, m.w, m.w[d], out);
}
template <class T>
void add_gradient(const SparseBlock<T> &rows, int, int64_t, const double *r, double *g) {
    add_gradient(rows, r, g);
}

// Upper bound of the scratch memory of all threads.
int64_t scratch_bytes(const tk_pass *pass) {
    int64_t p = pass->groups[0].dim + 1;
    return pass->threads * p * (p + BLOCK_ROWS) * (int64_t)sizeof(double);
}

// The number of rows per chunk. Each chunk needs a separate triangle, so chunks are long enough
// that the triangles take less memory than the rows. Short sparse rows make longer chunks, since
// adding up a triangle takes as long as many of them, as long as there are enough chunks for the
// threads. `learners/linear/planner/cost.py` counts the chunks.
int64_t curvature_rows(const tk_pass *pass, int64_t g) {
    const tusk_group &group = pass->groups[g];
    const int64_t p = group.dim + 1;
    int64_t rows = std::max<int64_t>(chunk_rows_for(pass), 4 * p);
    if (!tusk_is_sparse(group.kind) || !group.n_rows)
        return rows;
    const int64_t entries = tk_nonzeros(&group) / group.n_rows + 1;
    const int64_t shared = std::max(group.n_rows / 32, (1 << 19) / (12 * entries + 8));
    rows = std::max(rows, std::min<int64_t>(shared, 16384));
    const int64_t products = entries * (entries + 1) / 2, triangle = p * (p + 1) / 2;
    if (ENTRY_PRODUCTS<double> * products < triangle)
        rows = std::max(rows, std::min(8 * triangle / products, group.n_rows / 8));
    return rows;
}

// Calls block(rows, targets, n) for each block of a chunk, then adds the scratch's sums to out.
template <class T, class E, class Block>
void add_chunk(const tk_pass *pass, Scratch<E> &s, const Chunk &c, double *out, Block &&block) {
    const int64_t d = pass->groups[0].dim;
    if (tusk_is_sparse(pass->groups[0].kind))
        for_sparse_blocks<T>(c, BLOCK_ROWS,
                             [&](const SparseBlock<T> &rows) { block(rows, rows.y, rows.n); });
    else
        for_dense_blocks<T>(c, d, BLOCK_ROWS, block);
    for (int64_t k = 0; k < d; k++)
        out[2 + k] += s.gradient[k];
    double *h_out = out + d + 3;
    for (int64_t j = 0; j <= d; j++)
        for (int64_t k = 0; k <= j; k++)
            *h_out++ += s.product[j * s.width + k];
    s.give_back();
}

template <class E, class T>
void curvature_chunk(const tk_pass *pass, const Chunk &c, const Model &model, double *out) {
    const Loss loss(pass, c.group);
    const Labels labels(pass, c.group);
    const int64_t d = pass->groups[0].dim;
    static thread_local Scratch<E> own;
    Scratch<E> &s = own; // looks up the thread's variable only once
    s.reset(d + 1, model.shift, model.scale);
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS], h[BLOCK_ROWS];
    auto block = [&](const auto &rows, const Targets &y, int n) {
        if (s.over)
            return;
        out[1] += weight_of(y, n);
        margins(rows, n, d, model, m);
        out[0] += evaluate(loss, labels, m, y, n, r, h);
        add_gradient(rows, n, d, r, s.gradient.data());
        out[2 + d] += sum_block(r);
        add_products(pass, rows, n, d, h, s);
    };
    add_chunk<T>(pass, s, c, out, block);
}

template <class E, class T>
int curvature(const tk_pass *pass, const double *weights, const double *shift, const double *scale,
              double *out) {
    int64_t d = pass->groups[0].dim, p = d + 1;
    bool sparse = tusk_is_sparse(pass->groups[0].kind);
    const PaddedWeights w = sparse ? PaddedWeights() : PaddedWeights(pass, weights);
    auto chunks = make_chunks(pass, [&](int64_t g) { return curvature_rows(pass, g); });
    auto add = [&](const Chunk &c, double *acc) {
        Model model{weights + c.group * p, w.of(c.group), shift + c.group * d,
                    scale + c.group * d};
        curvature_chunk<E, T>(pass, c, model, acc);
    };
    int64_t size = d + 3 + p * (p + 1) / 2;
    return sum_over_chunks(pass, chunks, size, out, add, pass->deadline);
}

// The same for given slopes and curvatures, one per row, from the chunk's first row on.
template <class T>
void given_chunk(const tk_pass *pass, const Chunk &c, const Model &model, const double *slope,
                 const double *curvature, double *out) {
    const int64_t d = pass->groups[0].dim;
    static thread_local Scratch<double> own;
    Scratch<double> &s = own; // looks up the thread's variable only once
    s.reset(d + 1, model.shift, model.scale);
    alignas(64) double r[BLOCK_ROWS] = {0};
    auto block = [&](const auto &rows, const double *, int n) {
        if (s.over)
            return;
        out[1] += n;
        std::copy_n(slope, n, r);
        std::fill(r + n, r + BLOCK_ROWS, 0.0);
        add_gradient(rows, n, d, r, s.gradient.data());
        out[2 + d] += sum_block(r);
        add_products(pass, rows, n, d, curvature, s);
        slope += n;
        curvature += n;
    };
    add_chunk<T>(pass, s, c, out, block);
}

} // namespace
} // namespace tusk

int tk_curvature(const tk_pass *pass, const double *weights, const double *shift,
                 const double *scale, int precise, double *out) {
    using namespace tusk;
    return code_of([&] {
        Counted scratch(scratch_bytes(pass));
        return with_storage(pass, [&]<class T>(const T *) {
            if (precise || sizeof(T) == sizeof(double))
                return curvature<double, T>(pass, weights, shift, scale, out);
            return curvature<float, T>(pass, weights, shift, scale, out);
        });
    });
}

int tk_interior_curvature(const tk_pass *pass, const tk_interior *rows, const double *shift,
                          const double *scale, double *out) {
    using namespace tusk;
    return code_of([&] {
        int64_t d = pass->groups[0].dim, p = d + 1;
        Numbered all(pass, make_chunks(pass, [&](int64_t g) { return curvature_rows(pass, g); }));
        Counted scratch(scratch_bytes(pass));
        return with_storage(pass, [&]<class T>(const T *) {
            auto add = [&](const Chunk &c, double *acc) {
                int64_t at = rows->offset[c.group] + all.first_of(c);
                Model model{nullptr, nullptr, shift + c.group * d, scale + c.group * d};
                given_chunk<T>(pass, c, model, rows->slope + at, rows->curvature + at, acc);
            };
            int64_t size = d + 3 + p * (p + 1) / 2;
            return sum_over_chunks(pass, all.chunks, size, out, add, pass->deadline);
        });
    });
}
