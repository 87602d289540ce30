// Sums over rows for fitting and evaluating few dense features without the rows (Friedman, Hastie
// and Tibshirani, 2010, section 2.2, covariance updates).
#pragma once

#include <vector>

#include "../../shared/charged.hpp"
#include "../rows.hpp"

namespace tusk {

// The weighted products of columns, for each part of the rows: the features, a column of ones, and
// the labels. With an intercept means over all rows are subtracted from features and labels, so
// that sums stay exact if values are large relative to their spread. The rows of a fold's fit are
// all other parts: their sums are added, because a difference would lose digits.
class Sums {
public:
    // start: part p has the rows from start[p] to start[p + 1]. Throws NoMemory.
    Sums(const Sample &rows, const std::vector<int64_t> &start, bool intercept, int threads,
         tusk_memory *memory, int64_t cancel_mark);

    static constexpr int64_t MOST_FEATURES = 256;
    // Whether sums of this many features and parts take little memory.
    static bool few(int64_t d, int64_t parts);

    int64_t d, k;              // features; columns: k = d + 2
    std::vector<double> shift; // (k,) subtracted from x' = x - `Features::origin`, and from y
    // Total subtracted from original x and y.
    double of_zero(int64_t j) const { return shift[j] + rows_.features->origin(j); }
    int64_t ones() const { return d; }
    int64_t labels() const { return d + 1; }
    int64_t parts() const { return (int64_t)start_.size() - 1; }
    const double *part(int64_t p) const { return sums_.data() + p * k * k; } // (k, k)
    // (k, k) over all parts except one, or over all with -1.
    std::vector<double> without(int64_t part) const;
    // Whether a feature varies beyond the rounding of `shift`.
    bool varies(int64_t j) const;
    // The weighted squares of the labels of a part minus the margins of weights for x', from the
    // rows. Slower than products, but without their rounding.
    double squares(int64_t part, const std::vector<int32_t> &feature,
                   const std::vector<double> &weight, double intercept) const;

private:
    struct Task { // some rows of a part
        int64_t part, from, to;
    };
    const Sample &rows_;
    std::vector<int64_t> start_;
    int64_t cancel_mark_;
    Charged<double> sums_;

    bool intercept_;

    std::vector<Task> tasks() const;
    // Count of numbers that a task writes: some rows' columns, and its sums.
    int64_t size_of_columns() const;
    int64_t size_of_work() const;
    template <class Do, class Take>
    void each(const std::vector<Task> &tasks, int threads, double *work, int64_t slots, Do task,
              Take take) const;
    void centre(const std::vector<Task> &tasks, int threads, double *work, int64_t slots);
    void add_means(const Task &task, double *z, double *out) const;
    void add_products(const Task &task, double *z, double *out) const;
    void columns(int64_t from, int64_t rows, double *z) const;
};

} // namespace tusk
