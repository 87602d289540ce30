/* Metrics that are tables: their columns, and their rows, which either database writes. */
#ifndef TUSK_TABLE_H
#define TUSK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tusk_cell_type { TUSK_NUMBER_CELL, TUSK_WHOLE_CELL, TUSK_TEXT_CELL };

#define TUSK_COLUMNS 8
#define TUSK_CLASS_TEXT 32 /* longest text of a number, in bytes */

typedef struct tusk_table {
    int n_columns;
    struct {
        const char *name;
        enum tusk_cell_type type;
    } columns[TUSK_COLUMNS];
} tusk_table;

/* A row's value in a column; the column's type says which field. */
typedef struct tusk_cell {
    double number;
    int64_t whole;
    const char *words; /* NULL: the text is in `own` */
    int32_t length;    /* of the text, in bytes */
    bool null;
    char own[TUSK_CLASS_TEXT];
} tusk_cell;

typedef tusk_cell tusk_row[TUSK_COLUMNS];

/* Receives the rows: called for each row; returning false stops the table. */
typedef struct tusk_writer {
    bool (*write)(const tusk_row row, void *context);
    void *context;
} tusk_writer;

static inline tusk_cell tusk_number(double x) {
    return (tusk_cell){.number = x};
}
static inline tusk_cell tusk_whole(int64_t x) {
    return (tusk_cell){.whole = x};
}
/* part / all; NULL if all is 0. */
static inline tusk_cell tusk_share(double part, double all) {
    return all > 0 ? tusk_number(part / all) : (tusk_cell){.null = true};
}

#endif
