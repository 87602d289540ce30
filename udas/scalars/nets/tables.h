/* Embedded categories in the coefficients of a net. T, the number of tables; for each table the
 * first of its features, its levels and the length of its vectors; and then for each level of
 * each table the vector. A feature of a table adds its value times its vector. The inputs of
 * the first layer are the features outside of tables and then the vectors, table by table.
 * Without tables all of this is left out. */
#ifndef TUSK_NETS_TABLES_H
#define TUSK_NETS_TABLES_H

#include "../models/score.h"

enum { TUSK_NET_FEATURES, TUSK_NET_LAYERS, TUSK_NET_KIND, TUSK_NET_HEAD };
#define TUSK_NET_EMBEDS 16
#define TUSK_NET_MOST 16777216.0 /* 2^24: sizes of layers multiply without overflow */
#define TUSK_NET_LONGEST 1024    /* numbers of a vector */

typedef struct tusk_net_tables {
    uint64_t n, features, plain; /* plain: the features outside of tables */
    uint64_t inputs;             /* of the first layer */
    uint64_t end;                /* offset of the layers' weights in the coefficients */
    const tusk_weight *about;    /* (n, 3) */
    const tusk_weight *vectors;
} tusk_net_tables;

static inline bool tusk_is_count(double x, double least, double most) {
    return x >= least && x <= most && x == (double)(uint64_t)x;
}

/* Reads and checks the tables. The head and the units of the layers must have been checked. */
bool tusk_net_check_tables(const tusk_weight *coef, uint64_t n, tusk_net_tables *t);
/* Reads tables that were checked. */
tusk_net_tables tusk_net_tables_of(const tusk_weight *coef);

/* Adds a feature below t->features to the inputs of a row, which are `apart` numbers apart. */
void tusk_net_put(const tusk_net_tables *t, uint64_t feature, double value, double *inputs,
                  uint64_t apart);
/* The product of a feature's vector and numbers of the inputs; of a feature outside of tables the
 * number of its input. */
double tusk_net_product(const tusk_net_tables *t, uint64_t feature, const double *inputs);

#endif
