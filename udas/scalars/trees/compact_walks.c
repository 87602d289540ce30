/* Margins of trees in their compact form. Walks of few rows read it in place. */
#include <string.h>

#include "walks.h"

#define TOGETHER 8 /* walks */
#define BY_LEVEL 2
#define INLINE static inline __attribute__((always_inline))

/* A row of features, float or double. */
typedef struct row {
    const char *x;
    uint64_t d;
} row;

INLINE double feature_at(const row *r, bool f64, uint64_t i) {
    float narrow;
    if (f64)
        return tusk_double_at(r->x, i);
    memcpy(&narrow, r->x + 4 * i, sizeof narrow);
    return (double)narrow;
}

/* The constants of a walk, so that the compiler specialises one of each kind. */
typedef struct kind {
    int threshold, index;
    bool f64;
} kind;

/* Adds one tree's value for a row. Each step leaves a smaller subtree, so the walk ends. */
INLINE bool walk_one(const tusk_compact *c, kind k, const row *r, tusk_subtree at, double *sum) {
    uint64_t size = (uint64_t)(k.threshold + 2 * k.index);
    while (at.n) {
        tusk_split s = tusk_split_at(c->splits + at.split * size, k.threshold, k.index);
        if (s.left >= at.n || s.feature >= r->d || s.missing > BY_LEVEL)
            return false;
        double value = feature_at(r, k.f64, s.feature);
        bool left = value == value ? value <= s.threshold : s.missing == 1;
        if (s.missing == BY_LEVEL)
            left = tusk_compact_level(c, s.threshold, value);
        uint64_t others = s.left + 1;
        at.split += left ? 1 : others;
        at.leaf += left ? 0 : others;
        at.n = left ? s.left : at.n - others;
    }
    *sum += tusk_double_at(c->leaves, at.leaf);
    return true;
}

/* Walks TOGETHER trees with one row; false if one of them is damaged or has splits by levels. A
 * finished tree reads on, at most one split beyond all, where leaves are. */
INLINE bool walk_several(const tusk_compact *c, kind k, const row *r, tusk_subtree *at) {
    uint64_t size = (uint64_t)(k.threshold + 2 * k.index);
    bool going, bad = false;
    do {
        going = false;
        for (int i = 0; i < TOGETHER; i++) {
            tusk_split s = tusk_split_at(c->splits + at[i].split * size, k.threshold, k.index);
            bool open = at[i].n > 0;
            bool sound = (s.left < at[i].n) & (s.feature < r->d) & (s.missing < BY_LEVEL);
            double value = feature_at(r, k.f64, s.feature & -(uint64_t)sound);
            bool left = (value <= s.threshold) | ((value != value) & (s.missing == 1));
            /* All bits set, or none: half of the branches would be mispredicted. */
            uint64_t go = -(uint64_t)sound, right = (uint64_t)left - 1;
            at[i].split += go & (1 + (right & s.left));
            at[i].leaf += go & right & (s.left + 1);
            at[i].n = go & ((s.left & ~right) | ((at[i].n - s.left - 1) & right));
            bad |= open & !sound;
            going |= open;
        }
    } while (going & !bad);
    return !bad;
}

INLINE tusk_subtree tree_at(const tusk_compact *c, uint64_t t, tusk_subtree before) {
    uint64_t split = before.split + before.n;
    return (tusk_subtree){split, tusk_word_at(c->sizes, t), split + t};
}

/* Adds all trees' values for a row to its margins. */
INLINE bool walk_all(const tusk_compact *c, kind k, const row *r, double *sum) {
    uint64_t trees = c->head.trees, outputs = c->head.bases ? c->head.bases : 1, t = 0;
    tusk_subtree next = {0, 0, 0}, at[TOGETHER];
    for (; r->d && c->head.splits && t + TOGETHER <= trees; t += TOGETHER) {
        tusk_subtree first = next;
        for (int i = 0; i < TOGETHER; i++)
            at[i] = next = tree_at(c, t + (uint64_t)i, next);
        if (!walk_several(c, k, r, at)) {
            next = first;
            break;
        }
        for (int i = 0; i < TOGETHER; i++)
            sum[(t + (uint64_t)i) % outputs] += tusk_double_at(c->leaves, at[i].leaf);
    }
    for (; t < trees; t++) {
        next = tree_at(c, t, next);
        if (!walk_one(c, k, r, next, sum + t % outputs))
            return false;
    }
    return true;
}

#define OF_KIND(T, I)                                     \
    if (c->head.threshold == (T) && c->head.index == (I)) \
    return f64 ? walk_all(c, (kind){T, I, true}, r, sum) : walk_all(c, (kind){T, I, false}, r, sum)

static bool walk_row(const tusk_compact *c, bool f64, const row *r, double *sum) {
    OF_KIND(4, 1);
    OF_KIND(8, 1);
    OF_KIND(4, 2);
    OF_KIND(8, 2);
    return walk_all(c, (kind){c->head.threshold, c->head.index, f64}, r, sum);
}

/* Unpacks trees for many rows; otherwise walks one row after another. */
bool tusk_compact_margins(const tusk_compact *c, const void *x, bool f64, uint64_t d, uint64_t n,
                          double *out) {
    uint64_t outputs = c->head.bases ? c->head.bases : 1;
    size_t size = d * (f64 ? sizeof(double) : sizeof(float));
    tusk_rows rows = {x, d, n, f64, false};
    bool many = outputs == 1 && n >= TOGETHER;
    if (!many) {
        for (uint64_t i = 0; i < n; i++)
            if (!walk_row(c, f64, &(row){(const char *)x + i * size, d}, out + i * outputs))
                return false;
        return true;
    }
    rows.gaps = tusk_any_gap(&rows);
    tusk_subtree tree = {0, 0, 0};
    for (uint64_t t = 0; t < c->head.trees; t++) {
        tree = tree_at(c, t, tree);
        uint64_t i = tusk_compact_tree_of_rows(c, tree, &rows, out);
        for (; i < n; i++) {
            row r = {(const char *)x + i * size, d};
            if (!walk_one(c, (kind){c->head.threshold, c->head.index, f64}, &r, tree, out + i))
                return false;
        }
    }
    return true;
}
