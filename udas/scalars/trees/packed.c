#include "packed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER 8 /* trees */
#define MOST_TREES 1024
#define MOST_FEATURES 256
#define MOST_SPLITS 127
#define LINE 64
#define MOST_TOUCHED 32768 /* bytes that are asked for ahead */

/* A node in preorder: a row goes on by the first step if its feature is at most the bound, or else
 * by the second one. From a leaf there is no step. */
typedef struct packed_node {
    union {
        float bound;
        uint32_t leaf; /* its number */
    } of;
    uint8_t feature, step[2], unused;
} packed_node;

_Static_assert(sizeof(packed_node) == 8, "a node has eight bytes");

/* Trees that one row walks through at a time, which are about equally deep. */
typedef struct packed_trees {
    uint32_t root[TOGETHER];
    uint16_t number[TOGETHER]; /* `trees` of a place that is left over */
    uint32_t depth;            /* of the deepest */
} packed_trees;

struct tusk_packed {
    size_t bytes;
    uint32_t trees, features, bundles, nodes;
    bool exact; /* thresholds are floats */
    packed_trees bundle[];
    /* The nodes follow, and the values of the leaves. */
};

static packed_node *nodes_of(const tusk_packed *p) {
    return (packed_node *)(p->bundle + p->bundles);
}
static double *leaves_of(const tusk_packed *p) {
    return (double *)(nodes_of(p) + p->nodes);
}

/* The largest float that is at most x: a float is at most both or none. */
static float bound_of(double x) {
    float y = (float)x;
    return (double)y > x ? nextafterf(y, -INFINITY) : y;
}

/* Where a tree is read and written. */
typedef struct packing {
    const tusk_compact *c;
    packed_node *nodes;
    uint64_t split, leaf, node; /* the next ones */
    uint32_t depth;             /* of the tree, so far */
} packing;

/* A subtree of n splits that is not packed yet, and the node whose right child it is. */
typedef struct open_subtree {
    uint64_t n, parent;
    uint32_t depth;
} open_subtree;

/* Packs the next node, of a subtree of n splits. False if it is damaged or splits by levels. */
static bool pack_node(packing *p, open_subtree of, open_subtree *left, open_subtree *right) {
    const tusk_compact_head *h = &p->c->head;
    packed_node *node = p->nodes + p->node;
    p->depth = of.depth > p->depth ? of.depth : p->depth;
    *left = *right = (open_subtree){0, p->node, of.depth + 1};
    if (!of.n) {
        *node = (packed_node){.of.leaf = (uint32_t)p->leaf++};
        return true;
    }
    const char *place = p->c->splits + p->split++ * (uint64_t)(h->threshold + 2 * h->index);
    tusk_split s = tusk_split_at(place, h->threshold, h->index);
    if (s.left >= of.n || s.feature >= h->features || s.missing > 1)
        return false;
    *node = (packed_node){{bound_of(s.threshold)}, (uint8_t)s.feature, {1, 0}, 0};
    left->n = s.left;
    right->n = of.n - 1 - s.left;
    return true;
}

/* Packs a tree of n splits. */
static bool pack_tree(packing *p, uint64_t n) {
    open_subtree open[MOST_SPLITS + 2], left, right;
    int waiting = 0;
    open[waiting++] = (open_subtree){n, p->node, 0};
    p->depth = 0;
    while (waiting) {
        open_subtree of = open[--waiting];
        if (!pack_node(p, of, &left, &right))
            return false;
        if (of.depth && p->node != of.parent + 1) /* a right child */
            p->nodes[of.parent].step[1] = (uint8_t)(p->node - of.parent);
        if (of.n) {
            open[waiting++] = right;
            open[waiting++] = left;
        }
        p->node++;
    }
    return true;
}

typedef struct packed_root {
    uint32_t node, depth;
} packed_root;

/* Deals trees out to bundles, the deepest first. */
static void bundle_up(tusk_packed *p, const packed_root *roots) {
    uint32_t place = 0;
    for (uint32_t depth = MOST_SPLITS + 1; depth-- > 0;)
        for (uint32_t t = 0; t < p->trees; t++) {
            if (roots[t].depth != depth)
                continue;
            packed_trees *to = p->bundle + place / TOGETHER;
            to->depth = place % TOGETHER ? to->depth : depth;
            to->root[place % TOGETHER] = roots[t].node;
            to->number[place++ % TOGETHER] = (uint16_t)t;
        }
    for (; place % TOGETHER; place++) {
        packed_trees *last = p->bundle + place / TOGETHER;
        last->root[place % TOGETHER] = last->root[0];
        last->number[place % TOGETHER] = (uint16_t)p->trees;
    }
}

