/* The payload of a model: the data for predictions, as one piece of bytes. A head of 64 bytes,
 * then the weights as doubles (for more than two classes their labels, followed by the weights
 * of one class after another, the intercept first, or the trees), then as doubles what intervals
 * are computed from (the kind of it, degrees of freedom, the variance of a label, and the model's
 * field `spread`; the kind alone if the model has none), then the reference to a store
 * and the name of the task as text, then the preparation of rows with names
 * (named/preparation.h). Numbers are little-endian. The CRC-32C covers all bytes except its own
 * four. */
#ifndef TUSK_PAYLOAD_H
#define TUSK_PAYLOAD_H

#include "../../rowblock/batch.h"
#include "score.h"

#define TUSK_PAYLOAD_FORMAT 1
/* The format of models of rows with names or of more than two classes; older versions refuse it.
 */
#define TUSK_PAYLOAD_LATER 2
/* The format of models of trees in their compact form (trees/compact.h). */
#define TUSK_PAYLOAD_COMPACT 3
/* The format of models of topics (topics/topics.h). */
#define TUSK_PAYLOAD_TOPICS 4
/* The format of models of factorization machines. */
#define TUSK_PAYLOAD_MACHINE 5
/* The format of centres of clusters. */
#define TUSK_PAYLOAD_CENTRES 6
/* The format of models with intervals. */
#define TUSK_PAYLOAD_INTERVALS 7
/* The format of models of ordered levels. */
#define TUSK_PAYLOAD_ORDINAL 8
#define TUSK_PAYLOAD_LATEST TUSK_PAYLOAD_ORDINAL

enum tusk_payload_flag {
    TUSK_HAS_INTERCEPT = 1,
    TUSK_HAS_BIASES = 2,
    TUSK_IN_STORE = 4,
    TUSK_BY_NAME = 16, /* the preparation follows the name of the task */
    /* More than two classes, or ordered levels: classes[0] of them, labels before weights. */
    TUSK_HAS_LABELS = 32,
    TUSK_HAS_COMPACT_TREES = 64, /* the weights after the labels are bytes of that form */
    TUSK_HAS_TEXT_CLASSES = 128, /* a class has a name that is not its number */
    TUSK_HAS_NULLS = 8           /* a coefficient or a class is NULL, and so is every prediction */
};

typedef struct tusk_payload_head {
    char magic[4]; /* "TUSK" */
    uint16_t format;
    uint8_t task, response;
    uint8_t flags, n_classes;
    uint16_t name_length;
    uint32_t crc;
    uint32_t store_length;
    uint32_t n_spread; /* doubles after the weights */
    uint64_t n_weights;
    double intercept;
    /* Or the numbers of users, items and elements per vector; or how many classes there are, if
     * they are more than two: their labels are the first weights. */
    double classes[3];
} tusk_payload_head;

/* Number of labels among the weights. For a checked payload only. */
static inline uint64_t tusk_labels_in(const tusk_payload_head *h) {
    bool several = h->task == TUSK_MULTINOMIAL || h->flags & TUSK_HAS_LABELS;
    return several ? (uint64_t)h->classes[0] : 0;
}

_Static_assert(sizeof(tusk_payload_head) == 64, "the head of a payload has 64 bytes");

#define TUSK_ABOUT_SPREAD 3 /* numbers before those of the field `spread` */
#define TUSK_ABSORBED (-1)  /* the kind of a model whose covariance leaves absorbed levels out */

/* A payload to be written: its head without the CRC, and the parts after it. */
typedef struct tusk_payload_parts {
    tusk_payload_head head;
    const double *weights, *labels;
    double about_spread[TUSK_ABOUT_SPREAD]; /* the first of the numbers for intervals */
    const double *spread;                   /* the others */
    tusk_text store, name;
    tusk_text preparation; /* to be freed by tusk_payload_free */
    char *compact;         /* trees in place of `weights`, freed likewise; NULL: there are none */
} tusk_payload_parts;

/* Whether a class has a name that is not its number. */
bool tusk_has_text_classes(const tusk_class_names *names, tusk_numbers classes);

/* The fields of model i of a trainer's answer. */
tusk_model_fields tusk_fields_of(const tusk_models *m, int64_t i);

/* Checks the fields of a model; false with a sentence if no prediction could use them. The
 * parts point into the fields, and must be freed. */
bool tusk_payload_of(const tusk_model_fields *m, tusk_payload_parts *parts, char *sentence);
/* Makes the parts of a model those of another one, without reading its options again. False if
 * the models may differ in more than the numbers of a linear margin; the parts are unchanged. */
bool tusk_payload_again(const tusk_model_fields *m, const tusk_model_fields *before,
                        tusk_payload_parts *parts);
size_t tusk_payload_size(const tusk_payload_parts *parts);
void tusk_payload_free(tusk_payload_parts *parts);
/* Writes tusk_payload_size bytes. */
void tusk_payload_write(const tusk_payload_parts *parts, char *out);

#define TUSK_NO_PAYLOAD                                                                      \
    "the model has no payload, which predictions read: with_payload(model) makes it of the " \
    "other fields"

/* Locations of the parts of a payload. The weights may be at any address. */
typedef struct tusk_payload_view {
    tusk_payload_head head;
    const tusk_weight *weights, *spread;
    tusk_text store, name, preparation;
} tusk_payload_view;

/* Checks the format, the length and the CRC. False with a sentence and an SQLSTATE if one is
 * wrong. */
bool tusk_payload_open(tusk_text bytes, tusk_payload_view *view, char *sentence,
                       const char **sqlstate);

/* Advice for smaller models like this one, as the end of a sentence. */
const char *tusk_made_smaller(const tusk_payload_head *head);

/* Whether a payload has weights that no other field has. Its bytes need not be valid. */
bool tusk_keeps_weights(tusk_text bytes);
/* Checks such a payload. False with a sentence if it is damaged. */
bool tusk_check_kept(tusk_text bytes, char *sentence, const char **sqlstate);

/* Whether a payload has trees in their compact form, which then are in no other field. Its
 * bytes need not be valid. */
bool tusk_has_compact_trees(tusk_text bytes);
/* The trees of such a payload, which point into it. False with a sentence if it is damaged. */
bool tusk_compact_trees_of(tusk_text bytes, tusk_compact *trees, char *sentence,
                           const char **sqlstate);

#define TUSK_NO_TREES                                                                         \
    "the model lacks its trees, which are in its payload alone: expected the model with its " \
    "payload"
#define TUSK_NO_TOPICS                                                                         \
    "the model lacks its topics, which are in its payload alone: expected the model with its " \
    "payload"

#endif
