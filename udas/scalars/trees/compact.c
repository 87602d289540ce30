/* Converts numbers of trees to the compact form, and back. */
#include "compact.h"

#include <stdlib.h>
#include <string.h>

#include "../models/score.h"

enum { FEATURE, VALUE, RIGHT, GAIN, ROWS, MISSING, NODE };
enum { FEATURES, TREES, BASES, FIRST_BASE };
#define BY_LEVEL 2
#define MOST_FEATURE (UINT32_C(1) << 30) /* of a split */

/* --- from numbers --- */

/* Properties of all nodes that are collected before they are written. */
typedef struct extent {
    uint64_t splits, most_feature, most_left;
    double most_rows;
    bool wide_threshold, wide_gain;
} extent;

static bool is_whole(double x, double most) {
    return x >= 0 && x <= most && x == (double)(uint64_t)x;
}

static bool is_float(double x) {
    return (double)(float)x == x;
}

static bool same_bits(double x, double y) {
    return memcmp(&x, &y, sizeof x) == 0;
}

/* Whether the compact form of a leaf can hold its numbers. */
static bool keeps_leaf(const double *node, extent *e) {
    double rows = node[ROWS];
    e->most_rows = rows > e->most_rows ? rows : e->most_rows;
    return node[FEATURE] == -1 && node[RIGHT] == -1 && same_bits(node[GAIN], 0) &&
           same_bits(node[MISSING], 0) && is_whole(rows, UINT32_MAX);
}

static bool keeps_split(const double *node, uint64_t left, extent *e) {
    if (!is_whole(node[FEATURE], MOST_FEATURE - 1) || !is_whole(node[MISSING], BY_LEVEL) ||
        node[VALUE] != node[VALUE] || node[GAIN] != node[GAIN])
        return false;
    uint64_t feature = (uint64_t)node[FEATURE];
    e->most_feature = feature > e->most_feature ? feature : e->most_feature;
    e->most_left = left > e->most_left ? left : e->most_left;
    e->wide_threshold |= !is_float(node[VALUE]);
    e->wide_gain |= !is_float(node[GAIN]);
    e->splits++;
    return true;
}

/* Checks one tree of n nodes. ends: (n,) scratch, the end of the subtree of each node. Children
 * are visited before their parents. */
static bool keeps_tree(const double *nodes, uint64_t n, uint32_t *ends, extent *e) {
    for (uint64_t at = n; at-- > 0;) {
        const double *node = nodes + at * NODE;
        if (node[FEATURE] < 0) {
            ends[at] = (uint32_t)(at + 1);
            if (!keeps_leaf(node, e))
                return false;
            continue;
        }
        if (at + 2 >= n || !is_whole(node[RIGHT], (double)(n - 1)) ||
            (uint64_t)node[RIGHT] != ends[at + 1])
            return false;
        uint64_t right = ends[at + 1];
        ends[at] = ends[right];
        double rows = nodes[(at + 1) * NODE + ROWS] + nodes[right * NODE + ROWS];
        if (node[ROWS] != rows || !keeps_split(node, (right - at - 2) / 2, e))
            return false;
    }
    return ends[0] == n;
}

static bool keeps_trees(const double *sizes, uint64_t trees, extent *e) {
    uint64_t most = 0;
    for (uint64_t t = 0; t < trees; t++)
        most = sizes[t] > (double)most ? (uint64_t)sizes[t] : most;
    uint32_t *ends = most <= UINT32_MAX ? malloc((most + 1) * sizeof *ends) : NULL;
    bool kept = ends;
    const double *nodes = sizes + trees;
    for (uint64_t t = 0; kept && t < trees; t++) {
        kept = keeps_tree(nodes, (uint64_t)sizes[t], ends, e);
        nodes += (uint64_t)sizes[t] * NODE;
    }
    free(ends);
    return kept;
}

static uint8_t width_of(double most) {
    return most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? 2 : 4;
}

static tusk_compact_head head_of(const double *numbers, uint64_t words, const extent *e) {
    uint8_t by_feature = width_of(4 * (double)e->most_feature + 3);
    uint8_t by_left = width_of((double)e->most_left);
    return (tusk_compact_head){
        .threshold = e->wide_threshold ? 8 : 4,
        .index = by_feature > by_left ? by_feature : by_left,
        .gain = e->wide_gain ? 8 : 4,
        .rows = width_of(e->most_rows),
        .bases = (uint32_t)numbers[BASES],
        .trees = (uint32_t)numbers[TREES],
        .set_words = (uint32_t)words,
        .features = (uint64_t)numbers[FEATURES],
        .splits = e->splits,
    };
}

