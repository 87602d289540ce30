/* Reads the JSON that tuskml writes: a part of it at a time, without a tree. */
#ifndef TUSK_JSON_READER_H
#define TUSK_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes that grow. */
typedef struct tusk_bytes {
    char *data;
    size_t n, room;
} tusk_bytes;

/* Appends n bytes; false if memory is out. */
bool tusk_add(tusk_bytes *b, const void *data, size_t n);

typedef struct json_reader {
    const char *at, *end;
    bool failed; /* something else was there than what was to be read */
} json_reader;

/* Whether a character follows, which is then skipped. */
bool json_take(json_reader *r, char c);
/* The text has failed unless a character follows. */
void json_need(json_reader *r, char c);
/* Appends the decoded text of a string. */
void json_string(json_reader *r, tusk_bytes *out);
/* Reads a short string, such as a key. */
void json_word(json_reader *r, char word[32]);
double json_number(json_reader *r);
bool json_truth(json_reader *r);

#endif
