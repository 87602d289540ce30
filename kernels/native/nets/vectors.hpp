// The vectors of tables that a batch reads, for steps that leave all other vectors alone.
#pragma once

#include <algorithm>

#include "../shared/charged.hpp"
#include "shape.hpp"

namespace tusk {

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

} // namespace tusk
