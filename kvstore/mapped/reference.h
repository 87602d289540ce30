/* References to stored models, such as `ads@3:1f2e3d4c5b6a7988`: a name, a version, and the
 * first 16 hexadecimal digits of the SHA-256 of the sealed file (kvstore/versions.py has the
 * same rules). */
#ifndef TUSK_REFERENCE_H
#define TUSK_REFERENCE_H

#include "sealed_file.h"

#define STORE_NAME 63
#define STORE_REFERENCE (STORE_NAME + 1 + 9 + 1 + 16) /* bytes of the longest reference */

typedef struct store_reference {
    char text[STORE_REFERENCE + 1];
    char name[STORE_NAME + 1];
    char digits[17];
} store_reference;

bool store_name_valid(const char *name, size_t length);
bool store_reference_parse(const char *text, size_t length, store_reference *r, sealed_error *e);

/* Opens the sealed file below a root. It lies in NAME/sealed and is named by its content.
 * Neither the pointer to the current version nor this version's record is read, so predictions
 * always use the model that was trained, whatever was trained or dropped since. */
sealed_file *store_reference_open(const char *root, const store_reference *r, int64_t memory,
                                  sealed_error *e);
/* Whether such a file exists below a root; gives no reason if it does not. */
bool store_reference_in(const char *root, const store_reference *r);

#endif