/* The length of each part, and of all. */
static uint64_t lengths_of(const tusk_compact_head *h, uint64_t part[7]) {
    uint64_t leaves = h->splits + h->trees;
    part[0] = 8 * (uint64_t)h->bases;
    part[1] = 4 * (uint64_t)h->trees;
    part[2] = (h->threshold + 2 * (uint64_t)h->index) * h->splits;
    part[3] = 8 * leaves;
    part[4] = h->gain * h->splits;
    part[5] = h->rows * leaves;
    part[6] = 4 * (uint64_t)h->set_words;
    uint64_t all = sizeof *h;
    for (int i = 0; i < 7; i++)
        all += part[i];
    return (all + 7) / 8 * 8;
}

static void place_parts(tusk_compact *c, const char *at) {
    uint64_t part[7];
    lengths_of(&c->head, part);
    const char **places[7] = {&c->bases, &c->sizes, &c->splits, &c->leaves,
                              &c->gains, &c->rows,  &c->sets};
    at += sizeof c->head;
    for (int i = 0; i < 7; at += part[i++])
        *places[i] = at;
}

/* Writes a number of a width, whole or floating, and returns the address after it. */
static char *put_whole(char *at, uint64_t x, int width) {
    memcpy(at, &x, (size_t)width);
    return at + width;
}
static char *put_number(char *at, double x, int width) {
    float narrow = width == 4 ? (float)x : 0;
    memcpy(at, width == 4 ? (void *)&narrow : (void *)&x, (size_t)width);
    return at + width;
}

static void put_nodes(const tusk_compact *c, const double *sizes) {
    const tusk_compact_head *h = &c->head;
    char *split = (char *)c->splits, *leaf = (char *)c->leaves, *gain = (char *)c->gains,
         *rows = (char *)c->rows, *size = (char *)c->sizes;
    const double *node = sizes + h->trees;
    for (uint64_t t = 0; t < h->trees; t++) {
        size = put_whole(size, ((uint64_t)sizes[t] - 1) / 2, 4);
        for (uint64_t at = 0; at < (uint64_t)sizes[t]; at++, node += NODE) {
            if (node[FEATURE] < 0) {
                leaf = put_number(leaf, node[VALUE], 8);
                rows = put_whole(rows, (uint64_t)node[ROWS], h->rows);
                continue;
            }
            uint64_t missing = (uint64_t)node[MISSING] << (8 * h->index - 2);
            split = put_number(split, node[VALUE], h->threshold);
            split = put_whole(split, (uint64_t)node[FEATURE] | missing, h->index);
            split = put_whole(split, ((uint64_t)node[RIGHT] - at - 2) / 2, h->index);
            gain = put_number(gain, node[GAIN], h->gain);
        }
    }
}

/* Whether the last n numbers are words of sets. */
static bool are_words(const double *at, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (!is_whole(at[i], UINT32_MAX))
            return false;
    return n <= UINT32_MAX;
}

char *tusk_compact_of(const double *numbers, uint64_t n, uint64_t outputs, uint64_t *bytes) {
    char sentence[TUSK_SENTENCE];
    if (!n || !tusk_check_trees((const tusk_weight *)numbers, n, outputs, sentence))
        return NULL;
    uint64_t trees = (uint64_t)numbers[TREES], bases = (uint64_t)numbers[BASES], nodes = 0;
    const double *sizes = numbers + FIRST_BASE + bases;
    for (uint64_t t = 0; t < trees; t++)
        nodes += (uint64_t)sizes[t];
    const double *sets = sizes + trees + nodes * NODE;
    uint64_t words = (uint64_t)(numbers + n - sets);
    extent e = {.splits = 0};
    if (trees > UINT32_MAX || !are_words(sets, words) || !keeps_trees(sizes, trees, &e))
        return NULL;
    tusk_compact c = {.head = head_of(numbers, words, &e)};
    uint64_t part[7];
    *bytes = lengths_of(&c.head, part);
    char *out = calloc(1, *bytes);
    if (!out)
        return NULL;
    memcpy(out, &c.head, sizeof c.head);
    place_parts(&c, out);
    memcpy((char *)c.bases, numbers + FIRST_BASE, part[0]);
    put_nodes(&c, sizes);
    for (uint64_t i = 0; i < words; i++)
        put_whole((char *)c.sets + 4 * i, (uint64_t)sets[i], 4);
    return out;
}

/* --- to numbers --- */

static bool is_width(uint8_t width, bool floating) {
    return width == 4 || (floating ? width == 8 : width == 1 || width == 2);
}

