#define _GNU_SOURCE
#include "reference.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DIGEST 64
#define SUFFIX ".tusk"

/* --- parsing --- */

/* Independent of the locale. */
static bool among(char c, const char *others) {
    return (c >= '0' && c <= '9') || (c && strchr(others, c));
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

static size_t span(const char *text, size_t length, const char *others) {
    size_t n = 0;
    while (n < length && among(text[n], others))
        n++;
    return n;
}

static bool is_name(const char *text, size_t length) {
    return length && length <= STORE_NAME && among(text[0], LETTERS) &&
           span(text, length, LETTERS ".-") == length;
}

bool store_name_valid(const char *name, size_t length) {
    return is_name(name, length);
}

static bool split(const char *text, size_t length, store_reference *r) {
    const char *at = memchr(text, '@', length);
    size_t name = at ? (size_t)(at - text) : length;
    if (!at || length > STORE_REFERENCE || !is_name(text, name))
        return false;
    const char *number = at + 1;
    size_t left = length - name - 1, digits = span(number, left, "");
    if (digits < 1 || digits > 9 || left != digits + 1 + 16 || number[digits] != ':' ||
        span(number + digits + 1, 16, "abcdef") != 16)
        return false;
    snprintf(r->text, sizeof r->text, "%.*s", (int)length, text);
    snprintf(r->name, sizeof r->name, "%.*s", (int)name, text);
    snprintf(r->digits, sizeof r->digits, "%.16s", number + digits + 1);
    return true;
}

bool store_reference_parse(const char *text, size_t length, store_reference *r, sealed_error *e) {
    if (split(text, length, r))
        return true;
    int shown = length > 80 ? 80 : (int)length;
    while (shown < (int)length && shown && (text[shown] & 0xc0) == 0x80)
        shown--; /* whole UTF-8 characters */
    return sealed_refuse(e, SEALED_INVALID,
                         "the model lies in the store '%.*s', expected a reference such as "
                         "'ads@3:1f2e3d4c5b6a7988'",
                         shown, text);
}

/* --- finding --- */

static bool refuse_unknown(const store_reference *r, sealed_error *e) {
    return sealed_refuse(e, SEALED_UNKNOWN,
                         "there is no store named '%s' where tuskml looks for stores "
                         "(PostgreSQL: tuskml.store_root, DuckDB: tuskml_store_root())",
                         r->name);
}

/* Opens a directory within another without following links; returns -1 with an error if it
 * cannot. */
static int enter(int outer, const char *part, const store_reference *r, sealed_error *e) {
    int inner = openat(outer, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner >= 0)
        return inner;
    if (errno == ENOENT)
        refuse_unknown(r, e);
    else if (errno == ELOOP || errno == ENOTDIR)
        sealed_refuse(e, SEALED_DAMAGED,
                      "'%s' of the store '%s' is no directory, and links are not followed", part,
                      r->name);
    else
        sealed_refuse(e, SEALED_FAILED, "opening the store '%s' failed: %s", r->name,
                      strerror(errno));
    return -1;
}

static int open_root(const char *root, const store_reference *r, sealed_error *e) {
    int outer = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (outer < 0 && (errno == ENOENT || errno == ENOTDIR))
        refuse_unknown(r, e);
    else if (outer < 0)
        sealed_refuse(e, SEALED_FAILED, "opening the directory of the stores failed: %s",
                      strerror(errno));
    return outer;
}

static int open_folder(const char *root, const store_reference *r, sealed_error *e) {
    int outer = open_root(root, r, e);
    if (outer < 0)
        return -1;
    int store = enter(outer, r->name, r, e);
    close(outer);
    if (store < 0)
        return -1;
    int folder = enter(store, "sealed", r, e);
    close(store);
    return folder;
}

static bool is_wanted(const char *file, const char *digits) {
    return strlen(file) == DIGEST + strlen(SUFFIX) && strncmp(file, digits, 16) == 0 &&
           span(file, DIGEST, "abcdef") == DIGEST && strcmp(file + DIGEST, SUFFIX) == 0;
}

/* Finds the name of the file whose digest has the reference's prefix. Takes ownership of the
 * directory. */
static bool find(int folder, const store_reference *r, char *file, sealed_error *e) {
    DIR *list = fdopendir(folder);
    if (!list) {
        close(folder);
        return sealed_refuse(e, SEALED_FAILED, "listing the store '%s' failed: %s", r->name,
                             strerror(errno));
    }
    int found = 0;
    errno = 0;
    for (const struct dirent *each; (each = readdir(list));)
        if (is_wanted(each->d_name, r->digits) && !found++)
            strcpy(file, each->d_name);
    int wrong = errno;
    closedir(list);
    if (wrong)
        return sealed_refuse(e, SEALED_FAILED, "listing the store '%s' failed: %s", r->name,
                             strerror(wrong));
    if (!found)
        return sealed_refuse(e, SEALED_MISSING,
                             "the stored model %s is gone: train it again, or import its file",
                             r->text);
    return found == 1 ||
           sealed_refuse(e, SEALED_DAMAGED, "the reference %s stands for %d models, expected one",
                         r->text, found);
}

static int open_file(int folder, const char *file, const store_reference *r, sealed_error *e) {
    int descriptor = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0 && errno == ELOOP)
        sealed_refuse(e, SEALED_DAMAGED,
                      "the file of the stored model %s is a link, which a store does not follow",
                      r->text);
    else if (descriptor < 0)
        sealed_refuse(e, errno == ENOENT ? SEALED_MISSING : SEALED_FAILED,
                      "opening the stored model %s failed: %s", r->text, strerror(errno));
    return descriptor;
}

bool store_reference_in(const char *root, const store_reference *r) {
    char file[DIGEST + sizeof SUFFIX];
    sealed_error e;
    int folder = open_folder(root, r, &e);
    return folder >= 0 && find(folder, r, file, &e);
}

sealed_file *store_reference_open(const char *root, const store_reference *r, int64_t memory,
                                  sealed_error *e) {
    char file[DIGEST + sizeof SUFFIX], label[STORE_REFERENCE + 32];
    int folder = open_folder(root, r, e);
    int listed = folder < 0 ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int descriptor = -1;
    if (folder >= 0 && listed < 0)
        sealed_refuse(e, SEALED_FAILED, "opening the store '%s' failed: %s", r->name,
                      strerror(errno));
    else if (folder >= 0 && find(listed, r, file, e))
        descriptor = open_file(folder, file, r, e);
    if (folder >= 0)
        close(folder);
    if (descriptor < 0)
        return NULL;
    file[DIGEST] = 0;
    snprintf(label, sizeof label, "the stored model %s", r->text);
    return sealed_file_open(descriptor, label, file, memory, e);
}
