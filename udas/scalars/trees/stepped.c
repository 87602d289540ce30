/* Trees as nodes that a row steps through, eight trees at a time. */
#include "forms.h"

#include <math.h>
#include <string.h>

#define TOGETHER 8 /* trees */
#define MOST_SPLITS 127

/* A node in preorder: a row goes on by the first step if its feature is at most the bound, or
 * else by the second one. A leaf has no step. */
typedef struct wide_node {
    union {
        double bound;
        uint32_t leaf; /* its number */
    } of;
    uint8_t feature, step[2];
} wide_node;

/* The same if thresholds are floats, or rows are: a float is at most a threshold or the largest
 * float below it, or neither. */
typedef struct narrow_node {
    union {
        float bound;
        uint32_t leaf;
    } of;
    uint8_t feature, step[2];
} narrow_node;

/* Trees that one row walks through at a time, of about equal depths. */
typedef struct packed_trees {
    uint32_t root[TOGETHER];
    uint16_t number[TOGETHER]; /* `trees` for an unused slot */
    uint32_t depth, unused;    /* of the deepest */
} packed_trees;

struct tusk_stepped {
    size_t bytes;
    uint32_t trees, features, bundles, nodes;
    bool wide, exact; /* whether nodes are wide; whether bounds are the thresholds */
    uint8_t unused[6];
    packed_trees bundle[];
    /* Followed by the values of the leaves, and the nodes. */
};

static double *leaves_of(const tusk_stepped *p) {
    return (double *)(p->bundle + p->bundles);
}
static void *nodes_of(const tusk_stepped *p) {
    return leaves_of(p) + (p->nodes + p->trees) / 2;
}

/* --- from the compact form --- */

static float bound_of(double x) {
    float y = (float)x;
    return (double)y > x ? nextafterf(y, -INFINITY) : y;
}

static void set_head(const tusk_compact_head *h, bool f64, tusk_stepped *p) {
    p->trees = h->trees;
    p->features = (uint32_t)h->features;
    p->bundles = (h->trees + TOGETHER - 1) / TOGETHER;
    p->nodes = 2 * (uint32_t)h->splits + h->trees;
    p->wide = f64 && h->threshold == sizeof(double);
    p->exact = p->wide || h->threshold == sizeof(float);
    p->bytes = sizeof *p + p->bundles * sizeof(packed_trees) +
               (h->splits + h->trees) * sizeof(double) +
               p->nodes * (p->wide ? sizeof(wide_node) : sizeof(narrow_node));
}

size_t tusk_stepped_bytes(const tusk_compact *c, bool f64) {
    const tusk_compact_head *h = &c->head;
    if (h->splits > MOST_TREES * MOST_SPLITS)
        return 0;
    tusk_stepped head;
    set_head(h, f64, &head);
    return head.bytes;
}

/* Position in a tree, and its nodes so far. */
typedef struct packing {
    const tusk_compact *c;
    uint64_t split, leaf; /* the next ones */
    uint32_t n, depth;
    wide_node node[2 * MOST_SPLITS + 1];
} packing;

/* A subtree that is not packed yet: its splits, and its parent node. */
typedef struct open_subtree {
    uint64_t splits;
    uint32_t parent, depth;
} open_subtree;

/* Packs the root of a subtree. False if it is damaged or splits by levels. */
static bool pack_node(packing *p, open_subtree of, open_subtree *left, open_subtree *right) {
    const tusk_compact_head *h = &p->c->head;
    wide_node *node = p->node + p->n;
    p->depth = of.depth > p->depth ? of.depth : p->depth;
    if (of.depth && p->n != of.parent + 1) /* a right child */
        p->node[of.parent].step[1] = (uint8_t)(p->n - of.parent);
    if (!of.splits) {
        *node = (wide_node){.of.leaf = (uint32_t)p->leaf++};
        return true;
    }
    const char *place = p->c->splits + p->split++ * (uint64_t)(h->threshold + 2 * h->index);
    tusk_split s = tusk_split_at(place, h->threshold, h->index);
    if (s.left >= of.splits || s.feature >= h->features || s.missing > 1)
        return false;
    *node = (wide_node){{s.threshold}, (uint8_t)s.feature, {1, 0}};
    *left = (open_subtree){s.left, p->n, of.depth + 1};
    *right = (open_subtree){of.splits - 1 - s.left, p->n, of.depth + 1};
    return true;
}

