// Biased matrix factorization by stochastic gradient descent. Over n ratings r_ui it minimises
//
//     mean of 1/2 (m - r_ui)^2 + l2/2 (|p_u|^2 + |q_i|^2 + b_u^2 + b_i^2),
//     m = mu + b_u + b_i + p_u.q_i,
//
// where mu is the mean rating (without biases b = 0 and mu = 0). A rating of weight 2 counts as
// two, in the means and in the penalty. The penalty counts a vector once per rating, as libmf,
// Surprise and the papers do. Koren, Bell, Volinsky, Matrix Factorization Techniques for
// Recommender Systems, IEEE Computer 2009, equation 5 and "stochastic gradient descent"; S. Funk,
// Netflix Update: Try This at Home, 2006; low-rank matrix factorization as in-database SGD: Qin,
// Torres, Rusu, VLDB 2017.
//
// Training uses ratings in units of their standard deviation s, so that one step size suits every
// scale of ratings: r' = (r - mu) / s, b' = b / s, p' = p / sqrt(s), and the penalties of p' and
// q' are l2_factors / s.
#pragma once

#include <memory>
#include <vector>

#include "../shared/charged.hpp"
#include "../shared/rows.hpp"
#include "api.h"

namespace tusk {

// A user's or an item's vector has its bias first, then its factors, then zeros up to a multiple
// of LINE floats. It is aligned to cache lines.
constexpr int LINE = 16;

// The indices of user and item in the tables of vectors, and the rating in units of the deviation.
struct Rating {
    int32_t user, item;
    float value;
};

// The users or the items. Those with ratings have indices, in the order of ids. Indices are cut
// into ranges with about the same number of ratings.
struct Side {
    int64_t n_ids = 0;
    std::vector<int32_t> place; // by id; -1: no ratings
    std::vector<int32_t> id;    // by index
    std::vector<int64_t> count; // number of ratings, by index
    std::vector<double> mass;   // sum of the ratings' weights, by index; empty: they have none
    double weight(int64_t place) const {
        return mass.empty() ? (double)count[place] : mass[place];
    }
    std::vector<int32_t> range; // by index
    std::vector<int32_t> first; // first index of each range, then the number of indices
    Charged<float> vectors;     // stride floats per index
    Charged<float> kept;        // the copy of tk_factorization_keep
    int64_t seen() const { return (int64_t)count.size(); }
};

// Ratings are stored in blocks: a range of users by a range of items, with `grid` ranges on each
// side. Block (a, b) has ratings start[a * grid + b] to start[a * grid + b + 1] - 1.
struct Factorization {
    int32_t rank, biases, stride;
    double l2, l2_factors; // as in tk_factor_spec
    uint64_t seed;
    Side users, items;
    int64_t block_bytes = 0; // as in tk_factor_spec
    int32_t grid = 1;
    int64_t n = 0;
    tusk_memory *memory = nullptr;
    Charged<Rating> ratings;
    Charged<float> weights; // parallel to ratings, with the mean 1; NULL: they have none
    std::vector<int64_t> start;
    double mean = 0, deviation = 1;

    int32_t width() const { return rank + (biases ? 1 : 0); }
    int32_t lines() const { return stride / LINE; }
};

void take_spec(const tk_factor_spec &spec, Factorization &f);

// A hash of x, in which every bit looks random.
inline uint64_t scrambled(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Calls body(user, item, rating, weight) for the rows of a chunk, with ids in their stored type.
template <class Body> void for_ratings(const tk_pass *pass, const Chunk &c, Body &&body) {
    auto walk = [&]<class T>(const T *) {
        const tusk_segment *s = c.segment;
        uint32_t at = c.offset;
        for (int64_t left = c.rows; left > 0;) {
            if (at == s->n_rows) {
                s = s->next;
                at = 0;
                continue;
            }
            const T *x = (const T *)tusk_dense_values(s);
            const double *y = tusk_labels(s);
            const double *w = tusk_extra(s, tusk_shape_of(pass->groups), TUSK_WEIGHTS);
            uint32_t end = (uint32_t)std::min<int64_t>(s->n_rows, at + left);
            left -= end - at;
            for (; at < end; at++)
                body(x[2 * (size_t)at], x[2 * (size_t)at + 1], y[at], w ? w[at] : 1.0);
        }
    };
    pass->groups[0].kind == TUSK_DENSE_F32 ? walk((const float *)nullptr)
                                           : walk((const double *)nullptr);
}

constexpr int64_t RATING_CHUNK = 1 << 15;
// Size of a block's vectors, such that they stay in a core's own cache.
constexpr double BLOCK_BYTES = 1 << 18;

// Counts the ratings of each id, in side.count by id for now. Returns a tk_code.
int count_ids(const tk_pass *pass, const std::vector<Chunk> &chunks, Side &users, Side &items);
// Assigns indices to ids with ratings. From here on side.count is by index.
void assign_places(Side &side);

// Cuts the indices into `grid` ranges with about n / grid ratings each.
void cut(Side &side, int64_t n, int32_t grid);
// Orders a block by a seeded hash of each rating. This is as random as a shuffle, and does not
// depend on the order of the rows.
void order_block(Rating *ratings, float *weights, size_t n, uint64_t seed);

// Draws the initial factors; of a side, by its ids.
void draw_start(Factorization &f);
void draw_side(const Factorization &f, const Side &side, bool items, float *vectors);
// Writes a vector in the caller's units, (width,), and the vectors of a side by id, (n_ids,
// width).
void write_vector(const Factorization &f, const float *v, double *coef);
void write_side(const Factorization &f, const Side &side, double *coef);

// Copies the rows of one group into blocks of ratings. Their order depends only on the ratings and
// the seed. Returns a tk_code.
int read_ratings(const tk_pass *pass, tusk_memory *memory, Factorization &f);

} // namespace tusk

struct tk_factorization : tusk::Factorization {};
