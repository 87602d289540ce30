/* The compact form of a model of trees, which its payload has instead of the numbers that
 * trees.c describes. It holds the same numbers, bit for bit. A head; for more than two classes
 * their margins before the first tree, as doubles; the number of splits of each tree, as 32
 * bits; then contiguously all splits, the values of all leaves (doubles), the gains of the
 * splits, the rows of the leaves, and the words of the sets of levels (32 bits). Splits and
 * leaves are in preorder. Zeros fill the last eight bytes. Numbers are little-endian. A split
 * has its threshold, float or double; its feature, with `missing` in the two highest bits; and
 * the number of splits in its left subtree. A subtree of n splits has n + 1 leaves, so this
 * determines the positions of both children: the left subtree of s splits is right after its
 * split, and the right one of n - 1 - s splits after that. A subtree without splits is a leaf.
 * (G. Jacobson, Space-efficient static trees and graphs, FOCS 1989, has trees without
 * pointers.) For a split by levels, the threshold is the distance of its set from the end of
 * the sets. */
#ifndef TUSK_COMPACT_TREES_H
#define TUSK_COMPACT_TREES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tusk_compact_head {
    /* Bytes of a threshold (4 or 8), of a feature and of a number of splits (1, 2 or 4), of a
     * gain (4 or 8), and of a number of rows (1, 2 or 4). */
    uint8_t threshold, index, gain, rows;
    uint32_t bases, trees, set_words;
    uint64_t features, splits;
} tusk_compact_head;

_Static_assert(sizeof(tusk_compact_head) == 32, "the head of compact trees has 32 bytes");

/* Compact trees whose lengths were checked. The contents of splits were not. */
typedef struct tusk_compact {
    tusk_compact_head head;
    const char *bases, *sizes, *splits, *leaves, *gains, *rows, *sets;
} tusk_compact;

/* The compact form of n numbers that are trees with as many outputs, to be freed; NULL if it
 * cannot hold them exactly, or memory is short. bytes: its length, a multiple of 8. */
char *tusk_compact_of(const double *numbers, uint64_t n, uint64_t outputs, uint64_t *bytes);

/* False if the lengths do not add up, or there are not as many outputs. */
bool tusk_compact_open(const char *at, uint64_t bytes, uint64_t outputs, tusk_compact *trees);

/* Count of their numbers in the layout of trees.c. */
uint64_t tusk_compact_numbers(const tusk_compact *trees);
/* Writes these numbers. False if a split points at no node. */
bool tusk_compact_write(const tusk_compact *trees, double *out);

/* --- interface for walks --- */

typedef struct tusk_split {
    double threshold;
    uint64_t feature, left; /* splits in the left subtree */
    uint32_t missing;
} tusk_split;

/* index and threshold are those of the head. Callers pass constants, and get code without
 * branches. */
static inline __attribute__((always_inline)) tusk_split tusk_split_at(const char *at,
                                                                      int threshold, int index) {
    tusk_split s;
    uint32_t feature = 0, left = 0;
    if (threshold == 4) {
        float value;
        __builtin_memcpy(&value, at, sizeof value);
        s.threshold = (double)value;
    } else {
        __builtin_memcpy(&s.threshold, at, sizeof s.threshold);
    }
    __builtin_memcpy(&feature, at + threshold, (size_t)index);
    __builtin_memcpy(&left, at + threshold + index, (size_t)index);
    int shift = 8 * index - 2;
    s.missing = feature >> shift;
    s.feature = feature & ((UINT32_C(1) << shift) - 1);
    s.left = left;
    return s;
}

static inline double tusk_double_at(const char *at, uint64_t i) {
    double x;
    __builtin_memcpy(&x, at + 8 * i, sizeof x);
    return x;
}
static inline uint32_t tusk_word_at(const char *at, uint64_t i) {
    uint32_t x;
    __builtin_memcpy(&x, at + 4 * i, sizeof x);
    return x;
}

/* Tests a level in the set at distance `from_end` before the end of all sets. */
bool tusk_compact_level(const tusk_compact *trees, double from_end, double level);

/* Adds the trees' values for n rows of d features, float or double, to their margins, (n,
 * outputs). False if a split points at no node or at no feature. */
bool tusk_compact_margins(const tusk_compact *trees, const void *x, bool f64, uint64_t d,
                          uint64_t n, double *out);

#endif
