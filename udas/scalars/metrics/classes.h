/* Counts of label and predicted class, and metrics of them: precision, recall, F1, confusion. */
#ifndef TUSK_CLASSES_H
#define TUSK_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../sentence.h"
#include "scored.h"
#include "table.h"

enum tusk_class_metric {
    TUSK_PRECISION,
    TUSK_RECALL,
    TUSK_F1,
    TUSK_CONFUSION,
    TUSK_CLASS_METRICS
};

const char *tusk_class_metric_name(enum tusk_class_metric metric);

/* How the classes' scores are averaged; 0 means not known yet. */
enum tusk_average { TUSK_BINARY = 1, TUSK_MACRO, TUSK_WEIGHTED, TUSK_MICRO };

/* The average of that name; NULL means binary. False with a sentence if there is none. */
bool tusk_average_of(const char *name, size_t length, enum tusk_average *average, char *sentence);

/* Whether the average is that of the single class named as positive. */
bool tusk_one_class(enum tusk_average average, char *sentence);

enum tusk_class_type { TUSK_BOOLEAN_CLASS = 1, TUSK_NUMBER_CLASS, TUSK_TEXT_CLASS };

/* A class as bytes that sort in its order: text as it is, numbers as their keys, high byte
 * first.
 */
typedef struct tusk_class {
    const void *bytes;
    uint32_t length;
    char own[sizeof(uint64_t)]; /* a number's bytes */
} tusk_class;

#define TUSK_MOST_CLASSES 10000
#define TUSK_LONGEST_CLASS 1000

/* A hash table of items that are found by their bytes. The caller owns the memory of its two
 * arrays. */
typedef struct tusk_index {
    uint32_t *slots; /* items count from 1; 0 is a free slot */
    int64_t n_slots;
} tusk_index;

typedef struct tusk_named {
    int64_t at; /* in `bytes` */
    uint32_t length;
} tusk_named;

typedef struct tusk_pair {
    uint32_t label, predicted;
    int64_t n;
    double weight; /* of the n rows together */
} tusk_pair;

/* All zero bytes means no rows. The caller frees bytes, names, pairs and both indexes' slots. */
typedef struct tusk_classes {
    int32_t average, type; /* 0: not known yet */
    bool zero, minus;      /* binary: whether a class was 0, or -1 */
    bool weighted;         /* whether rows have weights of their own */
    char *bytes;
    tusk_named *names;
    tusk_pair *pairs;
    int64_t n_bytes, n_names, n_pairs;
    int64_t room_bytes, room_names, room_pairs;
    tusk_index by_name, by_pair;
} tusk_classes;

/* The class of a number; false with a sentence if it has none. argument: the name used in the
 * sentence. */
bool tusk_class_number(tusk_class *c, double x, const char *argument, char *sentence);
bool tusk_class_text(tusk_class *c, const char *text, size_t length, const char *argument,
                     char *sentence);
static inline const void *tusk_class_bytes(const tusk_class *c) {
    return c->bytes ? c->bytes : c->own;
}

/* Number of rows with the same label and predicted class, and the sum of their weights. */
typedef struct tusk_counts {
    int64_t n;
    double weight;
} tusk_counts;

/* Adds rows. False with a sentence if they are invalid; a row of weight 0 changes nothing. */
bool tusk_classes_add(tusk_classes *s, const tusk_class *label, const tusk_class *predicted,
                      tusk_counts counts, tusk_grow room, char *sentence);
/* Sets the common properties of all rows, before the first row is added. */
bool tusk_classes_are(tusk_classes *s, enum tusk_class_type type, enum tusk_average average,
                      char *sentence);
/* Leaves the source unchanged. */
bool tusk_classes_merge(tusk_classes *target, const tusk_classes *source, tusk_grow room,
                        char *sentence);
tusk_class tusk_class_of(const tusk_classes *s, uint32_t name);

/* The bytes of work memory for a result. */
size_t tusk_classes_work(const tusk_classes *s);
/* The score; NULL if *null is set. */
double tusk_classes_score(const tusk_classes *s, enum tusk_class_metric metric, void *work,
                          bool *null);
/* confusion: one row for each pair that occurs, ordered by label, then predicted; with the weights
 * of its rows if they have any. */
const tusk_table *tusk_confusion_table(bool weighted);
bool tusk_classes_write(const tusk_classes *s, void *work, tusk_writer to);

#endif
