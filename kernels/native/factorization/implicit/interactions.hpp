// Matrix factorization of implicit feedback. A pair of a user u and an item i with feedback r_ui,
// such as the number of plays, has the preference p_ui = 1 if r_ui > 0 and else 0, with the
// confidence c_ui = 1 + alpha r_ui. Over all pairs, including those without rows, it minimises sum
// of c_ui (p_ui - x_u.y_i)^2 + l2 (sum of |x_u|^2 + sum of |y_i|^2). Hu, Koren, Volinsky,
// Collaborative Filtering for Implicit Feedback Datasets, ICDM 2008, equation 3. Users and items
// without rows take no part.
#pragma once

#include "../train.hpp"

namespace tusk {

// The other side's index, and alpha r, by which the confidence exceeds 1.
struct Entry {
    int32_t place;
    float extra;
};

// The entries of each index of a side, in the order of the other side's indices. Index k has
// entries first[k] to first[k] + count[k] - 1.
struct Lists {
    std::vector<int64_t> first, count;
    std::vector<int32_t> cut; // tasks for threads: their first indices, then the number of indices
    Charged<Entry> entries;
    const Entry *of(int64_t place) const { return entries.data() + first[place]; }
};

// The blocks of ratings of the base class are not used.
struct Interactions : Factorization {
    double alpha = 1;
    Lists by_user, by_item;
};

// Copies the rows of one group. Returns a tk_code.
int read_interactions(const tk_pass *pass, tusk_memory *memory, Interactions &f);

// The products of a side's vectors, sum of y y', with l2 on the diagonal: stride x stride floats.
// Returns a tk_code.
int gram_of(const Interactions &f, const Side &side, double l2, int threads, int64_t cancel_mark,
            Charged<float> &gram);

} // namespace tusk

struct tk_interactions : tusk::Interactions {};
