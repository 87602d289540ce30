/* _tusk_tree_numbers(payload): the numbers of the trees in a payload, in the order of
 * udas/scalars/models/trees.c; NULL if they are in the field `coef`. _tusk_tree_nodes(numbers):
 * a list for each node of such numbers: its tree, its number in the tree, the node's own six
 * numbers, the margins of a row, and the levels that a split by levels sends left. A single
 * list, since macros that join rows copy the model for each of them. _tusk_tree_gains(numbers,
 * n_features): for each feature its number from 1 on, the total gain of splits by it, and their
 * number. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../scalars/models/payload.h"
#include "../../scalars/models/quoted.h"
#include "../database.h"

#define NAME "_tusk_tree_numbers"
#define NODES_NAME "_tusk_tree_nodes"
#define GAINS_NAME "_tusk_tree_gains"
#define MOST_WORDS 2048 /* of 65,536 levels */

enum { MOST_LISTED = 1000000 }; /* features of a row, for a model without trees */
enum { HEAD = 3, NODE = 6, VALUE = 1, GAIN = 3, MISSING = 5, OWN = 2 + NODE + 1 };

static bool put_numbers(duckdb_vector result, idx_t row, tusk_text payload, char *sentence) {
    tusk_compact trees;
    const char *sqlstate;
    if (!tusk_compact_trees_of(payload, &trees, sentence, &sqlstate))
        return false;
    uint64_t n = tusk_compact_numbers(&trees);
    double *numbers = malloc(n * sizeof *numbers);
    bool written = numbers && tusk_compact_write(&trees, numbers);
    if (written)
        put_list(result, row, numbers, n);
    else
        snprintf(sentence, TUSK_SENTENCE, "%s",
                 numbers ? "a split of the trees points at no node" : "out of memory");
    free(numbers);
    return written;
}

static void tree_numbers(duckdb_function_info info, duckdb_data_chunk chunk,
                         duckdb_vector result) {
    column payloads = column_of(duckdb_data_chunk_get_vector(chunk, 0));
    idx_t n = duckdb_data_chunk_get_size(chunk);
    for (idx_t row = 0; row < n; row++) {
        char sentence[TUSK_SENTENCE];
        duckdb_string_t *text = (duckdb_string_t *)payloads.data + row;
        tusk_text payload = {NULL, 0};
        if (is_valid(&payloads, row))
            payload = (tusk_text){duckdb_string_t_data(text), duckdb_string_t_length(*text)};
        if (!tusk_has_compact_trees(payload)) {
            set_null(result, row);
        } else if (!put_numbers(result, row, payload, sentence)) {
            tusk_make_utf8(sentence);
            duckdb_scalar_function_set_error(info, sentence);
            return;
        }
    }
}

/* A number as a count of at most `most`; 0 if it is not one. */
static uint64_t count_of(double x, uint64_t most) {
    return x >= (double)most ? most : x > 0 ? (uint64_t)x : 0;
}

/* Writes the levels of the set at distance `from_end` from the end; returns their number. */
static uint64_t write_levels(const double *numbers, uint64_t n, double from_end, double *levels) {
    uint64_t found = 0, far = count_of(from_end, n);
    if (!far)
        return 0;
    const double *words = numbers + n - far;
    uint64_t n_words = count_of(words[0], far - 1 < MOST_WORDS ? far - 1 : MOST_WORDS);
    for (uint64_t level = 0; level < 32 * n_words; level++)
        if (count_of(words[1 + level / 32], UINT32_MAX) >> level % 32 & 1)
            levels[found++] = (double)level;
    return found;
}

/* Locations in the numbers of a model of trees; `left`: remaining number of nodes. */
typedef struct forest {
    uint64_t trees, outputs, left;
    const double *sizes, *nodes;
} forest;

static forest forest_of(const double *numbers, uint64_t n) {
    if (n < HEAD)
        return (forest){.outputs = 1};
    uint64_t bases = count_of(numbers[2], n - HEAD), head = HEAD + bases;
    uint64_t trees = count_of(numbers[1], n - head), first = head + trees;
    return (forest){trees, bases ? bases : 1, (n - first) / NODE, numbers + head, numbers + first};
}

static void put_nodes(duckdb_vector result, idx_t row, const double *numbers, uint64_t n,
                      double *node) {
    duckdb_vector nodes = duckdb_list_vector_get_child(result);
    idx_t begin = duckdb_list_vector_get_size(result), at = begin;
    forest f = forest_of(numbers, n);
    const double *own = f.nodes;
    for (uint64_t tree = 0; tree < f.trees; tree++) {
        uint64_t size = count_of(f.sizes[tree], f.left);
        f.left -= size;
        duckdb_list_vector_reserve(result, at + size);
        duckdb_list_vector_set_size(result, at + size);
        for (uint64_t i = 0; i < size; i++, own += NODE) {
            node[0] = (double)tree + 1;
            node[1] = (double)i;
            memcpy(node + 2, own, NODE * sizeof *node);
            node[OWN - 1] = (double)f.outputs;
            uint64_t more =
                own[MISSING] == 2 ? write_levels(numbers, n, own[VALUE], node + OWN) : 0;
            put_list(nodes, at++, node, OWN + more);
        }
    }
    ((duckdb_list_entry *)duckdb_vector_get_data(result))[row] =
        (duckdb_list_entry){begin, at - begin};
}