static bool pack_tree(packing *p, uint64_t splits) {
    open_subtree open[MOST_SPLITS + 2] = {{splits, 0, 0}}, left, right;
    p->n = p->depth = 0;
    for (int waiting = 1; waiting; p->n++) {
        open_subtree of = open[--waiting];
        if (!pack_node(p, of, &left, &right))
            return false;
        if (!of.splits)
            continue;
        open[waiting++] = right;
        open[waiting++] = left;
    }
    return true;
}

typedef struct packed_root {
    uint32_t node, depth;
} packed_root;

/* Deals trees to bundles, the deepest first. */
static void bundle_up(tusk_stepped *p, const packed_root *roots) {
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

/* Appends the nodes of a tree to those before. */
static void put_nodes(tusk_stepped *to, const packing *p, uint32_t before) {
    if (to->wide) {
        memcpy((wide_node *)nodes_of(to) + before, p->node, p->n * sizeof *p->node);
        return;
    }
    narrow_node *out = (narrow_node *)nodes_of(to) + before;
    for (uint32_t i = 0; i < p->n; i++) {
        const wide_node *node = p->node + i;
        out[i] = (narrow_node){.feature = node->feature, .step = {node->step[0], node->step[1]}};
        if (node->step[0])
            out[i].of.bound = bound_of(node->of.bound);
        else
            out[i].of.leaf = node->of.leaf;
    }
}

bool tusk_stepped_make(const tusk_compact *c, bool f64, tusk_stepped *to) {
    packed_root roots[MOST_TREES];
    packing p = {.c = c};
    uint32_t nodes = 0;
    set_head(&c->head, f64, to);
    for (uint32_t t = 0; t < to->trees; t++, nodes += p.n) {
        uint64_t splits = tusk_word_at(c->sizes, t);
        if (splits > MOST_SPLITS || !pack_tree(&p, splits))
            return false;
        roots[t] = (packed_root){nodes, p.depth};
        put_nodes(to, &p, nodes);
    }
    memcpy(leaves_of(to), c->leaves, (c->head.splits + to->trees) * sizeof(double));
    bundle_up(to, roots);
    return true;
}

/* --- walks --- */

/* A leaf's number is read as a bound, and compared with the first feature. A float and a double
 * are compared as doubles. */
#define DEFINE_WALKS(T, node_of, name)                                                 \
    static inline void name##_walk(const node_of *nodes, const packed_trees *trees,    \
                                   const double *leaves, const T *x, double *values) { \
        uint32_t at[TOGETHER];                                                         \
        memcpy(at, trees->root, sizeof at);                                            \
        for (uint32_t left = trees->depth; left > 0; left--)                           \
            for (int i = 0; i < TOGETHER; i++) {                                       \
                const node_of *node = nodes + at[i];                                   \
                at[i] += node->step[!(x[node->feature] <= node->of.bound)];            \
            }                                                                          \
        for (int i = 0; i < TOGETHER; i++)                                             \
            values[trees->number[i]] = leaves[nodes[at[i]].of.leaf];                   \
    }                                                                                  \
                                                                                       \
    static bool name##_margin(const tusk_stepped *p, const T *x, double *sum) {        \
        double values[MOST_TREES + 1];                                                 \
        bool gaps = false;                                                             \
        for (uint32_t i = 0; i < p->features; i++)                                     \
            gaps |= x[i] != x[i];                                                      \
        if (gaps)                                                                      \
            return false;                                                              \
        for (uint32_t b = 0; b < p->bundles; b++)                                      \
            name##_walk(nodes_of(p), p->bundle + b, leaves_of(p), x, values);          \
        for (uint32_t t = 0; t < p->trees; t++)                                        \
            *sum += values[t];                                                         \
        return true;                                                                   \
    }

DEFINE_WALKS(float, narrow_node, f32_narrow)
DEFINE_WALKS(double, narrow_node, f64_narrow)
DEFINE_WALKS(float, wide_node, f32_wide)
DEFINE_WALKS(double, wide_node, f64_wide)

bool tusk_stepped_margin(const tusk_stepped *p, const void *x, bool f64, double *sum) {
    if (!f64)
        return p->wide ? f32_wide_margin(p, x, sum) : f32_narrow_margin(p, x, sum);
    return p->exact && (p->wide ? f64_wide_margin(p, x, sum) : f64_narrow_margin(p, x, sum));
}
