// Conversion of rows with one feature per level of each category to rows of level numbers.
#pragma once

#include <algorithm>
#include <vector>

#include "shape.hpp"

namespace tusk {

// Reads one row at a time: the plain features and, after them, the number of the level in each
// table, or -1 if the row has none.
class Levels {
public:
    Levels(const Shape &shape, bool sparse)
        : row_(shape.plain + shape.tables.size()), plain_(shape.plain) {
        if (shape.tables.empty() && !sparse)
            return; // rows are read unchanged
        size_t t = 0;
        for (int64_t k = 0; k < shape.features; k++) {
            while (t < shape.tables.size() && k >= shape.tables[t].first + shape.tables[t].levels)
                t++;
            bool in_table = t < shape.tables.size() && k >= shape.tables[t].first;
            int64_t place = in_table ? plain_ + (int64_t)t : (int64_t)at_.size() - inside_;
            inside_ += in_table;
            at_.push_back({place, in_table ? k - shape.tables[t].first : -1});
        }
    }

    template <class T> const double *of_dense(const T *x) {
        clear();
        for (size_t k = 0; k < at_.size(); k++)
            if (x[k] != 0)
                put((int64_t)k, (double)x[k]);
        return row_.data();
    }

    template <class T> const double *of_sparse(const tusk_segment *s, int64_t row) {
        clear();
        const uint32_t *start = tusk_row_starts(s) + row;
        const T *values = (const T *)tusk_sparse_values(s);
        for (uint32_t i = start[0]; i < start[1]; i++)
            put(tusk_indices(s)[i], (double)values[i]);
        return row_.data();
    }

private:
    struct Place {
        int64_t place, level; // level: -1 for a plain feature
    };

    void clear() {
        std::fill(row_.begin(), row_.begin() + plain_, 0.0);
        std::fill(row_.begin() + plain_, row_.end(), -1.0);
    }
    void put(int64_t feature, double value) {
        Place p = at_[(size_t)feature];
        row_[(size_t)p.place] = p.level < 0 ? value : (double)p.level;
    }

    std::vector<Place> at_; // by feature
    std::vector<double> row_;
    int64_t plain_, inside_ = 0;
};

} // namespace tusk
