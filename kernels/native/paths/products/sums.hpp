// Sums over rows from which few dense features are fitted and judged, without the rows (Friedman,
// Hastie and Tibshirani, 2010, section 2.2, covariance updates).
#pragma once

#include <vector>

#include "../../shared/charged.hpp"
#include "../rows.hpp"

namespace tusk {

// The weighted products of columns, for each part of the rows: the features, a column of ones,
// and the labels. With an intercept means over all rows are taken from features and labels, so
// that sums stay exact where values are large beside their spread. The rows of a fold's fit are
// all other parts: their sums are added, because a difference would lose digits.
class Sums {
public:
    // start: parts are the rows from start[p] to start[p + 1]. Throws NoMemory.
    Sums(const Sample &rows, const std::vector<int64_t> &start, bool intercept, int threads,
         tusk_memory *memory, int64_t cancel_mark);

    static constexpr int64_t MOST_FEATURES = 256;
    // Whether sums of so many features and parts take little memory.
    static bool few(int64_t d, int64_t parts);

    int64_t d, k;              // features; columns: k = d + 2
    std::vector<double> shift; // (k,) what was taken from x' = x - `Features::origin`, and from y
    // What is taken from x and y as they came.
    double of_zero(int64_t j) const { return shift[j] + rows_.features->origin(j); }
    int64_t ones() const { return d; }
    int64_t labels() const { return d + 1; }
    int64_t parts() const { return (int64_t)start_.size() - 1; }
    const double *part(int64_t p) const { return sums_.data() + p * k * k; } // (k, k)
    // (k, k) over all parts but one, or with -1 over all.
    std::vector<double> without(int64_t part) const;
    // Whether a feature has another value than `shift` has without rounding.
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
    // Numbers that a task writes to: some rows' columns, and its sums.
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
