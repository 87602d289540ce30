/* References to stored models, such as `ads@3:1f2e3d4c5b6a7988`: a name, a version, the first 16
 * hexadecimal digits of the SHA-256 of the sealed file (kvstore/names.py has the same rules). */
#ifndef TUSK_REFERENCE_H
#define TUSK_REFERENCE_H

#include "sealed_file.h"

#define STORE_NAME 63
#define STORE_REFERENCE (STORE_NAME + 1 + 9 + 1 + 16) /* bytes of the longest */

typedef struct store_reference {
    char text[STORE_REFERENCE + 1];
    char name[STORE_NAME + 1];
    char digits[17];
} store_reference;

bool store_name_valid(const char *name, size_t length);
bool store_reference_parse(const char *text, size_t length, store_reference *r, sealed_error *e);

/* Opens the sealed file below a root. It lies in NAME/sealed, named by its content: neither the
 * pointer to the current version nor the record of this one is read, so the model that was trained
 * is the one that answers, whatever was trained or dropped since. */
sealed_file *store_reference_open(const char *root, const store_reference *r, int64_t memory,
                                  sealed_error *e);
/* Whether there is such a file below a root, without a word why not. */
bool store_reference_in(const char *root, const store_reference *r);

#endif