static void tree_nodes(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    list_column lists = list_column_of(duckdb_data_chunk_get_vector(chunk, 0));
    double *node = malloc((OWN + 32 * MOST_WORDS) * sizeof *node);
    if (!node) {
        duckdb_scalar_function_set_error(info, "tree_dump: out of memory");
        return;
    }
    for (idx_t row = 0; row < duckdb_data_chunk_get_size(chunk); row++) {
        duckdb_list_entry at = list_entry(&lists, row);
        if (is_valid(&lists.self, row))
            put_nodes(result, row, (const double *)lists.child.data + at.offset, at.length, node);
        else
            set_null(result, row);
    }
    free(node);
}

/* Adds the gain and the number of splits by each of d features, of three numbers each. */
static void add_gains(const double *numbers, uint64_t n, double *features, uint64_t d) {
    forest f = forest_of(numbers, n);
    const double *own = f.nodes;
    for (uint64_t tree = 0; tree < f.trees; tree++) {
        uint64_t size = count_of(f.sizes[tree], f.left);
        f.left -= size;
        for (const double *end = own + size * NODE; own < end; own += NODE)
            if (own[0] >= 0 && own[0] < (double)d) {
                double *feature = features + 3 * (uint64_t)own[0];
                feature[1] += own[GAIN];
                feature[2]++;
            }
    }
}

static void tree_gains(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    list_column lists = list_column_of(duckdb_data_chunk_get_vector(chunk, 0));
    column widths = column_of(duckdb_data_chunk_get_vector(chunk, 1));
    for (idx_t row = 0; row < duckdb_data_chunk_get_size(chunk); row++) {
        int64_t d = is_valid(&widths, row) ? ((const int64_t *)widths.data)[row] : -1;
        if (!is_valid(&lists.self, row) || d < 0 || d > (int64_t)TUSK_MOST_TREE_FEATURES) {
            set_null(result, row);
            continue;
        }
        duckdb_list_entry at = list_entry(&lists, row);
        const double *numbers = (const double *)lists.child.data + at.offset;
        double own = at.length ? numbers[0] : (double)(d < MOST_LISTED ? d : MOST_LISTED);
        if (own != (double)d) {
            char sentence[TUSK_SENTENCE];
            snprintf(sentence, sizeof sentence,
                     "feature_importance: the model has %lld features, and its trees have %.0f at "
                     "most: restore it from a backup",
                     (long long)d, own);
            duckdb_scalar_function_set_error(info, sentence);
            return;
        }
        double *features = calloc((size_t)d + 1, 3 * sizeof *features);
        if (!features) {
            duckdb_scalar_function_set_error(info, "feature_importance: out of memory");
            return;
        }
        add_gains(numbers, at.length, features, (uint64_t)d);
        idx_t begin = duckdb_list_vector_get_size(result);
        duckdb_list_vector_reserve(result, begin + (idx_t)d);
        duckdb_list_vector_set_size(result, begin + (idx_t)d);
        for (int64_t i = 0; i < d; i++) {
            features[3 * i] = (double)i + 1;
            put_list(duckdb_list_vector_get_child(result), begin + (idx_t)i, features + 3 * i, 3);
        }
        ((duckdb_list_entry *)duckdb_vector_get_data(result))[row] =
            (duckdb_list_entry){begin, (idx_t)d};
        free(features);
    }
}

static bool register_function(duckdb_connection connection, const char *name,
                              duckdb_logical_type parameter, duckdb_logical_type second,
                              duckdb_logical_type item, duckdb_scalar_function_t function) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type list = duckdb_create_list_type(item);
    duckdb_scalar_function_set_name(f, name);
    duckdb_scalar_function_add_parameter(f, parameter);
    if (second)
        duckdb_scalar_function_add_parameter(f, second);
    duckdb_scalar_function_set_return_type(f, list);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_function(f, function);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&list);
    duckdb_destroy_scalar_function(&f);
    return done;
}

bool register_tree_numbers(duckdb_connection connection) {
    duckdb_logical_type bytes = duckdb_create_logical_type(DUCKDB_TYPE_BLOB);
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_logical_type numbers = duckdb_create_list_type(number);
    duckdb_logical_type whole = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    bool done = register_function(connection, NAME, bytes, NULL, number, tree_numbers) &&
                register_function(connection, NODES_NAME, numbers, NULL, numbers, tree_nodes) &&
                register_function(connection, GAINS_NAME, numbers, whole, numbers, tree_gains);
    duckdb_destroy_logical_type(&whole);
    duckdb_destroy_logical_type(&numbers);
    duckdb_destroy_logical_type(&number);
    duckdb_destroy_logical_type(&bytes);
    return done;
}
