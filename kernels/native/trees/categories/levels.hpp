// Bins of categories: one for each frequent level, and one for all others.
#pragma once

#include <vector>

#include "../bins.hpp"

namespace tusk {

// The most frequent of some values, rising, at most `most` of them; ties go to the lower one. A
// number that is not a level if there are none. The values are sorted.
template <class T> std::vector<double> levels_of(std::vector<T> &values, int most);
// The same for one feature of all rows of a group, for groups whose values are a sample: a sample
// has all rows of equal content or none, so it might lack frequent levels.
std::vector<double> levels_in(const tusk_group &group, int32_t feature, int most);

// The rows of each level of a feature, (TK_MOST_LEVEL + 1,), and the most frequent levels by them.
std::vector<size_t> level_counts(const tusk_group &group, int32_t feature);
std::vector<double> frequent_levels(const std::vector<size_t> &rows, int most);

// Whether all values of categories are levels: whole numbers from 0 to TK_MOST_LEVEL, or NaN.
bool are_levels(const tusk_group &group, const uint8_t *by_level);

// Writes the bins of the categories of the rows of a segment into (n, d) bins of all features.
void code_levels(const tusk_segment *segment, int32_t kind, const Bins &bins, uint8_t *out);

} // namespace tusk
