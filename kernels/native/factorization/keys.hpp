// The keys of a store that the blocks of ratings need, found once per training.
//
// A key holds the vectors of `per_key` neighbouring users, or of `per_key` neighbouring items.
// With one key per weight it holds a single number of a vector. A bundle is the vectors of a key
// that have ratings and belong to one range. A piece is a block of ratings, or a part of it if a
// worker may not hold the keys of all of it. A piece requests each of its bundles once.
#pragma once

#include "factorization.hpp"

namespace tusk {

struct Bundle {
    uint64_t key;       // with one key per weight: the first key of the vector
    int32_t first, end; // indices
};

struct KeySide {
    uint64_t first_row = 0; // row of id 0 in the store
    std::vector<Bundle> bundles;
    std::vector<int32_t> first;  // first bundle of each range, then the number of bundles
    std::vector<int32_t> visits; // pieces that need each bundle
    std::vector<int32_t> left;   // remaining pieces in this epoch, by bundle
    std::vector<uint8_t> drawn;  // whether the bundle's vectors have their initial values
};

// Ratings `first` to the next piece's first - 1, and bundles `needs` to needs + users + items - 1.
struct Piece {
    int64_t first, needs;
    int32_t users, items;
};

struct Keys {
    int32_t per_key = 1; // vectors per key
    bool key_a_weight = false;
    int32_t per_vector = 1; // keys per vector, with one key per weight
    int32_t width = 0;      // weights per key
    KeySide users, items;
    std::vector<int64_t> start; // first piece of each block, then the number of pieces
    std::vector<Piece> pieces;  // followed by one that marks the end
    Charged<int32_t> needs;
    int64_t vectors = 0; // distinct vectors of each piece, summed over pieces
};

// For each of the n values of per_key, counts the keys that all blocks together request. Returns a
// tk_code.
int count_keys(const Factorization &f, const int32_t *per_key, int32_t n, int threads,
               int64_t cancel_mark, int64_t *keys);

// per_key 0: one key per weight. key_bytes: size of a key in a worker's memory. most_bytes: the
// worker's memory for keys.
int find_keys(const Factorization &f, int32_t per_key, int64_t key_bytes, int64_t most_bytes,
              int threads, int64_t cancel_mark, Keys &keys);

} // namespace tusk

struct tk_factor_keys : tusk::Keys {};
