// Counts of the columns of a group's rows before they become features. Counts of parts of a group
// add up, so rows in several parts become the same features everywhere.
#pragma once

#include <cstring>
#include <map>

#include "../../shared/common/exact_sum.hpp"
#include "../columns.hpp"

namespace tusk {

// Whether a key of a category of numbers is the bytes of a number, or the digits of a wide id
// (TUSK_WIDE_ID), which are more.
inline bool is_number_key(const std::string &key) {
    return key.size() == sizeof(double);
}

// Statistics of one column in a pass over the rows.
struct Seen {
    std::vector<int64_t> count; // by level
    int64_t missing = 0, n = 0;
    ExactSum sum; // of numbers, if means fill gaps

    void add(const Seen &other) {
        for (size_t level = 0; level < count.size(); level++)
            count[level] += other.count[level];
        missing += other.missing;
        n += other.n;
        sum.add(other.sum);
    }
};

// The same by level, independent of other levels. Keys are texts, or the bytes of a number, of a
// bucket of words or of a combination.
struct ColumnCounts {
    std::map<std::string, int64_t> count;
    int64_t missing = 0, n = 0;
    ExactSum sum;

    void add(const ColumnCounts &other) {
        for (const auto &[key, n_rows] : other.count)
            count[key] += n_rows;
        missing += other.missing;
        n += other.n;
        sum.add(other.sum);
    }
};

// A number as a key, and back.
template <class T> std::string key_of(T x) {
    std::string key(sizeof x, '\0');
    std::memcpy(key.data(), &x, sizeof x);
    return key;
}
template <class T> T of_key(const std::string &key) {
    T x;
    std::memcpy(&x, key.data(), sizeof x);
    return x;
}

// Finds the levels of categories and of the label; `feature` has their indices by part and code.
// Rejects numbers that are too large to identify a level.
int find_levels(const tusk_group *group, const tk_preparing *how, int threads, Columns *out,
                std::string *error);

// Counts the rows of each column that is not a product.
int look_at_rows(const tusk_group *group, const tk_preparing *how, int threads,
                 const Columns &columns, std::vector<Seen> &seen);

} // namespace tusk

struct tk_census {
    std::string schema;                      // of the columns; empty: no rows yet
    bool products = false;                   // whether combinations were counted
    std::vector<tusk::ColumnCounts> columns; // the label comes last
};

namespace tusk {

// The counts of a column over the rows of all parts; NULL: all rows are here.
inline const ColumnCounts *known_of(const tk_preparing *how, size_t column) {
    return how->census ? &how->census->columns[column] : nullptr;
}
inline const ColumnCounts *known_of_label(const tk_preparing *how) {
    return how->census ? &how->census->columns.back() : nullptr;
}

} // namespace tusk
