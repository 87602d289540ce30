/* Trees as the bounds of each feature (Lucchese et al., QuickScorer, SIGIR 2015). The bounds of
 * a feature, of all trees, are in rising order. A row visits those below its value. At each of
 * these splits the row goes right, so it ends at none of the leaves on the left: the split's
 * mask removes them from the remaining leaves of its tree. At the end the first remaining leaf
 * of a tree is the row's. Memory is read from front to back, whereas a walk jumps from node to
 * node and waits for each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forms.h"

#define MOST_LEAVES 32 /* of a tree, a bit each; with more leaves, walks are faster */
#define DIGITS 256

/* Rows go right if their value is greater. mask: 0 for leaves on the left. An infinite bound
 * follows those of each feature. */
typedef struct narrow_bound {
    float bound;
    uint32_t mask;
    uint16_t tree;
} narrow_bound;
typedef struct wide_bound {
    double bound;
    uint32_t mask;
    uint16_t tree;
} wide_bound;

struct tusk_masked {
    uint32_t trees, features, splits;
    bool wide, exact; /* whether bounds are wide; whether they are the thresholds */
    /* Followed by the values of the leaves, the bounds, the start of each feature's bounds, and
     * the first leaf of each tree. */
};

static uint32_t bounds_of(const tusk_masked *p) {
    return p->splits + p->features;
}
static size_t size_of_bound(const tusk_masked *p) {
    return p->wide ? sizeof(wide_bound) : sizeof(narrow_bound);
}
static double *leaves_of(const tusk_masked *p) {
    return (double *)(p + 1);
}
static char *first_bound(const tusk_masked *p) {
    return (char *)(leaves_of(p) + p->splits + p->trees);
}
static uint32_t *begins_of(const tusk_masked *p) {
    return (uint32_t *)(void *)(first_bound(p) + size_of_bound(p) * bounds_of(p));
}
static uint32_t *first_leaves(const tusk_masked *p) {
    return begins_of(p) + p->features;
}

/* --- from the compact form --- */

static tusk_masked head_of(const tusk_compact_head *h, bool f64) {
    bool wide = f64 && h->threshold == sizeof(double);
    return (tusk_masked){h->trees, (uint32_t)h->features, (uint32_t)h->splits, wide,
                         wide || h->threshold == sizeof(float)};
}

size_t tusk_masked_bytes(const tusk_compact *c, bool f64) {
    for (uint32_t t = 0; t < c->head.trees; t++)
        if (tusk_word_at(c->sizes, t) >= MOST_LEAVES)
            return 0;
    tusk_masked head = head_of(&c->head, f64);
    return (size_t)((char *)(first_leaves(&head) + head.trees) - (char *)&head);
}

/* A split during sorting. key: orders bounds like numbers. */
typedef struct sorted_split {
    uint64_t key;
    double bound;
    uint32_t mask;
    uint16_t tree;
    uint8_t feature;
} sorted_split;

