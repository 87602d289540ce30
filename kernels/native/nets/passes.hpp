// Forward and backward passes of rows through a net: margins, losses and gradients.
#pragma once

#include <algorithm>
#include <vector>

#include "../shared/charged.hpp"
#include "arithmetic/random.hpp"
#include "shape.hpp"

namespace tusk {

// The vectors of tables that a batch reads, for steps that leave all other vectors alone.

// The derivatives by the vectors of a batch's rows, row by row: `delta` is (batch,
// padded(embedded)), `level` (batch, tables), -1: none.
class TouchedVectors {
public:
    // rows: largest size of a batch.
    int take(tusk_memory *memory, const Shape &shape, int64_t rows) {
        shape_ = &shape;
        width_ = padded(shape.embedded());
        tables_ = (int64_t)shape.tables.size();
        int code = numbers_.take(memory, rows * width_);
        code = code ? code : places_.take(memory, rows * tables_ + levels_of(shape));
        if (!code)
            std::fill_n(first_rows(), levels_of(shape), NONE);
        return code;
    }

    static int64_t floats(const Shape &shape, int64_t rows) {
        return rows * (padded(shape.embedded()) + (int64_t)shape.tables.size()) + levels_of(shape);
    }

    int64_t width() const { return width_; }
    float *delta(int64_t row) { return numbers_.data() + row * width_; }
    int32_t *level(int64_t row) { return places_.data() + levels_of(*shape_) + row * tables_; }

    // Calls body(gradient, offset, length) once for each vector of a table that one of n rows
    // reads; gradient: the sum over these rows, in their order; offset: among the weights.
    template <class Body> void each(int64_t t, int64_t n, Body &&body) {
        const Table &table = shape_->tables[(size_t)t];
        int32_t *first = first_rows();
        for (int64_t before = 0; before < t; before++)
            first += shape_->tables[(size_t)before].levels;
        const int64_t column = table.input - shape_->plain;
        for (int64_t i = 0; i < n; i++) {
            int32_t &at = level(i)[t];
            if (at < 0)
                continue;
            if (first[at] == NONE) {
                first[at] = (int32_t)i;
                continue;
            }
            float *sum = delta(first[at]) + column;
            const float *more = delta(i) + column;
            for (int64_t k = 0; k < table.dim; k++)
                sum[k] += more[k];
            at = NONE;
        }
        for (int64_t i = 0; i < n; i++) {
            const int32_t at = level(i)[t];
            if (at < 0)
                continue;
            first[at] = NONE;
            body(delta(i) + column, table.vectors + at * table.dim, table.dim);
        }
    }

private:
    static constexpr int32_t NONE = -1;

    static int64_t levels_of(const Shape &shape) {
        int64_t n = 0;
        for (const Table &table : shape.tables)
            n += table.levels;
        return n;
    }
    // Index of the first row of the batch that has a level, for each level of each table.
    int32_t *first_rows() { return places_.data(); }

    const Shape *shape_ = nullptr;
    int64_t width_ = 0, tables_ = 0;
    Charged<float> numbers_;
    Charged<int32_t> places_;
};

constexpr int64_t ROWS = 64; // that go through a net at once

// Inputs of one group: rows (n, shape.stride()), and labels; for classes their indices. weight: of
// the loss of each row, (n,), or NULL; total: the sum over the rows.
struct Rows {
    const float *x, *y;
    int64_t n;
    const float *weight;
    double total;
};

// Buffers for ROWS rows: for each layer its inputs, and for hidden units the slopes.
class Space {
public:
    int take(tusk_memory *memory, const Shape &shape);
    static int64_t floats(const Shape &shape);

    std::vector<float *> input, slope; // by layer, (ROWS, padded(in))
    float *margins = nullptr;          // (ROWS, padded(outputs))
    float *delta[2] = {};              // derivatives by the sums of two layers
    float *label = nullptr;            // (ROWS,)
    float *weight = nullptr;           // (ROWS,)
    std::vector<int32_t> level;        // (ROWS, tables), -1: none
    float *gradient = nullptr;         // like the weights, shape.of_gradient()

private:
    Charged<float> memory_;
};

// The weights, and the matrices after the first layer transposed: (out, padded(in)). Those of
// layers of few units are stored so. embedded: the part of the first matrix whose inputs are
// vectors of tables, (out, padded(embedded)).
struct Weights {
    const float *flat, *embedded;
    std::vector<const float *> transposed;
};

// Arguments of a pass over the rows of a batch.
struct Batch {
    const tk_net *net;
    const Shape *shape;
    const Weights *weights;
    Rows rows;
    const uint32_t *order;             // of the batch's rows; NULL: in their order
    int64_t n;                         // rows of the batch
    int64_t cancel_mark;               // after a cancel, sums are incomplete
    TouchedVectors *touched = nullptr; // for sparse steps
};

// The sum of the losses of rows `from` to `to` of a batch. Without `gradient` no dropout.
double losses_of(const Batch &batch, int64_t from, int64_t to, Space &space);
// The same, and adds the gradient of the batch's mean loss to space.gradient. seed: of dropout.
double add_gradient(const Batch &batch, int64_t from, int64_t to, uint64_t seed, Space &space);

// The sum of losses of n rows, each times its weight (1 where NULL); turns `margins` into
// derivatives by them, times `scale`.
double output_losses(const tk_net &net, float *margins, const float *y, const float *weight,
                     int64_t n, float scale);

} // namespace tusk