bool tusk_compact_open(const char *at, uint64_t bytes, uint64_t outputs, tusk_compact *c) {
    tusk_compact_head *h = &c->head;
    if (bytes < sizeof *h)
        return false;
    memcpy(h, at, sizeof *h);
    if (!is_width(h->threshold, true) || !is_width(h->index, false) || !is_width(h->gain, true) ||
        !is_width(h->rows, false) || h->splits > bytes ||
        h->bases != (outputs > 1 ? outputs : 0) || outputs > TUSK_MOST_OUTPUTS ||
        h->trees % outputs || h->features > TUSK_MOST_TREE_FEATURES)
        return false;
    uint64_t part[7], splits = 0;
    if (lengths_of(h, part) != bytes)
        return false;
    place_parts(c, at);
    for (uint32_t t = 0; t < h->trees; t++)
        splits += tusk_word_at(c->sizes, t);
    return splits == h->splits;
}

bool tusk_compact_level(const tusk_compact *c, double from_end, double level) {
    uint64_t words = c->head.set_words;
    if (!(from_end >= 1 && from_end <= (double)words) || !(level >= 0))
        return false;
    uint64_t left = (uint64_t)from_end, first = words - left;
    double most = 32.0 * (double)tusk_word_at(c->sets, first);
    if (!(level < most && level < 32.0 * (double)(left - 1)))
        return false;
    uint64_t at = (uint64_t)level;
    return (double)at == level && (tusk_word_at(c->sets, first + 1 + at / 32) >> at % 32 & 1);
}

uint64_t tusk_compact_numbers(const tusk_compact *c) {
    const tusk_compact_head *h = &c->head;
    return FIRST_BASE + h->bases + h->trees + NODE * (2 * h->splits + h->trees) + h->set_words;
}

/* Position in a compact form. */
typedef struct reading {
    const tusk_compact *c;
    uint64_t split, leaf; /* the next ones */
} reading;

static double number_at(const char *at, uint64_t i, int width) {
    float narrow;
    if (width == 8)
        return tusk_double_at(at, i);
    memcpy(&narrow, at + 4 * i, sizeof narrow);
    return (double)narrow;
}

static void write_leaf(reading *r, double *node) {
    const tusk_compact_head *h = &r->c->head;
    uint32_t rows = 0;
    memcpy(&rows, r->c->rows + r->leaf * h->rows, h->rows);
    double values[NODE] = {-1, tusk_double_at(r->c->leaves, r->leaf), -1, 0, (double)rows, 0};
    memcpy(node, values, sizeof values);
    r->leaf++;
}

/* Writes the split of node `at`, whose rows are added up later. */
static uint64_t write_split(reading *r, uint64_t at, double *node) {
    const tusk_compact_head *h = &r->c->head;
    uint64_t size = h->threshold + 2 * (uint64_t)h->index;
    tusk_split s = tusk_split_at(r->c->splits + r->split * size, h->threshold, h->index);
    double gain = number_at(r->c->gains, r->split, h->gain);
    double values[NODE] = {(double)s.feature, s.threshold, (double)(at + 2 * s.left + 2), gain, 0,
                           (double)s.missing};
    memcpy(node, values, sizeof values);
    r->split++;
    return s.left;
}

/* Writes a tree of n splits. For a node that is not written yet, its first number is the number
 * of splits of its subtree. */
static bool write_tree(reading *r, uint64_t n, double *nodes) {
    uint64_t count = 2 * n + 1;
    nodes[0] = (double)n;
    for (uint64_t at = 0; at < count; at++) {
        double *node = nodes + at * NODE;
        uint64_t own = (uint64_t)node[0];
        if (!own) {
            write_leaf(r, node);
            continue;
        }
        uint64_t left = write_split(r, at, node);
        if (left >= own)
            return false;
        node[NODE] = (double)left;
        nodes[(at + 2 * left + 2) * NODE] = (double)(own - 1 - left);
    }
    for (uint64_t at = count; at-- > 0;)
        if (nodes[at * NODE] >= 0)
            nodes[at * NODE + ROWS] = nodes[(at + 1) * NODE + ROWS] +
                                      nodes[(uint64_t)nodes[at * NODE + RIGHT] * NODE + ROWS];
    return true;
}

bool tusk_compact_write(const tusk_compact *c, double *out) {
    const tusk_compact_head *h = &c->head;
    out[FEATURES] = (double)h->features, out[TREES] = h->trees, out[BASES] = h->bases;
    for (uint32_t k = 0; k < h->bases; k++)
        out[FIRST_BASE + k] = tusk_double_at(c->bases, k);
    double *sizes = out + FIRST_BASE + h->bases, *nodes = sizes + h->trees;
    reading r = {.c = c};
    for (uint32_t t = 0; t < h->trees; t++) {
        uint64_t splits = tusk_word_at(c->sizes, t);
        sizes[t] = (double)(2 * splits + 1);
        if (!write_tree(&r, splits, nodes))
            return false;
        nodes += (2 * splits + 1) * NODE;
    }
    for (uint32_t i = 0; i < h->set_words; i++)
        nodes[i] = tusk_word_at(c->sets, i);
    return true;
}