static uint64_t key_of(double bound) {
    uint64_t bits;
    double x = bound + 0.0; /* not -0 */
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* The largest float up to x. */
static float float_below(double x) {
    float y = (float)x;
    return (double)y > x ? nextafterf(y, -INFINITY) : y;
}

/* A subtree whose splits are still to be read: their number, and its first leaf in the tree. */
typedef struct open_subtree {
    uint64_t splits, leaf;
} open_subtree;

/* Reads the splits of one tree, from the given one on. False if it is damaged or splits by
 * levels. */
static bool read_tree(const tusk_compact *c, const tusk_masked *to, uint32_t tree, uint64_t split,
                      sorted_split *out) {
    const tusk_compact_head *h = &c->head;
    open_subtree open[MOST_LEAVES + 1] = {{tusk_word_at(c->sizes, tree), 0}};
    for (int waiting = 1; waiting;) {
        open_subtree of = open[--waiting];
        if (!of.splits)
            continue;
        const char *place = c->splits + split++ * (uint64_t)(h->threshold + 2 * h->index);
        tusk_split s = tusk_split_at(place, h->threshold, h->index);
        if (s.left >= of.splits || s.feature >= h->features || s.missing > 1 ||
            s.threshold != s.threshold)
            return false;
        uint64_t left = ((UINT64_C(1) << (s.left + 1)) - 1) << of.leaf;
        double bound = to->wide ? s.threshold : (double)float_below(s.threshold);
        *out++ = (sorted_split){key_of(bound), bound, ~(uint32_t)left, (uint16_t)tree,
                                (uint8_t)s.feature};
        open[waiting++] = (open_subtree){of.splits - 1 - s.left, of.leaf + s.left + 1};
        open[waiting++] = (open_subtree){s.left, of.leaf};
    }
    return true;
}

static bool read_trees(const tusk_compact *c, const tusk_masked *to, sorted_split *out) {
    uint64_t split = 0;
    for (uint32_t t = 0; t < to->trees; t++) {
        first_leaves(to)[t] = (uint32_t)split + t;
        if (!read_tree(c, to, t, split, out + split))
            return false;
        split += tusk_word_at(c->sizes, t);
    }
    return true;
}

/* Sorts stably by one digit of the key, or by the feature. count: of each digit, initially 0. */
static void sort_by(const sorted_split *from, sorted_split *to, uint32_t n, int shift) {
    uint32_t next[DIGITS] = {0}, before = 0;
    bool by_feature = shift >= 64;
#define DIGIT(s) (by_feature ? (s).feature : (uint8_t)((s).key >> shift))
    for (uint32_t i = 0; i < n; i++)
        next[DIGIT(from[i])]++;
    for (int d = 0; d < DIGITS; d++) {
        uint32_t count = next[d];
        next[d] = before;
        before += count;
    }
    for (uint32_t i = 0; i < n; i++)
        to[next[DIGIT(from[i])]++] = from[i];
#undef DIGIT
}

/* Whether a digit of all keys is the same. */
static bool is_common(const sorted_split *splits, uint32_t n, int shift) {
    uint64_t others = 0;
    for (uint32_t i = 1; i < n; i++)
        others |= splits[i].key ^ splits[0].key;
    return shift < 64 && !(others >> shift & 0xff);
}

/* Sorts by feature and bound; returns the sorted array, either of both. */
static sorted_split *sort(sorted_split *splits, sorted_split *other, uint32_t n) {
    for (int shift = 0; shift <= 64; shift += 8) {
        if (is_common(splits, n, shift))
            continue;
        sort_by(splits, other, n, shift);
        sorted_split *sorted = other;
        other = splits;
        splits = sorted;
    }
    return splits;
}

static void put_bound(const tusk_masked *to, uint32_t at, sorted_split s) {
    if (to->wide)
        ((wide_bound *)(void *)first_bound(to))[at] = (wide_bound){s.bound, s.mask, s.tree};
    else
        ((narrow_bound *)(void *)first_bound(to))[at] =
            (narrow_bound){(float)s.bound, s.mask, s.tree};
}

static void put_bounds(const tusk_masked *to, const sorted_split *sorted) {
    const sorted_split end = {.bound = INFINITY};
    uint32_t i = 0, at = 0;
    for (uint32_t f = 0; f < to->features; f++) {
        begins_of(to)[f] = at;
        while (i < to->splits && sorted[i].feature == f)
            put_bound(to, at++, sorted[i++]);
        put_bound(to, at++, end);
    }
}

bool tusk_masked_make(const tusk_compact *c, bool f64, tusk_masked *to) {
    *to = head_of(&c->head, f64);
    sorted_split *splits = malloc(2 * (size_t)to->splits * sizeof *splits);
    bool made = splits && read_trees(c, to, splits);
    if (made) {
        put_bounds(to, sort(splits, splits + to->splits, to->splits));
        memcpy(leaves_of(to), c->leaves, (to->splits + to->trees) * sizeof(double));
    }
    free(splits);
    return made;
}

/* --- margins --- */

/* The least float from x on. */
static float float_above(double x) {
    float y = (float)x;
    if ((double)y < x) {
        uint32_t bits;
        memcpy(&bits, &y, sizeof bits);
        bits += y >= 0 ? 1 : -1U;
        memcpy(&y, &bits, sizeof y);
    }
    return y;
}
static float same(double x) {
    return (float)x;
}

/* The margin of a row after its values are converted to the type of the bounds. */
#define DEFINE_MARGIN(name, T, B, bound_type, turned)                               \
    static bool name(const tusk_masked *p, const T *x, double *sum) {               \
        uint32_t left[MOST_TREES];                                                  \
        const bound_type *bounds = (const bound_type *)(void *)first_bound(p);      \
        const uint32_t *begin = begins_of(p), *first = first_leaves(p);             \
        const double *leaves = leaves_of(p);                                        \
        memset(left, 0xff, p->trees * sizeof *left);                                \
        for (uint32_t f = 0; f < p->features; f++) {                                \
            B value = (B)turned(x[f]);                                              \
            if (value != value)                                                     \
                return false;                                                       \
            for (const bound_type *at = bounds + begin[f]; at->bound < value; at++) \
                left[at->tree] &= at->mask;                                         \
        }                                                                           \
        double all = *sum;                                                          \
        for (uint32_t t = 0; t < p->trees; t++)                                     \
            all += leaves[first[t] + (uint32_t)__builtin_ctz(left[t])];             \
        *sum = all;                                                                 \
        return true;                                                                \
    }

DEFINE_MARGIN(f32_narrow, float, float, narrow_bound, same)
DEFINE_MARGIN(f64_narrow, double, float, narrow_bound, float_above)
DEFINE_MARGIN(f32_wide, float, double, wide_bound, (double))
DEFINE_MARGIN(f64_wide, double, double, wide_bound, (double))

bool tusk_masked_margin(const tusk_masked *p, const void *x, bool f64, double *sum) {
    if (!f64)
        return p->wide ? f32_wide(p, x, sum) : f32_narrow(p, x, sum);
    return p->exact && (p->wide ? f64_wide(p, x, sum) : f64_narrow(p, x, sum));
}