static bool pack_all(const tusk_compact *c, tusk_packed *to) {
    packing p = {.c = c, .nodes = nodes_of(to)};
    packed_root roots[MOST_TREES];
    for (uint32_t t = 0; t < to->trees; t++) {
        uint64_t n = tusk_word_at(c->sizes, t);
        roots[t].node = (uint32_t)p.node;
        if (n > MOST_SPLITS || !pack_tree(&p, n))
            return false;
        roots[t].depth = p.depth;
    }
    memcpy(leaves_of(to), c->leaves, (c->head.splits + to->trees) * sizeof(double));
    bundle_up(to, roots);
    return true;
}

tusk_packed *tusk_packed_of(const tusk_compact *c) {
    const tusk_compact_head *h = &c->head;
    if (h->bases || !h->trees || h->trees > MOST_TREES || !h->splits ||
        h->splits > MOST_TREES * MOST_SPLITS || h->features > MOST_FEATURES)
        return NULL;
    tusk_packed head = {.trees = h->trees,
                        .features = (uint32_t)h->features,
                        .bundles = (h->trees + TOGETHER - 1) / TOGETHER,
                        .nodes = 2 * (uint32_t)h->splits + h->trees,
                        .exact = h->threshold == sizeof(float)};
    size_t leaves = h->splits + h->trees;
    head.bytes = sizeof head + head.bundles * sizeof(packed_trees) +
                 head.nodes * sizeof(packed_node) + leaves * sizeof(double);
    head.bytes = (head.bytes + LINE - 1) / LINE * LINE;
    tusk_packed *p = aligned_alloc(LINE, head.bytes);
    if (!p)
        return NULL;
    *p = head;
    if (pack_all(c, p))
        return p;
    free(p);
    return NULL;
}

size_t tusk_packed_bytes(const tusk_packed *p) {
    return p->bytes;
}

void tusk_packed_touch(const tusk_packed *p) {
    size_t bytes = p->bytes < MOST_TOUCHED ? p->bytes : MOST_TOUCHED;
    for (size_t at = 0; at < bytes; at += LINE)
        __builtin_prefetch((const char *)p + at, 0, 2);
}

/* A leaf's number is read as a bound, and compared with the first feature. */
#define DEFINE_WALKS(T, name)                                                           \
    static inline void name##_walk(const packed_node *nodes, const packed_trees *trees, \
                                   const double *leaves, const T *x, double *values) {  \
        uint32_t at[TOGETHER];                                                          \
        memcpy(at, trees->root, sizeof at);                                             \
        for (uint32_t left = trees->depth; left > 0; left--)                            \
            for (int i = 0; i < TOGETHER; i++) {                                        \
                const packed_node *node = nodes + at[i];                                \
                at[i] += node->step[!(x[node->feature] <= (T)node->of.bound)];          \
            }                                                                           \
        for (int i = 0; i < TOGETHER; i++)                                              \
            values[trees->number[i]] = leaves[nodes[at[i]].of.leaf];                    \
    }                                                                                   \
                                                                                        \
    static bool name##_margin(const tusk_packed *p, const T *x, double *sum) {          \
        double values[MOST_TREES + 1];                                                  \
        bool gaps = false;                                                              \
        for (uint32_t i = 0; i < p->features; i++)                                      \
            gaps |= x[i] != x[i];                                                       \
        if (gaps)                                                                       \
            return false;                                                               \
        for (uint32_t b = 0; b < p->bundles; b++)                                       \
            name##_walk(nodes_of(p), p->bundle + b, leaves_of(p), x, values);           \
        for (uint32_t t = 0; t < p->trees; t++)                                         \
            *sum += values[t];                                                          \
        return true;                                                                    \
    }

DEFINE_WALKS(float, f32)
DEFINE_WALKS(double, f64)

bool tusk_packed_margin(const tusk_packed *p, const void *x, bool f64, double *sum) {
    if (f64)
        return p->exact && f64_margin(p, x, sum);
    return f32_margin(p, x, sum);
}
