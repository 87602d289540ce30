// Which keys of a store the blocks of ratings need, found once a training.
//
// A key holds the vectors of `per_key` neighbouring ids, users' and items' apart; or, a key a
// weight, a number of one vector. The vectors with ratings that a key has of one range are a
// bundle. A piece is as much of a block of ratings, all of it where that fits, as a worker may
// hold the keys of: it asks for each of its bundles once.
#pragma once

#include "factorization.hpp"

namespace tusk {

struct Bundle {
    uint64_t key;       // a key a weight: the first of its vector
    int32_t first, end; // places
};

struct KeySide {
    uint64_t first_row = 0; // of id 0, of the vectors in the store
    std::vector<Bundle> bundles;
    std::vector<int32_t> first;  // bundle of each range, and behind them their number
    std::vector<int32_t> visits; // pieces that need each bundle
    std::vector<int32_t> left;   // of them, those to come in this visit of all ratings
    std::vector<uint8_t> drawn;  // bundles whose vectors have their start
};

// Ratings first .. next piece's first - 1; bundles needs .. needs + users + items - 1.
struct Piece {
    int64_t first, needs;
    int32_t users, items;
};

struct Keys {
    int32_t per_key = 1; // vectors
    bool key_a_weight = false;
    int32_t per_vector = 1; // keys, of a key a weight
    int32_t width = 0;      // weights of a key
    KeySide users, items;
    std::vector<int64_t> start; // piece of each block, and behind them their number
    std::vector<Piece> pieces;  // and one behind them
    Charged<int32_t> needs;
    int64_t vectors = 0; // that the ratings of pieces name, summed over pieces
};

// Keys that all blocks together ask for with so many vectors a key: n of either; a tk_code.
int count_keys(const Factorization &f, const int32_t *per_key, int32_t n, int threads,
               int64_t cancel_mark, int64_t *keys);

// per_key 0: a key a weight. key_bytes: of a key in a worker's memory, of which it has most_bytes.
int find_keys(const Factorization &f, int32_t per_key, int64_t key_bytes, int64_t most_bytes,
              int threads, int64_t cancel_mark, Keys &keys);

} // namespace tusk

struct tk_factor_keys : tusk::Keys {};
