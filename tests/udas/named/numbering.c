/* numbering N: whether the texts of rows of N text columns get numbers, and which these are. */
#include <stdio.h>
#include <stdlib.h>

#include "scalars/named/numbering.h"

int main(int argc, char **given) {
    int n = argc > 1 ? atoi(given[1]) : 1;
    uint8_t *kind = calloc((size_t)n, 1);
    tusk_given_column *column = calloc((size_t)n, sizeof *column);
    tusk_text rows[3] = {{"a", 1}, {"b", 1}, {"a", 1}};
    for (int j = 0; j < n; j++) {
        kind[j] = TUSK_CATEGORY;
        column[j].texts = rows;
    }
    tusk_schema schema = {.n_columns = n, .kind = kind};
    tusk_named_chunk chunk = {.schema = &schema, .column = column};
    uint8_t *room = calloc((size_t)(3 * n), 1);
    tusk_numbering *numbering = tusk_numbering_new();
    tusk_number_rows(numbering, 1, &chunk, 3, room);
    if (chunk.numbers)
        printf("%d %d %d\n", room[n - 1], room[2 * n - 1], room[3 * n - 1]);
    else
        printf("none\n");
    tusk_numbering_free(numbering);
    free(room);
    free(column);
    free(kind);
    return 0;
}
