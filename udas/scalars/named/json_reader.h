/* Reads the JSON that tuskml writes: a part of it at a time, without a tree. */
#ifndef TUSK_JSON_READER_H
#define TUSK_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

/* A growing byte buffer. */
typedef struct tusk_bytes {
    char *data;
    size_t n, room;
} tusk_bytes;

/* Appends n bytes; false if memory is out. */
bool tusk_add(tusk_bytes *b, const void *data, size_t n);

typedef struct json_reader {
    const char *at, *end;
    bool failed; /* the text did not match */
} json_reader;

/* Skips a character if it follows; returns whether it did. */
bool json_take(json_reader *r, char c);
/* Skips a character; the text has failed unless it follows. */
void json_need(json_reader *r, char c);
/* Appends the decoded text of a string. */
void json_string(json_reader *r, tusk_bytes *out);
/* Reads a short string, such as a key. */
void json_word(json_reader *r, char word[32]);
double json_number(json_reader *r);
bool json_truth(json_reader *r);

#endif
